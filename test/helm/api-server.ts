import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { KubernetesObject } from './chart.ts';

export interface ApiServer {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * The part of the Kubernetes API that `lookup` needs: the list of kinds, the kinds of `objects`, and the
 * Secrets among them, as after an install. Every other request returns 404.
 */
export async function startApiServer(objects: readonly KubernetesObject[]): Promise<ApiServer> {
  const answers = new Map<string, object>([['/version', { major: '1', minor: '36', gitVersion: 'v1.36.1' }]]);
  const versions = [...new Set(objects.map(({ apiVersion }) => apiVersion))];
  for (const version of versions) {
    const kinds = new Set(objects.filter(({ apiVersion }) => apiVersion === version).map(({ kind }) => kind));
    answers.set(version === 'v1' ? '/api/v1' : `/apis/${version}`, {
      kind: 'APIResourceList',
      groupVersion: version,
      resources: [...kinds].map((kind) => ({
        name: pluralOf(kind),
        singularName: kind.toLowerCase(),
        namespaced: true,
        kind,
        verbs: ['get'],
      })),
    });
  }
  answers.set('/api', { kind: 'APIVersions', versions: ['v1'] });
  answers.set('/apis', {
    kind: 'APIGroupList',
    apiVersion: 'v1',
    groups: versions
      .filter((version) => version.includes('/'))
      .map((groupVersion) => {
        const [name, version] = groupVersion.split('/');
        return { name, versions: [{ groupVersion, version }], preferredVersion: { groupVersion, version } };
      }),
  });
  for (const { kind, metadata, stringData = {}, ...rest } of objects) {
    if (kind !== 'Secret') continue;
    const data = Object.fromEntries(
      Object.entries(stringData).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
    );
    answers.set(`/api/v1/namespaces/holdfast/secrets/${metadata.name}`, { kind, metadata, ...rest, data });
  }
  const server = createServer((req, res) => {
    const answer = answers.get(req.url!.split('?')[0]!);
    res.writeHead(answer === undefined ? 404 : 200, { 'Content-Type': 'application/json' });
    res.end(JSON.stringify(answer ?? { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function pluralOf(kind: string): string {
  const name = kind.toLowerCase();
  return name.endsWith('y') ? `${name.slice(0, -1)}ies` : name.endsWith('s') ? `${name}es` : `${name}s`;
}
