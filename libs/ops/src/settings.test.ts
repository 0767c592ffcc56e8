import { describe, expect, test } from '@jest/globals';
import { ConfigError, reportConfigError } from './config-error.js';
import { setting, type Setting } from './setting.js';
import { readSettings, rule, type SettingsSpec } from './settings.js';

const about = 'what it is for';
const read = <T>(one: Setting<T>, text?: string) => readSettings({ one }, { [one.variable]: text }).one;

function problemsOf(spec: SettingsSpec, env: Record<string, string>) {
  try {
    readSettings(spec, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map(({ message }) => message);
    throw error;
  }
  return [];
}
const wrong = (one: Setting<unknown>, text: string) => problemsOf({ one }, { [one.variable]: text });

test('settings are typed values, with defaults where nothing is set', () => {
  const spec = {
    leaseMs: setting.duration('LEASE_MS', { default: 30_000, min: 100, about }),
    store: setting.string('STORE', { required: true, about }),
    legacy: setting.oneOf('LEGACY', ['sessions', 'stateless'], { default: 'sessions', about }),
    auth: setting.listOf('AUTH', ['none', 'keys'], { about }),
    listenUrl: setting.string('LISTEN_URL', { about }),
  };
  const settings = readSettings(spec, { STORE: ' memory: ', LISTEN_URL: '  ', AUTH: 'keys, none' });
  const typed: { leaseMs: number; store: string; legacy: 'sessions' | 'stateless' } = settings;
  // @ts-expect-error an optional setting may be undefined
  const optional: string = settings.listenUrl;
  expect(optional).toBeUndefined();
  expect(typed).toEqual({
    leaseMs: 30_000,
    store: 'memory:',
    legacy: 'sessions',
    auth: ['keys', 'none'],
    listenUrl: undefined,
  });
  expect(Object.isFrozen(settings)).toBe(true);
});

test('a misspelt option of a setting does not compile', () => {
  // @ts-expect-error `defualt`
  expect(setting.integer('N', { about, defualt: 3 }).fallback).toBeUndefined();
  // @ts-expect-error a default outside the set
  expect(setting.oneOf('E', ['a', 'b'], { about, default: 'c' }).fallback).toBe('c');
});

test('every problem is listed at once, in the order of the spec, then the broken rules', () => {
  const spec = {
    store: setting.string('STORE', { required: true, about: 'where runs live', example: 'memory:' }),
    port: setting.integer('PORT', { min: 0, max: 65_535, default: 8000, about }),
    auth: setting.listOf('AUTH', ['none', 'keys'], { default: ['none'], about }),
    keys: setting.keyMap('KEYS', { about }),
  };
  const needKeys = rule(spec, ['auth', 'keys'], ({ auth, keys }) =>
    auth.includes('keys') && keys === undefined
      ? { variable: 'KEYS', message: 'is required by AUTH=keys' }
      : undefined,
  );
  const needPort = rule(spec, ['port'], () => ({ variable: 'PORT', message: 'this rule must not run' }));
  let thrown: unknown;
  try {
    readSettings(spec, { PORT: '70000', AUTH: 'keys' }, [needKeys, needPort]);
  } catch (error) {
    thrown = error;
  }
  const printed: string[] = [];
  expect(reportConfigError(thrown, { write: (text) => printed.push(text) })).toBe(78);
  expect(printed).toEqual([
    'STORE: is required and not set (where runs live); for example memory:\n',
    'PORT: must be a whole number, at least 0, at most 65535, not "70000"\n',
    'KEYS: is required by AUTH=keys\n',
  ]);
  expect(thrown).toMatchObject({ name: 'ConfigError', exitCode: 78 });
});

test('an error that is not about configuration is left to the caller', () => {
  const printed: string[] = [];
  expect(reportConfigError(new Error('no'), { write: (text) => printed.push(text) })).toBeUndefined();
  expect(printed).toEqual([]);
});

test('a problem takes one line whatever the value holds', () => {
  const printed: string[] = [];
  const error = new ConfigError([{ variable: 'X', message: 'two\r\nlines' }]);
  reportConfigError(error, { write: (text) => printed.push(text) });
  expect(printed).toEqual(['X: two lines\n']);
});

describe('numbers', () => {
  const lease = setting.duration('LEASE_MS', { min: 100, max: 5000, special: { 0: 'off' }, about });

  test('are whole and in bounds', () => {
    expect(read(lease, '100')).toBe(100);
    expect(read(lease, '5000')).toBe(5000);
    for (const text of ['99', '5001', '30s', '1.5', '1e3', '0x10', '-1', '1_000', '9007199254740993']) {
      expect(wrong(lease, text)).toEqual([
        `must be a whole number of milliseconds, at least 100, at most 5000, or 0 (off), not "${text}"`,
      ]);
    }
  });

  test('have special values outside the bounds', () => {
    expect(read(lease, '0')).toBe(0);
  });

  test('that become timers stay below what a timer can hold, unless told otherwise', () => {
    expect(wrong(setting.duration('MS', { about }), '2147483648')).toHaveLength(1);
    expect(read(setting.duration('MS', { about, max: 1e12 }), '2147483648')).toBe(2_147_483_648);
    expect(read(setting.bytes('BYTES', { about }), '2147483648')).toBe(2_147_483_648);
    expect(wrong(setting.bytes('BYTES', { about }), '-1')).toHaveLength(1);
  });

  test('set by a Kubernetes service link are explained', () => {
    expect(wrong(setting.integer('HOLDFAST_PORT', { about }), 'tcp://10.0.0.1:8000')).toEqual([
      'was set by a Kubernetes service link; set enableServiceLinks: false on the pod',
    ]);
  });
});

test('booleans take six words in any case', () => {
  const flag = setting.boolean('FLAG', { default: false, about });
  expect(['true', '1', 'yes', 'True'].map((text) => read(flag, text))).toEqual([true, true, true, true]);
  expect(['false', '0', 'no', 'NO'].map((text) => read(flag, text))).toEqual([false, false, false, false]);
  expect(wrong(flag, 'on')).toEqual(['must be true or false (1, yes, 0 and no do as well), not "on"']);
});

test('words out of a closed set', () => {
  const legacy = setting.oneOf('LEGACY', ['sessions', 'stateless', 'reject'], { about });
  expect(read(legacy, 'reject')).toBe('reject');
  expect(wrong(legacy, 'Reject')).toEqual(['must be one of sessions, stateless, or reject, not "Reject"']);
  const auth = setting.listOf('AUTH', ['none', 'keys', 'jwt'], { about });
  expect(read(auth, 'jwt,keys,')).toEqual(['jwt', 'keys']);
  expect(wrong(auth, 'key,jwt,jwt')).toEqual([
    'must list none, keys, or jwt, not "key"',
    'lists "jwt" twice; keep one',
  ]);
  expect(wrong(auth, ',')).toHaveLength(1);
});

test('a list drops blank entries and checks each', () => {
  const hosts = setting.list('HOSTS', {
    about,
    check: (host) => (host.includes('/') ? `must list host names, not "${host}"` : undefined),
  });
  expect(read(hosts, ' a ,, b')).toEqual(['a', 'b']);
  expect(wrong(hosts, 'a,http://b,c/')).toHaveLength(2);
  expect(wrong(hosts, ' , ')).toHaveLength(1);
});

test('a URL has one of the protocols and carries no credentials', () => {
  const jwks = setting.url('JWKS_URL', { about, protocols: ['https:'] });
  expect(read(jwks, 'https://issuer.example/keys')).toBe('https://issuer.example/keys');
  expect(wrong(jwks, 'http://issuer.example')).toHaveLength(1);
  expect(wrong(jwks, 'issuer.example')).toHaveLength(1);
  expect(wrong(jwks, 'https://me:hunter2@issuer.example')).toEqual([
    'must not carry a user name or a password; take them out of the URL',
  ]);
});

test('text with control characters is refused', () => {
  expect(wrong(setting.string('S', { about }), 'a\u0000b')).toEqual(['has control characters; remove them']);
});

test('a key of 32 bytes is read from hex', () => {
  const key = setting.hexKey('KEY', { about });
  expect(read(key, 'ab'.repeat(32))).toEqual(new Uint8Array(32).fill(0xab));
  expect(read(setting.hexKeys('KEYS', { about }), `${'ab'.repeat(32)}, ${'CD'.repeat(32)}`)).toEqual([
    new Uint8Array(32).fill(0xab),
    new Uint8Array(32).fill(0xcd),
  ]);
});

test('no value of a secret, and no password of a URL, is in a message', () => {
  const secret = 'hunter2hunter2';
  const check = () => 'is too short';
  const messages = [
    ...wrong(setting.hexKey('KEY', { about }), secret),
    ...wrong(setting.hexKeys('KEYS', { about }), `${'ab'.repeat(32)},${secret}`),
    ...wrong(setting.string('TOKEN', { about, secret: true, check }), secret),
    ...wrong(setting.keyMap('API_KEYS', { about }), secret),
    ...wrong(setting.keyMap('API_KEYS', { about }), `{"a":"${secret}","b":"${secret}"}`),
    ...wrong(setting.keyMap('API_KEYS', { about }), `{"a":"${secret}"`),
    ...wrong(setting.integer('PORT', { about }), `postgres://user:${secret}@db/x`),
  ];
  expect(messages).toHaveLength(7);
  expect(messages.filter((message) => message.includes('hunter2'))).toEqual([]);
  expect(messages[1]).toContain('key 2 must be 64 hex characters');
});
