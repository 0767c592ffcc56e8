import { ConfigError, type ConfigProblem } from './config-error.js';
import { type Setting } from './setting.js';

/** The environment as a value. Only the start of an app hands over the real one. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** The settings of one app: property name to setting. */
export type SettingsSpec = Readonly<Record<string, Setting<unknown>>>;

/** What `readSettings` gives for a spec. */
export type SettingsOf<S extends SettingsSpec> = {
  readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never;
};

/** A check across settings; made with `rule`. */
export interface SettingsRule {
  readonly needs: readonly string[];
  check(values: Readonly<Record<string, unknown>>): ConfigProblem | undefined;
}

/**
 * A check across settings, such as "this is required when that is chosen". It runs once all it needs could be
 * read, whether or not other settings could, so its problem is listed beside theirs.
 */
export function rule<S extends SettingsSpec, K extends keyof S & string>(
  _spec: S,
  needs: readonly K[],
  check: (values: Pick<SettingsOf<S>, K>) => ConfigProblem | undefined,
): SettingsRule {
  return { needs, check: (values) => check(values as Pick<SettingsOf<S>, K>) };
}

/**
 * Reads every setting once.
 *
 * @throws ConfigError listing every problem: what could not be read, and every rule that is broken
 */
export function readSettings<S extends SettingsSpec>(
  spec: S,
  env: Environment,
  rules: readonly SettingsRule[] = [],
): SettingsOf<S> {
  const values: Record<string, unknown> = {};
  const problems: ConfigProblem[] = [];
  for (const [name, setting] of Object.entries(spec)) {
    const { variable } = setting;
    const text = env[variable]?.trim() ?? '';
    if (text === '') {
      if (setting.required && setting.fallback === undefined) problems.push(missing(setting));
      else values[name] = setting.fallback;
      continue;
    }
    const parsed = setting.parse(text);
    if ('value' in parsed) values[name] = parsed.value;
    else problems.push(...parsed.wrong.map((message) => ({ variable, message })));
  }
  for (const { needs, check } of rules) {
    const problem = needs.every((name) => Object.hasOwn(values, name)) ? check(values) : undefined;
    if (problem !== undefined) problems.push(problem);
  }
  if (problems.length > 0) throw new ConfigError(problems);
  return Object.freeze(values) as SettingsOf<S>;
}

function missing({ variable, about, accepts, example }: Setting<unknown>): ConfigProblem {
  const remedy =
    example === undefined ? `set it to ${accepts.replaceAll('`', '')}` : `for example ${example}`;
  return { variable, message: `is required and not set (${about}); ${remedy}` };
}
