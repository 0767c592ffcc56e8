import type { JsonSchema } from './schema.js';

/** What the dialects of JSON Schema read differently. Where none is named, whatever is unambiguous is read. */
export interface Dialect {
  /** What stands beside a `$ref` counts for nothing (before 2019-09). */
  readonly refStandsAlone: boolean;
  /** `prefixItems` is a tuple, and what `contains` finds is evaluated (2020-12). */
  readonly hasPrefixItems: boolean;
  /** `minContains` and `maxContains` (from 2019-09). */
  readonly countsContained: boolean;
}

const ofDraft7: Dialect = { refStandsAlone: true, hasPrefixItems: false, countsContained: false };
const of2019: Dialect = { refStandsAlone: false, hasPrefixItems: false, countsContained: true };
const of2020: Dialect = { refStandsAlone: false, hasPrefixItems: true, countsContained: true };

/** The dialect that a schema names; 2020-12 where it names none, or one that nobody here knows. */
export function dialectOf({ $schema }: JsonSchema): Dialect {
  if (typeof $schema !== 'string') return of2020;
  if (/draft-0[3-7]/.test($schema)) return ofDraft7;
  return $schema.includes('2019-09') ? of2019 : of2020;
}
