/** How the process of a stdio server is started. */
export interface StdioSettings {
  readonly kind: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** `allow-list`: a few harmless variables and its own; `scrub`: all but those that look like credentials. */
  readonly envPolicy: 'allow-list' | 'scrub';
}
