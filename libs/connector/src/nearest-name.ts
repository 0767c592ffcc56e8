/** The name of `names` that `name` was most likely meant to be; undefined when none is close. */
export function nearestName(name: string, names: Iterable<string>): string | undefined {
  const folded = fold(name);
  let best: string | undefined;
  let bestDistance = Math.max(2, Math.ceil(folded.length / 3)) + 1;
  for (const known of names) {
    const distance = editDistance(folded, fold(known));
    if (distance < bestDistance) [best, bestDistance] = [known, distance];
  }
  return best;
}

/** `allowHttp` and `allow-http` are `allow_http` in another hand. */
function fold(name: string): string {
  return name.slice(0, 64).toLowerCase().replace(/[-_]/g, '');
}

/** Levenshtein's distance, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const [i, letter] of [...a].entries()) {
    const next = [i + 1];
    for (const [j, other] of [...b].entries()) {
      const changed = row[j]! + (letter === other ? 0 : 1);
      next.push(Math.min(changed, row[j + 1]! + 1, next[j]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
