/**
 * Generated files of the repository: `npm run helm -- --update` writes them, and a test fails if they are out of
 * date.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { connectorSettings } from '@holdfast/connector';
import { gatewaySettings } from '@holdfast/gateway';
import { describeSettings, type SettingRow } from '@holdfast/ops';
import { workerSettings } from '@holdfast/engine';
import { chart, goldenPath, least, render, root, setups, type ServiceName } from './chart.ts';
import { createTwoFilesPatch, isMap, parseDocument, type YamlMap } from './foreign.ts';

export const settingsOf = {
  gateway: describeSettings(gatewaySettings),
  worker: describeSettings(workerSettings),
  connector: describeSettings(connectorSettings),
} as const satisfies Record<ServiceName, readonly SettingRow[]>;

/** Variables that the chart or its own values set; they must not be set under settings. */
const decided =
  /^HOLDFAST_(STORE|STORE_LISTEN_URL|HOST|PORT|OPS_HOST|OPS_PORT|DRAIN_MS|LOG_LEVEL|WORKFLOW_PREFIX|MCP_PATH|PUBLIC_URL|AUTH|API_KEYS|ADMIN_KEYS|JWT_.*|AUTH_MODULE|ALLOW_UNAUTHENTICATED|RUN_ID_KEYS?.*|TOOLS|WORKER_CONCURRENCY|WORKER_GROUP|CONNECTOR_(URL|BIND|ADVERTISE|TOKEN|TLS_.*)|PROFILE|STDIO_ENABLED|SERVERS_FILE|ENV_ALLOW|ENV_DIR)$/;

/** Path of a file to its expected content. */
export function written(): Map<string, string> {
  const files = new Map<string, string>();
  for (const [from, to] of [
    ['deploy/prometheus/rules.yaml', 'files/rules.yaml'],
    ['deploy/grafana/holdfast.json', 'files/dashboard.json'],
  ] as const) {
    files.set(join(chart, to), readFileSync(join(root, from), 'utf8'));
  }
  for (const [name, change] of [
    ['values.schema.json', withSettings],
    ['README.md', withTable],
  ] as const) {
    files.set(join(chart, name), change(readFileSync(join(chart, name), 'utf8')));
  }
  return files;
}

/** Golden renders: path to the least set-up as a whole, and to every other as its difference from that. */
export function goldenFiles(): Map<string, string> {
  const whole = goldens();
  const base = whole.get('least')!;
  return new Map([...whole].map(([name, text]) => [goldenPath(name), goldenText(name, text, base)]));
}

/** The current render of every set-up, by name, without values that change at each render. */
export function goldens(): Map<string, string> {
  const files = new Map([['least', golden(...least)]]);
  for (const [name, path] of setups) files.set(name, golden('--values', path));
  return files;
}

function goldenText(name: string, text: string, base: string): string {
  return name === 'least'
    ? text
    : createTwoFilesPatch('least', name, base, text, undefined, undefined, { context: 1 });
}

function golden(...args: readonly string[]): string {
  return render(...args).replace(/(?<=[:@" ])[A-Za-z0-9]{48}(?=["@])/g, 'MADE-ONCE-BY-THE-CHART');
}

/** Settings, checked by name and type, as properties of a JSON Schema. */
function withSettings(text: string): string {
  const schema = JSON.parse(text) as { $defs: Record<string, unknown> };
  for (const [service, rows] of Object.entries(settingsOf)) {
    schema.$defs[`${service}Settings`] = {
      type: 'object',
      additionalProperties: false,
      properties: Object.fromEntries(
        rows.filter(({ variable }) => !decided.test(variable)).map((row) => [row.variable, schemaOf(row)]),
      ),
    };
  }
  return `${JSON.stringify(schema, undefined, 2)}\n`;
}

function schemaOf({ accepts, about }: SettingRow): object {
  const description = about.replaceAll('`', '');
  if (accepts.startsWith('whole number')) return { description, type: 'integer' };
  if (accepts === '`true` or `false`') return { description, type: 'boolean' };
  if (/^`[^`]+`(, `[^`]+`)*$/.test(accepts))
    return { description, enum: accepts.split(', ').map((word) => word.slice(1, -1)) };
  return { description, type: 'string', minLength: 1 };
}

const begin = '<!-- begin of the table that npm run helm -- --update writes -->\n';
const end = '<!-- end of the table that npm run helm -- --update writes -->\n';

function withTable(text: string): string {
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from === -1 || to < from) throw new Error('README.md of the chart does not contain the table markers');
  return `${text.slice(0, from + begin.length)}\n${valuesTable()}\n${text.slice(to)}`;
}

/** The comments of values.yaml as a table, one line for each value. A map with its own comment is one value. */
function valuesTable(): string {
  const document = parseDocument(readFileSync(join(chart, 'values.yaml'), 'utf8'));
  const rows = [...rowsOf(document.contents as YamlMap, '')].map(
    ({ key, value, about }) =>
      `| \`${key}\` | \`${JSON.stringify(value)}\` | ${about.replaceAll('|', '\\|')} |\n`,
  );
  return `| value | default | meaning |\n| --- | --- | --- |\n${rows.join('')}`;
}

interface Row {
  readonly key: string;
  readonly value: unknown;
  readonly about: string;
}

function* rowsOf(node: YamlMap, prefix: string): Generator<Row> {
  for (const [index, { key, value }] of node.items.entries()) {
    const name = `${prefix}${key.value}`;
    if (isMap(value) && isExplainedInside(value)) {
      yield* rowsOf(value, `${name}.`);
      continue;
    }
    const comment = commentOf(node, index);
    if (comment === undefined) throw new Error(`values.yaml has no comment on ${name}`);
    yield { key: name, value: value.toJSON(), about: comment };
  }
}

function isExplainedInside(map: YamlMap): boolean {
  return map.items.some(
    ({ value }, index) => commentOf(map, index) !== undefined || (isMap(value) && isExplainedInside(value)),
  );
}

/** The comment of a key in one line. The parser assigns the comment before the first key to the map. */
function commentOf(map: YamlMap, index: number): string | undefined {
  const comment = map.items[index]!.key.commentBefore ?? (index === 0 ? map.commentBefore : undefined);
  // A blank line ends a comment about the whole section.
  return comment
    ?.split('\n\n')
    .at(-1)!
    .trim()
    .replace(/\s*\n\s*/g, ' ');
}

/** Writes all files; first those that helm itself reads. */
export function update(): void {
  for (const make of [written, goldenFiles]) {
    for (const [path, text] of make()) {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    }
  }
}
