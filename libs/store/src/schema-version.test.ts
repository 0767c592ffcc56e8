import { expect, test } from '@jest/globals';
import { postgresMigrations } from './postgres-schema.js';
import { refusalOf, schemaAfter } from './schema-version.js';
import { sqliteMigrations } from './sqlite-schema.js';

test('the last migration that says so is the least that a process has to know', () => {
  const adds = '\n  ALTER TABLE runs ADD COLUMN a text;';
  const breaks = '\n  -- breaking\n  ALTER TABLE runs DROP COLUMN a;';
  expect(schemaAfter([adds, adds])).toEqual({ version: 2, least: 0 });
  expect(schemaAfter([adds, breaks, adds])).toEqual({ version: 3, least: 2 });
});

test('a process of before is refused from a breaking migration on', () => {
  expect(refusalOf({ version: 7, least: 4 }, 4)).toBeUndefined();
  expect(refusalOf({ version: 7, least: 4 }, 3)).toMatch(/schema 7, to be used from 4 on; this one knows 3/);
});

test('nothing so far breaks the version before', () => {
  expect(schemaAfter(postgresMigrations).least).toBe(0);
  expect(schemaAfter(sqliteMigrations).least).toBe(0);
});
