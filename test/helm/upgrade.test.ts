import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from '@jest/globals';
import { startApiServer } from './api-server.ts';
import { chart, least, objectsOf, render, setups, type KubernetesObject } from './chart.ts';
import { helmPath } from './install.ts';

/** The manifests that an upgrade applies to a cluster with the objects at `url`. The server runs in this process, so helm must not block it. */
async function upgraded(url: string, args: readonly string[]): Promise<KubernetesObject[]> {
  const server = ['--dry-run=server', '--disable-openapi-validation', '--kube-apiserver', url];
  const command = [
    'template',
    'holdfast',
    chart,
    '--namespace',
    'holdfast',
    '--is-upgrade',
    ...server,
    ...args,
  ];
  const child = spawn(helmPath, command, { env: { HOME: '/nonexistent' } });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit'),
  ]);
  if (code !== 0) throw new Error(stderr);
  return objectsOf(stdout);
}

function secretsOf(objects: readonly KubernetesObject[]): object {
  const secrets = objects.filter(({ kind }) => kind === 'Secret');
  return Object.fromEntries(secrets.map(({ metadata, stringData }) => [metadata.name, stringData]));
}

test.each([
  ['the least', least, 'holdfast-connector-token'],
  ['the evaluation', ['--values', setups.get('evaluation')!], 'holdfast-store'],
  ['the evaluation on Valkey', ['--values', setups.get('evaluation-valkey')!], 'holdfast-store'],
])('an upgrade of %s keeps the secrets that were made at the install', async (_, args, name) => {
  const installed = objectsOf(render(...args));
  const server = await startApiServer(installed);
  try {
    const after = secretsOf(await upgraded(server.url, args));
    expect(after).toHaveProperty([name]);
    expect(after).toEqual(secretsOf(installed));
  } finally {
    await server.close();
  }
});

test('an upgrade creates missing Secrets', async () => {
  const installed = objectsOf(render(...least));
  const server = await startApiServer(
    installed.filter(({ kind }) => kind !== 'Secret').concat(withoutData(installed)),
  );
  try {
    const after = secretsOf(await upgraded(server.url, least)) as Record<string, Record<string, string>>;
    expect(after['holdfast-connector-token']!['token']).toMatch(/^[A-Za-z0-9]{48}$/);
  } finally {
    await server.close();
  }
});

function withoutData(objects: readonly KubernetesObject[]): KubernetesObject[] {
  return objects.filter(({ kind }) => kind === 'Secret').map(({ stringData: _, ...rest }) => rest);
}
