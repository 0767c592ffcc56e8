import { expect, test } from '@jest/globals';
import { setting } from './setting.js';
import { describeSettings, markdownTable } from './settings-table.js';

test('the documentation of settings is a table in the order of the spec', () => {
  const spec = {
    leaseMs: setting.duration('HOLDFAST_LEASE_MS', {
      default: 30_000,
      min: 100,
      about: 'how long a lease lasts; renewed at a third',
    }),
    wait: setting.duration('HOLDFAST_WAIT_TIMEOUT_MS', {
      default: 0,
      special: { 0: 'no limit' },
      about: 'wait',
    }),
    store: setting.string('HOLDFAST_STORE', { required: true, about: 'memory: | sqlite:\nPATH' }),
    keys: setting.keyMap('HOLDFAST_API_KEYS', { about: 'keys of callers' }),
    opsHost: setting.string('HOLDFAST_OPS_HOST', { defaultText: 'as `HOLDFAST_HOST`', about: 'where' }),
    auth: setting.listOf('HOLDFAST_AUTH', ['none', 'keys'], { default: ['none', 'keys'], about: 'who' }),
    runIdKey: setting.hexKey('HOLDFAST_RUN_ID_KEY', { defaultText: 'made once', about: 'key' }),
  };
  expect(markdownTable(describeSettings(spec))).toBe(
    [
      '| variable | default | values | meaning |',
      '| --- | --- | --- | --- |',
      '| `HOLDFAST_LEASE_MS` | `30000` | whole number of milliseconds, at least 100 | how long a lease lasts; renewed at a third |',
      '| `HOLDFAST_WAIT_TIMEOUT_MS` | `0` | whole number of milliseconds | wait; `0`: no limit |',
      '| `HOLDFAST_STORE` | none, required | text | memory: \\| sqlite: PATH |',
      '| `HOLDFAST_API_KEYS` | none | JSON object `{"name":"key"}`, `file:PATH` or `dir:PATH`; secret | keys of callers |',
      '| `HOLDFAST_OPS_HOST` | as `HOLDFAST_HOST` | text | where |',
      '| `HOLDFAST_AUTH` | `none,keys` | comma list of `none`, `keys` | who |',
      '| `HOLDFAST_RUN_ID_KEY` | made once | 64 hex characters; secret | key |',
      '',
    ].join('\n'),
  );
});

test('a default that is a secret is not in the documentation', () => {
  const spec = {
    key: setting.hexKey('KEY', { default: new Uint8Array(32).fill(1), about: 'key' }),
    token: setting.string('TOKEN', { default: 'hunter2', secret: true, about: 'token' }),
  };
  expect(describeSettings(spec).map((row) => row.default)).toEqual(['set', 'set']);
});
