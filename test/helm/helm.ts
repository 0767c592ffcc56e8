/**
 * `npm run helm`: checks the chart without a cluster; more arguments go to Jest. `-- --update` first writes
 * what is written from something else: golden renders, the table of values, the names of settings in the
 * schema, and the chart's copies of rules and dashboard.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { install } from './install.ts';

const root = join(import.meta.dirname, '../..');
const args = process.argv.slice(2);

install();
if (args.includes('--update')) (await import('./written.ts')).update();
const { status } = spawnSync(
  process.execPath,
  [
    '--experimental-vm-modules',
    '--disable-warning=ExperimentalWarning',
    join(root, 'node_modules/jest/bin/jest.js'),
    '--config',
    join(root, 'jest.helm.config.js'),
    ...args.filter((arg) => arg !== '--update'),
  ],
  { cwd: root, stdio: 'inherit' },
);
process.exitCode = status ?? 1;
