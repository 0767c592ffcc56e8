/** One report of progress, as MCP has it: any rising number, an optional total and message. */
export interface Progress {
  readonly value: number;
  readonly total?: number;
  readonly message?: string;
}
