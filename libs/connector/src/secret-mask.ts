import { isInexactNumber } from '@holdfast/run';
import { maskForms } from '@holdfast/ops';

/** Shorter values are everywhere: masking them would destroy results. */
const minSecret = 8;
const maxSecrets = 1_000;
/** Texts of upstreams are cut before they arrive here; the start of a secret at their end counts from this length. */
const maxPartial = 4_096;
/** Deeper parts of a result are replaced when it is recorded. */
const maxDepth = 1_000;
const ordinaryHeaders = ['accept', 'accept-language', 'content-type', 'user-agent', 'host'];
const authorization = /\b(bearer|basic)\s+(?=[a-z._~+/=-]*\d)[a-z0-9._~+/=-]{16,}/gi;

/** What an operator wrote for a server, placeholders filled, by where it stands. */
export interface WrittenValues {
  readonly headers?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly args?: readonly string[];
}

/**
 * The values that one connection sends to its server and nobody else may see. Whatever the server says is
 * masked before it leaves the connector: in errors and progress these values and what looks like a credential; in
 * results these values and bearer or basic credentials alone, since a result is data that may hold source text.
 */
export class SecretMask {
  readonly #values = new Set<string>();
  #longestFirst: readonly string[] = [];

  /** Values that are secrets by where they come from: variables, and credentials of callers. */
  add(values: Iterable<string>): void {
    for (const value of values)
      for (const form of formsOf(value)) {
        if (form.length < minSecret) continue;
        this.#values.delete(form);
        this.#values.add(form);
      }
    // The latest count: credentials are renewed for as long as a connection lives.
    for (const oldest of this.#values) {
      if (this.#values.size <= maxSecrets) break;
      this.#values.delete(oldest);
    }
    this.#longestFirst = [...this.#values].sort((a, b) => b.length - a.length);
  }

  /** Values that stand in the settings, but for those that say nothing: words, paths, URLs, options. */
  addWritten({ headers = {}, env = {}, args = [] }: WrittenValues): void {
    const ofHeaders = Object.entries(headers).filter(
      ([name]) => !ordinaryHeaders.includes(name.toLowerCase()),
    );
    const ofArguments = args.flatMap((arg) => [arg.replace(/^-{1,2}[\w.-]+=/, '')]);
    const written = [...ofHeaders.map(([, value]) => value), ...Object.values(env), ...ofArguments];
    this.add(written.filter((value) => !isOrdinary(value)));
  }

  /** An error, a reason or a progress message. */
  text(text: string): string {
    return maskForms(this.#exact(text, true));
  }

  /** A JSON value as `parseJson` gave it, keys of objects included. */
  value(value: unknown, text = this.#ofResult): unknown {
    return mapTexts(value, text, 0);
  }

  readonly #ofResult = (text: string): string => this.#exact(text, false).replace(authorization, '$1 ***');

  #exact(text: string, mayBeCut: boolean): string {
    let masked = text;
    for (const secret of this.#longestFirst) {
      masked = masked.replaceAll(secret, '***');
      if (mayBeCut) masked = withoutStart(masked, secret);
    }
    return masked;
  }
}

/** Without the start of a secret that was cut at the end of a text. */
function withoutStart(text: string, secret: string): string {
  for (let length = Math.min(secret.length - 1, text.length, maxPartial); length >= minSecret; length--)
    if (text.endsWith(secret.slice(0, length))) return `${text.slice(0, -length)}***`;
  return text;
}

/** A value as servers show it: whole, its lines, what follows a scheme, decoded, encoded, and inside JSON. */
function formsOf(value: string): readonly string[] {
  const [, scheme = '', credential] = /^\s*([A-Za-z][\w-]*)\s+(\S+)\s*$/.exec(value) ?? [];
  const plain = [value, value.trim(), ...value.split(/[\r\n]+/)];
  if (credential !== undefined) plain.push(credential);
  if (credential !== undefined && scheme.toLowerCase() === 'basic') {
    const pair = Buffer.from(credential, 'base64').toString('utf8');
    plain.push(pair, pair.slice(pair.indexOf(':') + 1));
  }
  const { password = '' } = URL.parse(value) ?? {};
  if (password !== '') plain.push(password, safely(() => decodeURIComponent(password)) ?? password);
  return [...new Set(plain)].flatMap((form) => [
    form,
    safely(() => encodeURIComponent(form)) ?? form,
    JSON.stringify(form).slice(1, -1),
    Buffer.from(form).toString('base64').replace(/=+$/, ''),
  ]);
}

function safely<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch {
    return undefined;
  }
}

/** A word, a name, a path, an option or a URL without credentials: results are full of them. */
function isOrdinary(value: string): boolean {
  const isWord = value.length < 20 && /^["']?[a-z]+(?:[-_. :,/][a-z]+)*["']?$/i.test(value);
  const isPath = /^(?:[.~]{0,2}|[A-Za-z]:)[\\/](?:[\w.@ -]+[\\/:]?)*$/.test(value) && value.length < 200;
  const isOption = /^-{1,2}[\w-]+$/.test(value) || /^@[\w.-]+\/[\w.-]+(?:@[\w.-]+)?$/.test(value);
  const url = URL.parse(value);
  const isOpenUrl =
    url !== null && /^https?:$/.test(url.protocol) && url.password === '' && url.search === '';
  return isWord || isPath || isOption || isOpenUrl;
}

function mapTexts(value: unknown, text: (text: string) => string, depth: number): unknown {
  if (typeof value === 'string') return text(value);
  if (typeof value === 'number') {
    const digits = String(value);
    return digits.length >= minSecret && text(digits) === '***' ? '***' : value;
  }
  if (isInexactNumber(value)) return text(value.rawJSON) === value.rawJSON ? value : '***';
  if (typeof value !== 'object' || value === null || depth > maxDepth) return value;
  if (Array.isArray(value)) return value.map((item) => mapTexts(item, text, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [text(key), mapTexts(member, text, depth + 1)]),
  );
}
