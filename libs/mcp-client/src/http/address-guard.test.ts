import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { AddressGuard, type GuardSettings, type Resolver } from './address-guard.js';
import { ConnectionFault } from '../connection.js';

const open: GuardSettings = { allowLoopback: true, requireAllowedHosts: false, network: 'on' };
const closed: GuardSettings = { ...open, allowLoopback: false };

const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await new Promise((resolve) => server.close(resolve));
});

/** A server on loopback that must not be reached, and how many connections it saw. */
async function sentinel(): Promise<{ port: number; seen: () => number }> {
  let seen = 0;
  const server = createServer((socket: Socket) => {
    seen += 1;
    socket.destroy();
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { port: (server.address() as AddressInfo).port, seen: () => seen };
}

/** Opens a connection as undici would; resolves to its address, or to why there is none. */
function dial(guard: AddressGuard, hostname: string, port: number): Promise<unknown> {
  return new Promise((resolve) => {
    guard.connector(2_000)(
      { hostname, host: hostname, protocol: 'http:', port: String(port) },
      (error, socket) => {
        if (error !== null) {
          resolve(error);
          return;
        }
        resolve(socket.remoteAddress);
        socket.destroy();
      },
    );
  });
}

const names =
  (...addresses: string[]): Resolver =>
  async () =>
    addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

function refusalOf(guard: AddressGuard, url: string): unknown {
  try {
    return guard.check(url).href;
  } catch (error) {
    return error instanceof ConnectionFault ? [error.code, error.message] : error;
  }
}

describe('a URL', () => {
  test.each([
    ['http://0.0.0.0/mcp', '0.0.0.0'],
    ['http://[::]/mcp', '::'],
    ['http://[::ffff:127.0.0.1]/mcp', '::ffff:7f00:1'],
    ['http://2130706433/mcp', '127.0.0.1'],
    ['http://0x7f.1/mcp', '127.0.0.1'],
    ['http://0177.0.0.1/mcp', '127.0.0.1'],
    ['http://127.1:80/mcp', '127.0.0.1'],
    ['http://169.254.169.254/latest', '169.254.169.254'],
    ['http://0xA9FEA9FE/latest', '169.254.169.254'],
    ['http://10.0.0.1/mcp', '10.0.0.1'],
    ['http://user:secret@example.com/mcp', 'example.com'],
  ])('F124: %s is refused with the same error, even where loopback is allowed', (url, host) => {
    expect(refusalOf(new AddressGuard(open), url)).toEqual([
      'blocked',
      `the address guard refuses the host ${host}`,
    ]);
  });

  test.each([
    'http://127.0.0.1:1/mcp',
    'http://127.3.2.1/mcp',
    'http://localhost:1/mcp',
    'http://[::1]:1/mcp',
  ])('%s passes while loopback is allowed', (url) => {
    expect(refusalOf(new AddressGuard(open), url)).toBe(url);
  });

  test.each(['http://127.0.0.1:1/mcp', 'http://[::1]:1/mcp'])('%s is refused while it is not', (url) => {
    expect(refusalOf(new AddressGuard(closed), url)).toEqual(['blocked', expect.any(String)]);
  });

  test.each(['/mcp', 'example.com/mcp', 'ftp://example.com/', 'file:///etc/passwd', ''])(
    'that is none of http is refused: %s',
    (url) => {
      expect(refusalOf(new AddressGuard(open), url)).toEqual([
        'blocked',
        expect.stringContaining('absolute'),
      ]);
    },
  );

  test('is refused while the network is off, whatever it is', () => {
    const guard = new AddressGuard({ ...open, network: 'off' });
    expect(refusalOf(guard, 'https://example.com/')).toEqual([
      'blocked',
      expect.stringContaining('switched off'),
    ]);
  });

  describe('with a list of hosts', () => {
    const guard = new AddressGuard({
      ...open,
      allowedHosts: ['API.example.com', '10.0.0.1', '[fd00::1]'],
      allowPrivate: true,
    });

    test.each([
      'https://api.example.com/mcp',
      'https://Api.Example.COM:8443/mcp',
      'http://10.0.0.1/mcp',
      'http://[fd00::1]/mcp',
    ])('%s passes', (url) => {
      expect(refusalOf(guard, url)).toBe(new URL(url).href);
    });

    test.each([
      'https://example.com/',
      'https://api.example.com./',
      'https://xapi.example.com/',
      'https://api.example.com.evil.example/',
      'http://localhost/',
      'http://10.0.0.2/',
    ])('%s is refused', (url) => {
      expect(refusalOf(guard, url)).toEqual(['blocked', expect.any(String)]);
    });
  });

  describe('G34: at a private address', () => {
    const privates = ['10.0.0.1', '172.16.0.1', '192.168.1.1', '100.64.0.1', 'fd00::1', '::ffff:10.0.0.1'];
    const urlOf = (address: string): string => `https://${address.includes(':') ? `[${address}]` : address}/`;

    test.each(privates)(
      '%s is refused, listed or not, unless private addresses are allowed',
      async (address) => {
        const literal = new URL(urlOf(address)).hostname;
        for (const allowedHosts of [undefined, [literal, 'wiki.internal']]) {
          const list = allowedHosts && { allowedHosts };
          const [without, allowed] = [{}, { allowPrivate: true }].map(
            (permission) => new AddressGuard({ ...open, ...list, ...permission }, names(address)),
          ) as [AddressGuard, AddressGuard];
          expect(refusalOf(without, urlOf(address))).toEqual(['blocked', expect.any(String)]);
          expect(await dial(without, 'wiki.internal', 9)).toMatchObject({ code: 'blocked' });
          expect(refusalOf(allowed, urlOf(address))).toBe(urlOf(literal.replace(/[[\]]/g, '')));
        }
      },
    );

    test('the permission opens neither loopback, nor metadata, nor a host that is not listed', () => {
      const guard = new AddressGuard({ ...closed, allowedHosts: ['10.0.0.1'], allowPrivate: true });
      for (const url of [
        'http://127.0.0.1/',
        'http://169.254.169.254/',
        'http://10.0.0.2/',
        'http://0.0.0.0/',
      ])
        expect(refusalOf(guard, url)).toEqual(['blocked', expect.any(String)]);
    });
  });

  test('without a list is refused where one is required', () => {
    const guard = new AddressGuard({ ...open, requireAllowedHosts: true });
    expect(refusalOf(guard, 'https://example.com/')).toEqual(['blocked', expect.any(String)]);
  });

  test('with a link-local host is refused though it is listed', () => {
    const guard = new AddressGuard({ ...open, allowedHosts: ['169.254.169.254'] });
    expect(refusalOf(guard, 'http://169.254.169.254/')).toEqual(['blocked', expect.any(String)]);
  });
});

describe('a connection', () => {
  const refused = expect.objectContaining({
    code: 'blocked',
    message: 'the address guard refuses the host evil.example',
  });

  test.each([
    ['F128: only an IPv6 loopback address', ['::1']],
    ['F128: only a private IPv6 address', ['fd00::1']],
    ['F128: a public and a private address', ['93.184.216.34', 'fd00::1']],
    ['loopback', ['127.0.0.1']],
    ['loopback in an IPv6 address', ['::ffff:127.0.0.1']],
    ['a public address, and link-local', ['93.184.216.34', '169.254.169.254']],
    ['a private address', ['10.0.0.1']],
  ])('to a name that resolves to %s is refused', async (_what, addresses) => {
    const { port, seen } = await sentinel();
    expect(await dial(new AddressGuard(open, names(...addresses)), 'evil.example', port)).toEqual(refused);
    expect(seen()).toBe(0);
  });

  test('to a literal address is refused too, though nothing is looked up', async () => {
    const { port, seen } = await sentinel();
    expect(await dial(new AddressGuard(closed), '127.0.0.1', port)).toMatchObject({ code: 'blocked' });
    expect(seen()).toBe(0);
  });

  test('to localhost goes to the address that was checked', async () => {
    const { port, seen } = await sentinel();
    expect(await dial(new AddressGuard(open, names('127.0.0.1')), 'localhost', port)).toBe('127.0.0.1');
    expect(await dial(new AddressGuard(open, names('10.0.0.1')), 'localhost', port)).toMatchObject({
      code: 'blocked',
    });
    expect(seen()).toBe(1);
  });

  test('F126: each one is resolved once and checked anew, so a name that changes gains nothing', async () => {
    const { port, seen } = await sentinel();
    const asked: string[] = [];
    // The name is good when it is looked up for the first, third, … time.
    const resolve: Resolver = async (hostname) => {
      asked.push(hostname);
      return [{ address: asked.length % 2 === 1 ? '127.0.0.1' : '169.254.169.254', family: 4 }];
    };
    const guard = new AddressGuard(open, resolve);
    const outcomes = [];
    for (let i = 0; i < 4; i += 1) outcomes.push(await dial(guard, 'localhost', port));
    const no = expect.objectContaining({ code: 'blocked' });
    expect(outcomes).toEqual(['127.0.0.1', no, '127.0.0.1', no]);
    expect([asked.length, seen()]).toEqual([4, 2]);
  });

  test('to a name that nobody knows ends with what the resolver says', async () => {
    const guard = new AddressGuard(open, async () => {
      throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
    });
    expect(await dial(guard, 'nowhere.example', 1)).toMatchObject({ code: 'ENOTFOUND' });
    expect(await dial(new AddressGuard(open, names()), 'nowhere.example', 1)).toMatchObject({
      code: 'ENOTFOUND',
    });
  });
});
