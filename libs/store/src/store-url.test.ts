import { describe, expect, test } from '@jest/globals';
import { openStore } from './open-store.js';
import { PostgresHosts } from './postgres-hosts.js';
import { storeName } from './store-url.js';
import { readAddress } from './valkey-connection.js';

const refusalOf = async (url: string): Promise<Error> =>
  openStore(url, { listenUrl: 'off' }).then(
    async (store) => {
      await store.close();
      throw new Error(`${url} was opened`);
    },
    (error: Error) => error,
  );

describe('G16: a password that is not written as a URL wants it', () => {
  const unwritten = ['zq/qz', 'zq?qz', 'zq#qz', 'zq%qz', 'zq/zq@qz', 'zq?zq@qz#qz', 'zq%', 'zq%E0%A4%A'];
  test.each(unwritten)('%s is refused with the encodings, and no part of it is quoted', async (password) => {
    for (const scheme of ['postgres', 'postgresql', 'valkey', 'redis', 'rediss']) {
      const error = await refusalOf(`${scheme}://me:${password}@db.invalid/1`);
      expect(error).toMatchObject({ code: 'store-unfit', message: expect.stringMatching(/%40.*%2F.*%25/) });
      expect(error.message).not.toMatch(/zq|qz|E0|me:/);
    }
  });

  test('with an @ alone, or encoded, is read', () => {
    expect(readAddress('valkey://:p@ss@h/1').options).toMatchObject({ host: 'h', password: 'p@ss' });
    expect(readAddress('valkey://:p%40%2Fss@h/1').options).toMatchObject({ host: 'h', password: 'p@/ss' });
    expect(new PostgresHosts('postgres://me:p@ss@h/orders').name).toBe('h/orders');
  });
});

describe('G01: an option of a store URL', () => {
  test.each([
    ['postgres://h/db?options=-c search_path=mine', / options; known are schema, /],
    ['postgres://h/db?prefix=staging', / prefix; known are schema, /],
    ['postgres://h/db?schema=a&schema=b', /schema twice/],
    ['postgres://h/db?schema=Mine', /a schema that cannot be used/],
    ['postgres://h/db?schema=pg_mine', /a schema that cannot be used/],
    ['postgres://h/db?schema=public', /a schema that cannot be used/],
    ['postgres://h/db?schema=', /a schema that cannot be used/],
    ['postgres://h/db#x', /not well-formed/],
    ['valkey://h/1?schema=mine', / schema; known are prefix, waitaof/],
    ['valkey://h/1?prefix=a&prefix=b', /prefix twice/],
    ['sqlite:./no.db?prefix=a', / prefix; known are synchronous/],
    ['memory:?prefix=a', /takes none/],
  ])('of %s is refused', async (url, message) => {
    expect(await refusalOf(url)).toMatchObject({
      code: 'store-unfit',
      message: expect.stringMatching(message),
    });
  });

  test('whose name is no name is not quoted', async () => {
    const { message } = await refusalOf('postgres://h/db?my%20secret=1');
    expect(message).not.toContain('secret');
  });

  test('of the connection goes on to the driver, and that of ours does not', () => {
    const hosts = new PostgresHosts('postgres://h/db?sslmode=require&schema=staging');
    expect(hosts).toMatchObject({ schema: 'staging', name: 'h/db, schema staging' });
    expect(hosts.urls).toEqual(['postgres://h/db?sslmode=require']);
  });
});

test.each([
  ['valkey://:hunter2@cache:6379/1?prefix=x', 'valkey://cache:6379/1'],
  ['redis://me:hun@ter2@cache', 'redis://cache'],
  ['postgres://me:hunter2@one:5432,two/orders?sslmode=require', 'postgres://one:5432,two/orders'],
  ['sqlite:./data/holdfast.db?synchronous=normal', 'sqlite:./data/holdfast.db'],
  ['memory:', 'memory:'],
])('G15: the name of %s holds no password', (url, name) => {
  expect(storeName(url)).toBe(name);
});
