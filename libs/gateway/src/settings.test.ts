import { describe, expect, test } from '@jest/globals';
import { ConfigError, readSettings, type Environment } from '@holdfast/ops';
import { gatewaySettings, servingRules } from './settings.js';

const least = { HOLDFAST_STORE: 'postgres://db/h', HOLDFAST_AUTH: 'none' };

/** What stops the start, as `VARIABLE: message`. */
function problems(env: Environment): readonly string[] {
  try {
    readSettings(gatewaySettings, { ...least, ...env }, servingRules);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ variable, message }) => `${variable}: ${message}`);
  }
}

const long = 'a-key-of-sixteen';

describe('G32: keys that would let in whoever guesses or holds another', () => {
  const beyond = { HOLDFAST_AUTH: 'keys', HOLDFAST_HOST: '0.0.0.0', HOLDFAST_API_KEYS: `{"desk":"${long}"}` };

  test('sixteen characters are enough beyond loopback', () => {
    expect(problems(beyond)).toEqual([]);
  });

  test.each(['0.0.0.0', '::', '10.0.0.7', 'holdfast.example'])(
    'shorter ones are refused on %s, all by name and none by value',
    (host) => {
      const keys = `{"desk":"${long}","ci":"fifteen-letters","web":"x"}`;
      const found = problems({ ...beyond, HOLDFAST_HOST: host, HOLDFAST_API_KEYS: keys });
      expect(found).toEqual([expect.stringMatching(/^HOLDFAST_API_KEYS: .*"ci", "web".*openssl rand/)]);
      expect(found.join()).not.toContain('fifteen-letters');
    },
  );

  test('so are short ones of admins, whoever may call', () => {
    const env = { ...beyond, HOLDFAST_AUTH: 'jwt', HOLDFAST_JWT_ISSUER: 'i', HOLDFAST_JWT_AUDIENCE: 'a' };
    expect(
      problems({ ...env, HOLDFAST_JWT_JWKS_URL: 'https://i/keys', HOLDFAST_ADMIN_KEYS: '{"ops":"short"}' }),
    ).toEqual([expect.stringMatching(/^HOLDFAST_ADMIN_KEYS: .*"ops"/)]);
  });

  test.each(['127.0.0.1', 'localhost', '::1', '127.0.0.2'])('on %s any length does', (host) => {
    expect(problems({ ...beyond, HOLDFAST_HOST: host, HOLDFAST_API_KEYS: '{"desk":"x"}' })).toEqual([]);
  });

  test('one key for a caller and an admin is refused, on loopback too', () => {
    const same = `{"ops":"another-key-of-16","root":"${long}"}`;
    for (const host of ['127.0.0.1', '0.0.0.0'])
      expect(problems({ ...beyond, HOLDFAST_HOST: host, HOLDFAST_ADMIN_KEYS: same })).toEqual([
        expect.stringMatching(/^HOLDFAST_ADMIN_KEYS: .*"root".*"desk"/),
      ]);
  });
});

describe('G32: keys of an issuer that are read over plain http', () => {
  const jwt = { HOLDFAST_AUTH: 'jwt', HOLDFAST_JWT_ISSUER: 'i', HOLDFAST_JWT_AUDIENCE: 'a' };

  test.each([
    'http://idp.example/keys',
    'HTTP://10.0.0.1/keys',
    'http://127.0.0.1.idp.example/',
    'http://keycloak/',
  ])('%s is refused', (url) => {
    expect(problems({ ...jwt, HOLDFAST_JWT_JWKS_URL: url })).toEqual([
      expect.stringMatching(/^HOLDFAST_JWT_JWKS_URL: must be https beyond loopback/),
    ]);
  });

  test.each([
    'https://idp.example/keys',
    'http://127.0.0.1:8080/keys',
    'http://localhost/keys',
    'http://[::1]/keys',
  ])('%s is not', (url) => {
    expect(problems({ ...jwt, HOLDFAST_JWT_JWKS_URL: url })).toEqual([]);
  });
});

describe('G35: hosts and origins that no request names', () => {
  test.each([
    ['*', /wildcard; list each/],
    ['*.example.com', /wildcard/],
    ['mcp.example.com:8443', /write mcp\.example\.com$/],
    ['https://mcp.example.com', /write mcp\.example\.com$/],
    ['https://mcp.example.com/mcp', /write mcp\.example\.com$/],
    ['mcp.example.com/', /write mcp\.example\.com$/],
    ['mcp.example.com.', /write mcp\.example\.com$/],
    ['::1', /write \[::1\]$/],
    ['[::1]:8000', /write \[::1\]$/],
    ['127.1', /write 127\.0\.0\.1$/],
    ['bücher.example', /write xn--bcher-kva\.example$/],
    ['me@mcp.example.com', /write mcp\.example\.com$/],
    ['mcp example', /not a host name alone$/],
  ])('HOLDFAST_ALLOWED_HOSTS=%s stops the start with the remedy', (text, remedy) => {
    expect(problems({ HOLDFAST_ALLOWED_HOSTS: `localhost,${text}` })).toEqual([
      expect.stringMatching(/^HOLDFAST_ALLOWED_HOSTS: /),
    ]);
    expect(problems({ HOLDFAST_ALLOWED_HOSTS: text }).join()).toMatch(remedy);
  });

  test.each([
    ['*', /wildcard; list each/],
    ['https://*.example.com', /wildcard/],
    ['https://app.example.com/', /write https:\/\/app\.example\.com$/],
    ['https://app.example.com/page', /write https:\/\/app\.example\.com$/],
    ['https://App.Example.com', /write https:\/\/app\.example\.com$/],
    ['https://app.example.com:443', /write https:\/\/app\.example\.com$/],
    ['http://app.example.com:80', /write http:\/\/app\.example\.com$/],
    ['app.example.com', /as https:\/\/app\.example\.com$/],
    ['app.example.com:8443', /as https:\/\/app\.example\.com$/],
    ['null', /sandboxed/],
    ['file://', /write scheme and host$/],
  ])('HOLDFAST_ALLOWED_ORIGINS=%s stops the start with the remedy', (text, remedy) => {
    expect(problems({ HOLDFAST_ALLOWED_ORIGINS: text })).toEqual([
      expect.stringMatching(/^HOLDFAST_ALLOWED_ORIGINS: /),
    ]);
    expect(problems({ HOLDFAST_ALLOWED_ORIGINS: text }).join()).toMatch(remedy);
  });

  test('what requests do name is taken', () => {
    expect(
      problems({
        HOLDFAST_ALLOWED_HOSTS:
          'mcp.example.com, MCP.example.org,localhost,10.0.0.7,[::1],my_host,xn--bcher-kva.example',
        HOLDFAST_ALLOWED_ORIGINS:
          'https://app.example.com,http://localhost:5173,https://[::1]:8443,vscode-webview://0abc',
      }),
    ).toEqual([]);
  });
});
