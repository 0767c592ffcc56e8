/** A log for units that are not asked about theirs. */
export const silent = { debug() {}, info() {}, warn() {}, error() {} };

export interface LogLine {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly message: string;
}

export function recordingLog() {
  const lines: LogLine[] = [];
  const write = (fields: object, message: string) => void lines.push({ fields: { ...fields }, message });
  return { lines, log: { debug: write, info: write, warn: write, error: write } };
}
