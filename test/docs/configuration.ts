/**
 * `npm run docs:configuration`: writes the tables of docs/configuration.md from the settings that the
 * services read, between two marks. The prose around them is written by hand.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connectorSettings } from '@holdfast/connector';
import { gatewaySettings } from '@holdfast/gateway';
import { describeSettings, markdownTable, type SettingRow } from '@holdfast/ops';
import { standaloneSettings } from '@holdfast/standalone';
import { workerSettings } from '@holdfast/engine';

export const page = join(import.meta.dirname, '../../docs/configuration.md');

const begin = '<!-- begin of what npm run docs:configuration writes -->\n';
const end = '<!-- end of what npm run docs:configuration writes -->\n';

const services = {
  gateway: gatewaySettings,
  worker: workerSettings,
  connector: connectorSettings,
  standalone: standaloneSettings,
};

/** A heading for each set of services that read a setting alike, in the order of the page. */
const headings: readonly (readonly [readers: string, heading: string])[] = [
  ['gateway worker connector standalone', 'Set what every service reads'],
  ['gateway worker connector', 'Set what gateway, worker and connector read as separate services'],
  ['gateway standalone', 'Set how hosts are served: gateway and `npm start`'],
  ['worker standalone', 'Set how tools run: worker and `npm start`'],
  ['connector standalone', 'Set how upstream servers are called: connector and `npm start`'],
  ['worker connector', 'Set how worker and connector know each other'],
  ['gateway', 'Set what only the gateway reads'],
  ['worker', 'Set what only the worker reads'],
  ['connector', 'Set what only the connector reads'],
  ['standalone', 'Set what only `npm start` reads'],
];

/** One table for each set of services. A setting whose default or values differ between services is in several. */
export function configurationTables(): string {
  const readers = new Map<string, { row: SettingRow; names: string[] }>();
  for (const [name, spec] of Object.entries(services)) {
    for (const row of describeSettings(spec)) {
      const key = JSON.stringify(row);
      const known = readers.get(key);
      if (known === undefined) readers.set(key, { row, names: [name] });
      else known.names.push(name);
    }
  }
  const groups = Map.groupBy(readers.values(), ({ names }) => names.join(' '));
  for (const names of groups.keys()) {
    if (!headings.some(([known]) => known === names)) throw new Error(`no heading for ${names}`);
  }
  return headings
    .flatMap(([names, heading]) => {
      const group = groups.get(names);
      return group === undefined ? [] : [`## ${heading}\n\n${markdownTable(group.map(({ row }) => row))}`];
    })
    .join('\n');
}

/** The page with its tables as they should be. */
export function withTables(text: string): string {
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from === -1 || to < from) throw new Error(`${page} has lost its marks`);
  return `${text.slice(0, from + begin.length)}\n${configurationTables()}\n${text.slice(to)}`;
}

if (import.meta.main) writeFileSync(page, withTables(readFileSync(page, 'utf8')));
