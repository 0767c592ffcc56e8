/** The lines of a connection. Arguments, results, credentials and what an upstream said are never logged. */
export interface ConnectionLog {
  debug(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}
