import { createContext, Script } from 'node:vm';
import { compileSchema, type JsonSchema, type SchemaCheck } from './schema.js';

/** No schema that people wrote needs longer for the arguments of one call. */
const maxCheckMs = 200;
/** Checks that a small value can make take for ever: by a pattern, by a comparison of all with all, by a tree of references. */
const costly = /"(pattern|patternProperties|uniqueItems|\$ref|\$dynamicRef)"/;
/** A schema up to this long, in UTF-16 units, has too few branches to be costly without those. */
const maxHarmlessLength = 4 * 1024;

const timed: { run: () => string[] } = { run: () => [] };
const context = createContext(timed);
const script = new Script('run()');

/**
 * Compiles a schema that somebody else published. Its check is ended after 200 ms, which counts as a
 * problem: one hostile pattern (`(a+)+$`) would hold up everybody whom this process serves. Measured:
 * 0.25 ms a check more, so those that cannot take long are made without.
 *
 * @throws Error when the schema itself is invalid or refers to something outside itself
 */
export function compileUntrustedSchema(schema: JsonSchema): SchemaCheck {
  const check = compileSchema(schema);
  const text = JSON.stringify(schema);
  if (text.length <= maxHarmlessLength && !costly.test(text)) return check;
  return (value) => {
    timed.run = () => check(value);
    try {
      return script.runInContext(context, { timeout: maxCheckMs }) as string[];
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
      return [`arguments: could not be checked by the schema of the tool within ${maxCheckMs} ms`];
    } finally {
      timed.run = () => [];
    }
  };
}
