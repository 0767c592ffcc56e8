import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { objectsOf, render, root, type KubernetesObject } from '../helm/chart.ts';

export const keys = { desk: 'key-of-desk-in-tests' } as const;
export const adminKey = 'key-of-admin-in-tests';

export interface ReleaseOptions {
  readonly storeUrl: string;
  readonly upstreamUrl: string;
  readonly sticky: boolean;
  /** The journal of tool bodies: a file in a folder that pods may write. */
  readonly journal: string;
  /** Folder for the values file. */
  readonly folder: string;
}

/** Renders an installation with three gateways, three workers and two connectors, and the objects that its user created before. */
export function release(options: ReleaseOptions): KubernetesObject[] {
  const { storeUrl, upstreamUrl, sticky, journal, folder } = options;
  const values = join(folder, 'values.json');
  const volume = { name: 'journal', hostPath: { path: join(journal, '..') } };
  writeFileSync(
    values,
    JSON.stringify({
      store: { existingSecret: 'store' },
      auth: { apiKeys: { existingSecret: 'callers' }, adminKeys: { existingSecret: 'admins' } },
      ingress: { enabled: true, exposeApi: true, sticky: { enabled: sticky, controller: 'haproxy' } },
      gateway: { replicas: 3 },
      worker: {
        replicas: 3,
        tools: {
          modules: ['/tools/tools.ts'],
          volume: { configMap: { name: 'tools' } },
        },
        extraEnv: [{ name: 'JOURNAL', value: '/journal/journal' }],
        extraVolumes: [volume],
        extraVolumeMounts: [{ name: 'journal', mountPath: '/journal' }],
      },
      connector: {
        replicas: 2,
        // The upstream is on loopback.
        profile: 'development',
        servers: {
          list: [
            {
              id: 'shop',
              name: 'Shop',
              transport: 'http',
              url: upstreamUrl,
              concurrency: 16,
              overrides: { look: 'read' },
            },
          ],
        },
      },
    }),
  );
  return [
    ...objectsOf(render('--values', values)),
    secret('store', { url: storeUrl }),
    secret('callers', keys),
    secret('admins', { admin: adminKey }),
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'tools', labels: {} },
      data: { 'tools.ts': readFileSync(join(root, 'test/system/tools/refund.ts'), 'utf8') },
    },
  ];
}

function secret(name: string, stringData: Readonly<Record<string, string>>): KubernetesObject {
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name, labels: {} }, stringData };
}
