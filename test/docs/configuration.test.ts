import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { page, withTables } from './configuration.ts';

test('docs/configuration.md is what the settings say; npm run docs:configuration writes it', () => {
  const text = readFileSync(page, 'utf8');
  expect(text).toBe(withTables(text));
});
