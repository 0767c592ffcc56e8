/** Variables of a process, by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Which variables of our own environment nobody else may read: ours, those of databases, and those
 * that carry credentials of telemetry. Compared in upper case, since Windows does not tell cases apart.
 */
const ours = /^HOLDFAST_/;
const ofServices = /^(PG|POSTGRES|REDIS|VALKEY|MYSQL|MONGO|OTEL_)|DATABASE_URL$/;

/** `HOLDFAST_…`: never read by a placeholder, never passed to a child, never set by a server's own `env`. */
export function isReservedName(name: string): boolean {
  return ours.test(name.toUpperCase());
}

/** Reserved, or a variable of a database or of telemetry. */
export function isPrivateName(name: string): boolean {
  return isReservedName(name) || ofServices.test(name.toUpperCase());
}
