/**
 * The logger of all code. The message is short, constant and lower-case; variable parts are fields, with an error
 * under `err`. Arguments, results, credentials and texts of upstreams are never logged.
 */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The log of a service. */
export interface ServiceLog extends Log {
  /** Returns a log that adds these fields to each of its events. */
  child(fields: object): ServiceLog;
}
