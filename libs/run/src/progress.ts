/** One progress report as MCP defines it: any rising number, an optional total and message. */
export interface Progress {
  readonly value: number;
  readonly total?: number;
  readonly message?: string;
}
