import { expect, test } from '@jest/globals';
import { ConfigError, readSettings, type Environment } from '@holdfast/ops';
import { connectorRules, connectorSettings } from './settings.js';

/** What stops the start, as `VARIABLE: message`. */
function problems(env: Environment): readonly string[] {
  try {
    readSettings(connectorSettings, { HOLDFAST_STORE: 'postgres://db/h', ...env }, connectorRules);
    return [];
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error.problems.map(({ variable, message }) => `${variable}: ${message}`);
  }
}

test.each([
  'tökens-of-this-deployment',
  'a token with spaces in it',
  'a-token-with-a-€-sign',
  'tab\tin-the-token',
])('G18: a connector token that no header can carry stops the start and is not printed: %j', (token) => {
  const found = problems({ HOLDFAST_CONNECTOR_TOKEN: token });
  expect(found).toEqual([expect.stringMatching(/^HOLDFAST_CONNECTOR_TOKEN: has (control|characters)/)]);
  expect(found.join()).not.toContain(token);
});

test('G32: a connector token that could be guessed is refused beyond loopback', () => {
  const at = (bind: string, token: string) =>
    problems({
      HOLDFAST_CONNECTOR_BIND: bind,
      HOLDFAST_CONNECTOR_ADVERTISE: 'connector:50051',
      HOLDFAST_CONNECTOR_TOKEN: token,
    });
  for (const bind of ['0.0.0.0:50051', '[::]:50051', '10.0.0.7:50051'])
    expect(at(bind, 'fifteen-letters')).toEqual([
      expect.stringMatching(/^HOLDFAST_CONNECTOR_TOKEN: has fewer than 16 characters/),
    ]);
  expect(at('0.0.0.0:50051', 'a-key-of-sixteen')).toEqual([]);
  expect(at('127.0.0.1:50051', 'short')).toEqual([]);
});
