import { expect, test } from '@jest/globals';
import { unknownVariables } from './unknown-variables.js';

const known = [
  'HOLDFAST_LEASE_MS',
  'HOLDFAST_PORT',
  'HOLDFAST_STORE',
  'HOLDFAST_STORE_LISTEN_URL',
  'HOLDFAST_API_KEYS',
];
const messages = (env: Record<string, string>) => unknownVariables(env, known).map(({ message }) => message);

test('a typo is reported with the name that was meant, without its value', () => {
  expect(messages({ HOLDFAST_LAESE_MS: '1', HOLDFAST_API_KEY: 'hunter2', HOLDFAST_LEASE: '1' })).toEqual([
    'HOLDFAST_API_KEY is not a setting; did you mean HOLDFAST_API_KEYS?',
    'HOLDFAST_LAESE_MS is not a setting; did you mean HOLDFAST_LEASE_MS?',
    'HOLDFAST_LEASE is not a setting; did you mean HOLDFAST_LEASE_MS?',
  ]);
});

test('a name cut short, or with a word too many, is a typo', () => {
  const suggestions = unknownVariables({ HOLDFAST_STORE_LISTEN: 'x', HOLDFAST_PORT_NUMBER: '1' }, known);
  expect(suggestions.map(({ suggestion }) => suggestion)).toEqual([
    'HOLDFAST_PORT',
    'HOLDFAST_STORE_LISTEN_URL',
  ]);
});

test('a name in the wrong case is a typo', () => {
  expect(messages({ holdfast_port: '1' })).toEqual([
    'holdfast_port is not a setting; did you mean HOLDFAST_PORT?',
  ]);
});

test('a name that resembles none is reported without a suggestion', () => {
  expect(unknownVariables({ HOLDFAST_TURBO: '1' }, known)).toEqual([
    {
      variable: 'HOLDFAST_TURBO',
      suggestion: undefined,
      message: 'HOLDFAST_TURBO is not a setting; nothing reads it',
    },
  ]);
});

test('known names, other prefixes, the log of the examples and service links are fine', () => {
  expect(
    messages({
      HOLDFAST_STORE: 'memory:',
      HOLDFAST_EXAMPLES_LOG: 'journal',
      PATH: '/bin',
      MY_HOLDFAST_X: '1',
      HOLDFAST_GATEWAY_SERVICE_HOST: '10.0.0.1',
      HOLDFAST_GATEWAY_SERVICE_PORT: '8000',
      HOLDFAST_GATEWAY_SERVICE_PORT_HTTP: '8000',
      HOLDFAST_GATEWAY_PORT: 'tcp://10.0.0.1:8000',
      HOLDFAST_GATEWAY_PORT_8000_TCP: 'tcp://10.0.0.1:8000',
      HOLDFAST_GATEWAY_PORT_8000_TCP_ADDR: '10.0.0.1',
    }),
  ).toEqual([]);
  expect(messages({ HOLDFAST_GATEWAY_PORT: '8000' })).toHaveLength(1);
});
