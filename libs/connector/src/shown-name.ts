/**
 * A name of a servers file as messages may show it. What does not look like a name may be a comment, or a
 * secret in the wrong place.
 */
export function shownName(name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/.test(name) ? name : '(not shown: it does not look like a name)';
}
