import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { applyPatch, parse, parseAllDocuments } from './foreign.ts';
import { helmPath } from './install.ts';

export const root = join(import.meta.dirname, '../..');
export const chart = join(root, 'helm/holdfast');

/** The set-ups of the chart: name to values file. */
export const setups: ReadonlyMap<string, string> = new Map(
  globSync('ci/*-values.yaml', { cwd: chart })
    .sort()
    .map((path) => [basename(path, '-values.yaml'), join(chart, path)]),
);

/** The minimal values for an installation (see docs/kubernetes.md). */
export const least = [
  '--set',
  'store.url=postgres://db/holdfast',
  '--set',
  'auth.apiKeys.existingSecret=keys',
];

export const goldenFolder = join(root, 'test/helm/golden');

/** Path of the golden render of a set-up: `least` as a whole, the others as their difference from it. */
export function goldenPath(setup: string): string {
  return join(goldenFolder, setup === 'least' ? 'least.yaml' : `${setup}.diff`);
}

/** The golden render of every set-up, by name. A separate test compares it with the current output of helm. */
export function goldenSetups(): ReadonlyMap<string, readonly KubernetesObject[]> {
  const least = readFileSync(goldenPath('least'), 'utf8');
  const others = [...setups.keys()].map((name) => {
    const manifests = applyPatch(least, readFileSync(goldenPath(name), 'utf8'));
    if (manifests === false)
      throw new Error(`${goldenPath(name)} does not apply to least.yaml; run npm run helm -- --update`);
    return [name, objectsOf(manifests)] as const;
  });
  return new Map([['least', objectsOf(least)], ...others]);
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly EnvVar[];
  readonly [field: string]: unknown;
}

export interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: unknown;
}

export interface PodSpec {
  readonly containers: readonly Container[];
  readonly volumes?: readonly { readonly name: string; readonly [source: string]: unknown }[];
  readonly terminationGracePeriodSeconds?: number;
  readonly [field: string]: unknown;
}

export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: { readonly [field: string]: unknown };
  readonly data?: Readonly<Record<string, string>>;
  readonly stringData?: Readonly<Record<string, string>>;
}

export interface Ended {
  readonly ok: boolean;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs helm without a cluster, and without the configuration of the user. */
export function helm(...args: readonly string[]): Ended {
  const { status, stdout, stderr, error } = spawnSync(helmPath, args, {
    encoding: 'utf8',
    env: { HOME: '/nonexistent', KUBECONFIG: '/nonexistent' },
    maxBuffer: 64 * 1024 * 1024,
  });
  if (error !== undefined) throw new Error('helm cannot be run', { cause: error });
  return { ok: status === 0, stdout, stderr };
}

/** The manifests of a release `holdfast` in the namespace `holdfast`. @throws Error with the output of helm */
export function render(...args: readonly string[]): string {
  const { ok, stdout, stderr } = helm('template', 'holdfast', chart, '--namespace', 'holdfast', ...args);
  if (!ok) throw new Error(stderr);
  return stdout;
}

/** The error of helm for values that it must reject. */
export function refusal(...args: readonly string[]): string {
  const { ok, stderr } = helm('template', 'holdfast', chart, ...args);
  if (ok) throw new Error(`helm accepted ${args.join(' ')}`);
  return stderr;
}

/** @throws Error for invalid YAML, such as a duplicate key */
export function objectsOf(manifests: string): KubernetesObject[] {
  return parseAllDocuments(manifests).flatMap((document) => {
    if (document.errors.length > 0) throw new Error(document.errors.join('\n'));
    return (document.toJS() as KubernetesObject | null) ?? [];
  });
}

/** The pod that an object is or creates; undefined for other objects. */
export function podOf({ kind, spec }: KubernetesObject): PodSpec | undefined {
  if (kind === 'Pod') return spec as unknown as PodSpec;
  return (spec?.['template'] as { readonly spec?: PodSpec } | undefined)?.spec;
}

export const services = ['gateway', 'worker', 'connector'] as const;
export type ServiceName = (typeof services)[number];

/** The container of a service in rendered objects; undefined if the set-up has none. */
export function containerOf(
  objects: readonly KubernetesObject[],
  service: ServiceName,
): Container | undefined {
  const deployment = objects.find(
    ({ kind, metadata }) =>
      kind === 'Deployment' && metadata.labels['app.kubernetes.io/component'] === service,
  );
  return deployment && podOf(deployment)!.containers.find(({ name }) => name === service);
}

export function readYaml(path: string): unknown {
  return parse(readFileSync(path, 'utf8'));
}
