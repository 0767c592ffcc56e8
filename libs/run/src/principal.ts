/**
 * Who authenticated. Equal ids in different realms are different callers (BEHAVIOURS R2);
 * ids are compared byte for byte, without trimming or case folding.
 *
 * Realms: `apikey`, `jwt:<issuer>`, `custom:<name>`, `override` (an identity function).
 */
export interface Principal {
  readonly realm: string;
  readonly id: string;
}

/** Whether `value` can be the id of a caller: a non-blank string that every store can hold. */
export function isPrincipalId(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== '' && !value.includes('\0') && value.isWellFormed();
}

export function samePrincipal(a: Principal | null, b: Principal | null): boolean {
  return a === b || (a !== null && b !== null && a.realm === b.realm && a.id === b.id);
}
