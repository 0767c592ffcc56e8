/** The pattern of a schema, ready to be used. */
export interface Pattern {
  readonly expression: RegExp;
  /** Whether a short text may take it for ever: it has more than one way through a text. */
  readonly mayBranch: boolean;
}

/** Longer ones are none: to compile one cannot be stopped. */
const maxPatternLength = 16 * 1024;
const maxKept = 1_000;
const kept = new Map<string, Pattern | undefined>();

/**
 * A pattern as JavaScript reads it; undefined for one that it cannot read, or reads as something else.
 *
 * @param beforeReading called when it has to be read, which takes a moment; it may throw
 */
export function patternOf(source: string, beforeReading?: () => void): Pattern | undefined {
  if (kept.has(source)) return kept.get(source);
  beforeReading?.();
  const expression = source.length > maxPatternLength ? undefined : expressionOf(source);
  const pattern = expression && { expression, mayBranch: mayBranch(source) };
  if (kept.size >= maxKept) kept.clear();
  kept.set(source, pattern);
  return pattern;
}

function expressionOf(source: string): RegExp | undefined {
  try {
    return new RegExp(source, 'u');
  } catch {
    // JavaScript's own patterns, which Zod writes, need not be Unicode ones. But those of other languages may
    // pass for them and mean something else: \A, \Z, \z, \h, \R, \K, \G, \Q…\E, \x{…}, possessive and named groups.
    if (/\\(?:[AZzhHRKGQEX]|[xpP]\{)|\(\?P|\[\[?:/.test(source)) return undefined;
  }
  try {
    return new RegExp(source);
  } catch {
    return undefined;
  }
}

/** One repetition at most, and none of a group, takes at most the square of the length of a text. */
function mayBranch(source: string): boolean {
  const plain = source
    .replace(/\\./gs, 'x')
    .replace(/\[[^\]]*\]/g, 'x')
    .replace(/\(\?[:=!<]/g, '(');
  if (/\)[*+?{]/.test(plain) || /\\[1-9k]/.test(source)) return true;
  return (plain.replace(/\{\d+\}/g, '').match(/[*+?{]/g) ?? []).length > 1;
}
