import { type Environment } from './settings.js';

/** A variable that looks like ours and that nothing reads. */
export interface UnknownVariable {
  readonly variable: string;
  readonly suggestion: string | undefined;
  /** One line, without the value. */
  readonly message: string;
}

const OURS = /^HOLDFAST_/i;

/** What Kubernetes sets in each pod for a Service whose name starts with `holdfast-`. */
const SERVICE_LINK =
  /_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_PROTO|_PORT|_ADDR)?$/;

/** Read by the example tools, not by a service. */
const ELSEWHERE = ['HOLDFAST_EXAMPLES_LOG'];

/**
 * The `HOLDFAST_…` variables that no setting reads, each with the nearest name that one does, so that a typo
 * is not silent. `known` are all variables that are fine to see here; in a deployment whose services share
 * one environment that is the variables of every service.
 */
export function unknownVariables(env: Environment, known: Iterable<string>): UnknownVariable[] {
  const names = new Set([...known, ...ELSEWHERE]);
  return Object.keys(env)
    .filter(
      (variable) => OURS.test(variable) && !names.has(variable) && !isServiceLink(variable, env[variable]),
    )
    .sort()
    .map((variable) => {
      const suggestion = nearest(variable.toUpperCase(), names);
      const hint = suggestion === undefined ? 'nothing reads it' : `did you mean ${suggestion}?`;
      return { variable, suggestion, message: `${variable} is not a setting; ${hint}` };
    });
}

function isServiceLink(variable: string, value: string | undefined): boolean {
  return (
    SERVICE_LINK.test(variable) || (variable.endsWith('_PORT') && /^(tcp|udp|sctp):\/\//.test(value ?? ''))
  );
}

/**
 * At most three edits away; or cut short (`HOLDFAST_LEASE` for `HOLDFAST_LEASE_MS`), which counts as three; or
 * with a word too many, which counts as a little more.
 */
function nearest(variable: string, names: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = 4;
  for (const name of names) {
    const distance = Math.min(
      editDistance(variable, name),
      name.startsWith(`${variable}_`) ? 3 : Infinity,
      variable.startsWith(`${name}_`) ? 3.5 : Infinity,
    );
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries()) {
      const changed = (row[j] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(changed, (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
