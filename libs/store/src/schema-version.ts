/**
 * Which versions of Holdfast may use one store. A store holds the version of its schema and the least version
 * that a process has to know to use it. Migrations that only add leave the least as it is, so processes of before
 * go on, start anew, and may be rolled back to. One that they cannot run beside says `-- breaking` on its first
 * line, and its number becomes the least.
 */
export interface SchemaVersion {
  readonly version: number;
  readonly least: number;
}

/** What a store is after all of `migrations`. */
export function schemaAfter(migrations: readonly string[]): SchemaVersion {
  return {
    version: migrations.length,
    least: migrations.findLastIndex((migration) => /^\s*-- breaking/.test(migration)) + 1,
  };
}

/** Why a process that knows `known` must not use a store that is at `found`, or undefined when it may. */
export function refusalOf({ version, least }: SchemaVersion, known: number): string | undefined {
  if (least <= known) return undefined;
  return `it was written by a newer version (schema ${version}, to be used from ${least} on; this one knows ${known}); start that version`;
}
