import { expect, test } from '@jest/globals';
import { connectorSettings } from '@holdfast/connector';
import { gatewaySettings } from '@holdfast/gateway';
import { knownVariables } from '@holdfast/ops';
import { workerSettings } from '@holdfast/engine';
import { standaloneSettings } from './settings.js';

test('the known variables are those that some service reads', () => {
  const specs = [gatewaySettings, workerSettings, connectorSettings, standaloneSettings];
  const read = specs.flatMap((spec) => Object.values(spec).map(({ variable }) => variable));
  expect([...knownVariables].sort()).toEqual([...new Set(read)].sort());
});
