import { expect, test } from '@jest/globals';
import { maskSecrets } from './mask.js';

test.each([
  ['connect postgres://user:pass@db:5432/x failed', 'connect postgres://***@db:5432/x failed'],
  ['rediss://:pass@cache', 'rediss://***@cache'],
  ['https://token@host/path', 'https://***@host/path'],
  ['postgres://user:p@ss@db/x', 'postgres://***@db/x'],
  ['postgres://user:p/s?s#@db/x', 'postgres://***@db/x'],
  ['POSTGRES://U:P@db', 'POSTGRES://***@db'],
  ['a://u:p@h and b://u:p@h', 'a://***@h and b://***@h'],
  ['http://host:8000/@scope/name', 'http://host:8000/@scope/name'],
  ['http://host/path?mail=a@b', 'http://host/path?mail=a@b'],
  ['Authorization: Bearer abc.def-123', 'Authorization: Bearer ***'],
  ['header Basic dXNlcjpwYXNz', 'header Basic ***'],
  ['/x?token=abc&b=1', '/x?token=***&b=1'],
  ['host=db password=hunter2 user=x', 'host=db password=*** user=x'],
  ['nothing to hide', 'nothing to hide'],
])('%s', (text, masked) => {
  expect(maskSecrets(text)).toBe(masked);
});

test('a long text is cut, and a hostile one is masked in no time', () => {
  expect(maskSecrets('x'.repeat(100_000))).toMatch(/^x{8192}… \[cut, 100000 characters\]$/);
  for (const hostile of ['x://x:', 'a', 'a://', 'bearer ', 'token=', 'x:']) {
    const started = performance.now();
    maskSecrets(hostile.repeat(1_000_000 / hostile.length));
    expect(performance.now() - started).toBeLessThan(500);
  }
});
