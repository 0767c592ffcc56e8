/**
 * `npm run conformance`: the official suite against the standalone app, in both requirement sets.
 * conformance-expected.json lists known failures. Any other failure, and a known failure that passes, fails
 * the command.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startBearerProxy } from './bearer-proxy.ts';
import { startStandalone } from './standalone.ts';
import { judge, type Check, type ExpectedFailures, type ScenarioVerdict } from './verdict.ts';

const requirementSets = ['2025-11-25', '2026-07-28'];
const here = import.meta.dirname;
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
const expected = JSON.parse(
  await readFile(join(here, 'conformance-expected.json'), 'utf8'),
) as ExpectedFailures[];

const output = await mkdtemp(join(tmpdir(), 'holdfast-conformance-'));
const key = randomBytes(24).toString('base64url');
const holdfast = await startStandalone({
  HOLDFAST_AUTH: 'keys',
  HOLDFAST_API_KEYS: JSON.stringify({ conformance: key }),
  HOLDFAST_TOOLS: join(here, 'conformance-tools.ts'),
  HOLDFAST_STORE: `sqlite:${join(output, 'holdfast.db')}`,
});
const proxy = await startBearerProxy({ host: '127.0.0.1', port: holdfast.port }, key);

let passed = 0;
let failed = 0;
let known = 0;
try {
  for (const requirements of requirementSets) {
    console.log(`\n${requirements}`);
    for (const verdict of judge(requirements, await runSuite(requirements), expected)) {
      passed += verdict.passed;
      failed += verdict.problems.length;
      known += verdict.expected.length;
      printRow(verdict);
    }
  }
} finally {
  await proxy.close();
  await holdfast.stop();
  await rm(output, { recursive: true, force: true });
}
if (failed > 0) console.log(`\nthe standalone app printed:\n${holdfast.printed().slice(-4000)}`);
console.log(`\n${known} checks fail as expected (each one in test/interop/conformance-expected.json):`);
expected.forEach(({ reason }, index) => console.log(`  [${index + 1}] ${reason}`));
console.log(
  `\nofficial suite ${requirementSets.join(' and ')}: ${failed === 0 ? 'as expected' : 'NOT as expected'}`,
);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;

function printRow({ scenario, passed: ok, expected: failures, problems }: ScenarioVerdict): void {
  const mark = problems.length > 0 ? '✗' : failures.length > 0 ? '~' : '✓';
  const reasons = new Set(
    failures.map(({ reason }) => expected.findIndex((known) => known.reason === reason)),
  );
  const notes = [...reasons].map((index) => `[${index + 1}]`).join(' ');
  console.log(
    `  ${mark} ${scenario.padEnd(46)}${count(ok, 'passed')}${count(failures.length, 'expected')} ${notes}`.trimEnd(),
  );
  for (const problem of problems) console.log(`      ✗ ${problem}`);
}

function count(number: number, word: string): string {
  return number === 0 ? '' : ` ${String(number).padStart(2)} ${word}`;
}

/** The checks of every scenario that the set runs, scored or not. */
async function runSuite(requirements: string): Promise<Map<string, Check[]>> {
  const folder = join(output, requirements);
  const url = `http://127.0.0.1:${proxy.port}/mcp`;
  const child = spawn(
    process.execPath,
    [suite, 'server', '--url', url, '--requirements', requirements, '--output-dir', folder],
    { cwd: output, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  }
  await once(child, 'close');
  // Exit code 1 only means that a check failed; an aborted run has no summary.
  if (!text.includes('=== SUMMARY ===')) throw new Error(`the suite did not finish:\n${text.slice(-4000)}`);
  const results = new Map<string, Check[]>();
  for (const name of (await readdir(folder)).sort()) {
    const scenario = name.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
    results.set(scenario, JSON.parse(await readFile(join(folder, name, 'checks.json'), 'utf8')) as Check[]);
  }
  return results;
}
