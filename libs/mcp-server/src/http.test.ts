import type { IncomingMessage } from 'node:http';
import { expect, test } from '@jest/globals';
import { isAllowedHost, isAllowedOrigin, loopbackHosts, readAccept } from './http.js';

const accepting = (accept: string | undefined) => readAccept({ headers: { accept } } as IncomingMessage);

test.each([
  [undefined, { json: true, stream: false }],
  ['', { json: true, stream: false }],
  ['application/json', { json: true, stream: false }],
  ['text/event-stream', { json: false, stream: true }],
  ['application/json, text/event-stream', { json: true, stream: true }],
  ['*/*', { json: true, stream: true }],
  ['application/*;q=0.9', { json: true, stream: false }],
  ['text/*', { json: false, stream: true }],
  ['TEXT/Event-Stream; q=0.1,text/html', { json: false, stream: true }],
  ['application/json;q=0, text/event-stream', { json: false, stream: true }],
])('a host that accepts %p can read %p', (accept, expected) => {
  expect(accepting(accept)).toEqual(expected);
});

test.each(['text/plain', 'application/json;q=0', 'application/jsonx', ',', 'text/event-stream;q=0.0'])(
  'a host that accepts %p can read nothing of ours',
  (accept) => {
    expect(() => accepting(accept)).toThrow(expect.objectContaining({ status: 406 }));
  },
);

test.each([
  'http://localhost',
  'http://localhost:6274',
  'https://LOCALHOST:1',
  'http://127.0.0.1:80',
  'http://[::1]:9',
])('a page of %s may call while origins are those of loopback', (origin) => {
  expect(isAllowedOrigin(origin, { origins: undefined, hosts: undefined })).toBe(true);
});

test.each([
  'null',
  '',
  'localhost',
  'http://localhost.evil.example',
  'http://evil.example',
  'http://evil.example/localhost',
  'http://localhost@evil.example',
  'http://localhost:80@evil.example',
  'http://127.0.0.1.evil.example:80',
  'http://localhost:port',
  'ftp://localhost',
  'http://localhost/',
  'http://127.0.0.2',
  'http://localhost, http://evil.example',
])('a page of %p may not', (origin) => {
  expect(isAllowedOrigin(origin, { origins: undefined, hosts: undefined })).toBe(false);
});

test('listed origins are the only ones, and exact', () => {
  const rules = { origins: ['https://desk.example'], hosts: undefined };
  expect(isAllowedOrigin('https://desk.example', rules)).toBe(true);
  for (const other of ['https://desk.example:444', 'http://desk.example', 'http://localhost', 'null'])
    expect([other, isAllowedOrigin(other, rules)]).toEqual([other, false]);
});

test('a host name counts whatever its port and case', () => {
  const rules = { origins: undefined, hosts: [...loopbackHosts, 'Gateway.example'] };
  const good = ['localhost', 'LocalHost:8000', '127.0.0.1:1', '[::1]:8000', '[::1]', 'gateway.example:443'];
  for (const host of good) expect([host, isAllowedHost(host, rules)]).toEqual([host, true]);
  const bad = ['evil.example', 'localhost.evil.example', 'a@localhost', '::1', 'localhost:x', '', undefined];
  for (const host of bad) expect([host, isAllowedHost(host, rules)]).toEqual([host, false]);
});

test('without a list any host name is answered', () => {
  expect(isAllowedHost(undefined, { origins: undefined, hosts: undefined })).toBe(true);
});
