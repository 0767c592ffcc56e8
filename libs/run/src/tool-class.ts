/** Whether repeating the tool can do harm. */
export type ToolClass = 'read' | 'write';
