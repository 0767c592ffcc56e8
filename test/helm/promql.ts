import { promql } from './foreign.ts';

export interface Matcher {
  readonly label: string;
  /** The values that it names individually; none for a pattern or a dashboard variable. */
  readonly values: readonly string[];
}

export interface Query {
  readonly metrics: readonly string[];
  /** Labels in matchers, groupings and joins. */
  readonly labels: readonly string[];
  readonly matchers: readonly Matcher[];
}

/** The metrics and labels of a PromQL expression. @throws Error with the position of a syntax error */
export function queryOf(text: string): Query {
  const expression = text.replaceAll('$__rate_interval', '5m');
  const metrics: string[] = [];
  const labels: string[] = [];
  const matchers: Matcher[] = [];
  promql.parse(expression).iterate({
    enter({ name, from, to, type }) {
      const part = expression.slice(from, to);
      if (type.isError) throw new Error(`invalid PromQL at ${from}: ${expression}`);
      if (name === 'Identifier') metrics.push(part);
      else if (name === 'LabelName') labels.push(part);
      else if (name === 'StringLiteral' && labels.length > 0) {
        const alternatives = part.slice(1, -1).split('|');
        const isPlain = alternatives.every((value) => /^\w+$/.test(value));
        matchers.push({ label: labels.at(-1)!, values: isPlain ? alternatives : [] });
      }
    },
  });
  return { metrics, labels, matchers };
}
