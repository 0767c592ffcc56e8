/**
 * `npm run helm`: checks the chart without a cluster and passes other arguments to Jest. `-- --update` first writes
 * the generated files: golden renders, the table of values, the names of settings in the schema, and the copies of
 * rules and dashboard in the chart.
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
