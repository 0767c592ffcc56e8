import { describe, expect, test } from '@jest/globals';
import type { Connection } from '@holdfast/mcp-client';
import { Pool } from './pool.js';

/** A connection that only knows whether it was closed. */
function fakeConnection(): Connection & { readonly closed: () => boolean } {
  let isOpen = true;
  return {
    protocolVersion: '2025-11-25',
    serverInfo: undefined,
    get isOpen() {
      return isOpen;
    },
    closed: () => !isOpen,
    listPage: () => Promise.resolve({}),
    send: () => Promise.resolve({ kind: 'result', result: {} }),
    onToolsChanged: () => {},
    close: () => Promise.resolve(void (isOpen = false)),
  };
}

function openPool(): { readonly pool: Pool; readonly opened: ReturnType<typeof fakeConnection>[] } {
  const opened: ReturnType<typeof fakeConnection>[] = [];
  const pool = new Pool(
    () => {
      const connection = fakeConnection();
      opened.push(connection);
      return Promise.resolve(connection);
    },
    { server: 's', perPrincipal: false, connectRetries: 1, connectBackoffMs: 0, idleMs: 1_000 },
    () => {},
  );
  return { pool, opened };
}

describe('a connection that is dropped', () => {
  test('is closed at once when nobody uses it', async () => {
    const { pool, opened } = openPool();
    pool.drop(await pool.get(null));
    expect(opened[0]!.closed()).toBe(true);
    expect(await pool.get(null)).toBe(opened[1]);
    await pool.close();
  });

  test('serves those who hold it to their end, while the next caller gets another (F49)', async () => {
    const { pool, opened } = openPool();
    const connection = await pool.get(null);
    const releases = [pool.hold(connection), pool.hold(connection)];
    pool.drop(connection);
    expect(await pool.get(null)).toBe(opened[1]);
    releases[0]!();
    expect(opened[0]!.closed()).toBe(false);
    releases[1]!();
    expect(opened.map(({ closed }) => closed())).toEqual([true, false]);
    await pool.close();
  });

  test('is closed with the pool though somebody holds it', async () => {
    const { pool, opened } = openPool();
    const release = pool.hold(await pool.get(null));
    pool.drop(opened[0]!);
    await pool.close();
    expect(opened[0]!.closed()).toBe(true);
    release();
  });

  test('that is held and was not dropped stays', async () => {
    const { pool, opened } = openPool();
    pool.hold(await pool.get(null))();
    expect(opened[0]!.closed()).toBe(false);
    expect(await pool.get(null)).toBe(opened[0]);
    await pool.close();
  });
});
