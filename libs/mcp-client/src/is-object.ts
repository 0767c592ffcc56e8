import { isInexactNumber } from '@holdfast/run';

/** Whether what `parseJson` read is a JSON object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isInexactNumber(value);
}
