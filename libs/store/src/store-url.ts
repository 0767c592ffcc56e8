import { RunError } from '@holdfast/run';

/** How the characters are written that end a user or a password in a URL. */
const encodings = 'write @ as %40, / as %2F, ? as %3F, # as %23, : as %3A and % as %25';

/**
 * Throws for a user or a password that does not stand in the URL as it should: its tail would be taken
 * for the host, and so be logged and asked of DNS.
 *
 * @param what  the kind of URL, for the message; nothing of the URL itself is quoted
 * @throws RunError `store-unfit`
 */
export function checkCredentials(url: string, what: string): void {
  const rest = url.slice(url.indexOf('//') + 2);
  const authority = /^[^/?#]*/.exec(rest)![0];
  const userInfo = authority.slice(0, Math.max(0, authority.lastIndexOf('@')));
  if (rest.lastIndexOf('@') < authority.length && isDecodable(userInfo)) return;
  throw new RunError(
    'store-unfit',
    `the user or the password in ${what} holds a character that ends it; ${encodings}`,
  );
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * The options of a store URL, which all have to be known: one that is passed over would let two
 * deployments share what each takes for its own.
 *
 * @throws RunError `store-unfit` naming the first that is unknown or given twice
 */
export function readOptions<Name extends string>(
  query: string,
  known: readonly Name[],
  what: string,
): { readonly [name in Name]?: string } {
  const options: { [name in Name]?: string } = {};
  for (const [name, value] of new URLSearchParams(query)) {
    const shown = /^[\w.-]{1,40}$/.test(name) ? ` ${name}` : '';
    if (!known.includes(name as Name))
      throw new RunError(
        'store-unfit',
        known.length === 0
          ? `${what} has an option${shown}, and takes none`
          : `${what} has an unknown option${shown}; known are ${known.join(', ')}`,
      );
    if (options[name as Name] !== undefined)
      throw new RunError('store-unfit', `${what} has the option${shown} twice; remove one`);
    options[name as Name] = value;
  }
  return options;
}

/** Whether other machines may use the store as well: it is a server, not memory or a file. */
export function isShared(url: string): boolean {
  return !/^(memory|sqlite):/.test(url);
}

/** A store URL for people: without user, password and options. */
export function storeName(url: string): string {
  const scheme = /^[a-z]+:(\/\/)?/i.exec(url)?.[0] ?? '';
  if (!scheme.endsWith('//')) return url.replace(/\?.*$/s, '');
  return (
    scheme +
    url
      .slice(scheme.length)
      .replace(/^.*@/s, '')
      .replace(/[?#].*$/s, '')
  );
}
