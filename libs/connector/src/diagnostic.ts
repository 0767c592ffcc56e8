/** What is wrong with a part of the configuration, or with an upstream; the rest goes on (BEHAVIOURS 160, 167). */
export interface Diagnostic {
  readonly section: 'servers';
  readonly rule: DiagnosticRule;
  /** The id of the server; where it has none, its place in the file. */
  readonly origin: string;
  /** What is wrong and what to do. Holds no secret and no text of an upstream. */
  readonly message: string;
}

export type DiagnosticRule =
  | 'connection-failure'
  | 'env-reserved-name'
  | 'server-entry-invalid'
  | 'server-name-collision'
  /** The file as a whole cannot be read. */
  | 'servers-file-invalid'
  | 'unsupported-transport';
