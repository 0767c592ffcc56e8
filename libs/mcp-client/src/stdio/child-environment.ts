import { isPrivateName, isReservedName, type Environment } from '../environment.js';
import { isCredentialLike, namesCredential } from './credential-like.js';
import type { StdioSettings } from './stdio-settings.js';

/** All that a child gets of our environment under `allow-list` (BEHAVIOURS 150, X16). */
const harmless = ['PATH', 'HOME', 'TMPDIR', 'LANG', 'LC_ALL', 'SystemRoot', 'PATHEXT', 'APPDATA'];

/** Windows does not tell cases of names apart. */
const isCaseless = process.platform === 'win32';

/**
 * The environment of a child: of `parent` what the policy lets pass, then the server's own variables,
 * which win. Names of ours (`HOLDFAST_…`) are in neither.
 */
export function childEnvironment(
  { env, envPolicy }: Pick<StdioSettings, 'env' | 'envPolicy'>,
  parent: Environment,
): Record<string, string> {
  const passes = envPolicy === 'allow-list' ? isHarmless : isNoCredential;
  return Object.fromEntries([
    ...Object.entries(parent).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && passes(entry[0], entry[1]),
    ),
    ...Object.entries(env).filter(([name]) => !isReservedName(name)),
  ]);
}

function isHarmless(name: string): boolean {
  return harmless.some(
    (known) => known === name || (isCaseless && known.toUpperCase() === name.toUpperCase()),
  );
}

function isNoCredential(name: string, value: string): boolean {
  return !namesCredential(name) && !isPrivateName(name) && !isCredentialLike(value);
}
