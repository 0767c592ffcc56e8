/** One check of the suite in the format of `checks.json`. */
export interface Check {
  readonly id: string;
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'SKIPPED' | 'INFO';
  readonly errorMessage?: string;
}

/** Known failures with their reasons. `checks` are `scenario:check`, by requirement set. */
export interface ExpectedFailures {
  readonly reason: string;
  readonly checks: Readonly<Record<string, readonly string[]>>;
}

export interface ScenarioVerdict {
  readonly scenario: string;
  readonly passed: number;
  readonly expected: readonly { readonly check: string; readonly reason: string }[];
  /** Unexpected failures and unexpected passes, one sentence each. */
  readonly problems: readonly string[];
}

/**
 * Judges the scenarios of one requirement set. The suite's SHOULDs (warnings) count as failures.
 * A check that a scenario runs several times passes if all of them pass.
 */
export function judge(
  requirements: string,
  results: ReadonlyMap<string, readonly Check[]>,
  expected: readonly ExpectedFailures[],
): ScenarioVerdict[] {
  const reasons = new Map(
    expected.flatMap(({ reason, checks }) => (checks[requirements] ?? []).map((check) => [check, reason])),
  );
  const unused = new Set(reasons.keys());
  const verdicts = [...results].map(([scenario, checks]) => {
    const failures = new Map<string, string>();
    const others = new Set<string>();
    for (const { id, status, errorMessage } of checks) {
      if (status === 'FAILURE' || status === 'WARNING')
        failures.set(id, errorMessage ?? status.toLowerCase());
      else if (status === 'SUCCESS') others.add(id);
    }
    const known: { check: string; reason: string }[] = [];
    const problems: string[] = [];
    for (const [id, message] of failures) {
      const key = `${scenario}:${id}`;
      const reason = reasons.get(key);
      if (reason === undefined) problems.push(`${id} failed: ${message}`);
      else {
        unused.delete(key);
        known.push({ check: id, reason });
      }
    }
    const passed = [...others].filter((id) => !failures.has(id)).length;
    return { scenario, passed, expected: known, problems };
  });
  for (const key of unused) {
    const [scenario, check] = key.split(':') as [string, string];
    const problem = `${check} was expected to fail and did not: take it out of conformance-expected.json`;
    const verdict = verdicts.find((candidate) => candidate.scenario === scenario);
    if (verdict) verdict.problems.push(problem);
    else verdicts.push({ scenario, passed: 0, expected: [], problems: [`did not run; ${problem}`] });
  }
  return verdicts;
}
