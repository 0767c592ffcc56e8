import type { PhaseReport } from './drive.ts';

/** The results of each phase as a Markdown table. */
export function table(phases: readonly PhaseReport[]): string {
  const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;
  const head = [
    'while hosts call',
    'took',
    'calls',
    'failed',
    'sent again',
    'unknown',
    'not sent',
    'lost',
    'doubled',
    'longest gap: workers',
    'upstream',
    'slowest call',
  ];
  const rows = phases.map((phase) => [
    phase.name,
    seconds(phase.tookMs),
    ...[phase.calls, phase.failed.length, phase.sentAgain, phase.unknown, phase.notSent].map(String),
    ...[phase.lost.length, phase.doubled.length].map(String),
    ...[phase.gapMs.body, phase.gapMs.upstream, phase.slowestMs].map(seconds),
  ]);
  const width = head.map((name, i) => Math.max(name.length, ...rows.map((row) => row[i]!.length)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, i) => (i === 0 ? cell.padEnd(width[i]!) : cell.padStart(width[i]!))).join(' | ')} |`;
  const rule = `| ${width.map((w, i) => (i === 0 ? '-'.repeat(w) : `${'-'.repeat(w - 1)}:`)).join(' | ')} |`;
  return [line(head), rule, ...rows.map(line)].join('\n');
}
