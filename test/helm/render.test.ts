import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import {
  chart,
  goldenFolder,
  helm,
  least,
  objectsOf,
  podOf,
  readYaml,
  refusal,
  render,
  root,
  setups,
  type KubernetesObject,
} from './chart.ts';
import { structuralProblems, valueProblems } from './structure.ts';
import { goldenFiles, goldens, written } from './written.ts';

const rendered = new Map([...goldens()].map(([name, manifests]) => [name, objectsOf(manifests)] as const));

test('every set-up passes helm lint --strict', () => {
  const files = [...setups.values()];
  expect(files.length).toBeGreaterThanOrEqual(9);
  for (const path of files) {
    const { ok, stdout, stderr } = helm('lint', '--strict', chart, '--values', path);
    expect({ path, ok, said: stdout + stderr }).toMatchObject({ path, ok: true });
  }
});

test('the store and the keys are enough to install, and every set-up renders', () => {
  const kinds = rendered.get('least')!.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  for (const service of ['gateway', 'worker', 'connector'])
    expect(kinds).toContain(`Deployment holdfast-${service}`);
  for (const [name, objects] of rendered)
    expect({ name, objects: objects.length > 0 }).toEqual({ name, objects: true });
});

test.each(['1.30.0', '1.33.2', '1.36.1'])('renders the same objects for Kubernetes %s', (version) => {
  for (const name of ['postgres', 'restricted', 'keda']) {
    const objects = objectsOf(render('--values', setups.get(name)!, '--kube-version', version));
    expect(objects.map(withoutMadeOnce)).toEqual(rendered.get(name)!.map(withoutMadeOnce));
  }
});

function withoutMadeOnce(object: KubernetesObject): object {
  return object.kind === 'Secret' ? { ...object, stringData: Object.keys(object.stringData ?? {}) } : object;
}

test('a Kubernetes without the preStop sleep is rejected', () => {
  expect(refusal(...least, '--kube-version', '1.29.9')).toContain('>=1.30.0-0');
});

test('generated files are up to date; npm run helm -- --update writes them', () => {
  const golden = goldenFiles();
  for (const [path, text] of [...written(), ...golden]) {
    const kept = existsSync(path) ? readFileSync(path, 'utf8') : '';
    expect({ path, text: kept }).toEqual({ path, text });
  }
  const there = globSync(join(goldenFolder, '*'));
  expect(there.sort()).toEqual([...golden.keys()].sort());
});

describe('structural validation', () => {
  test('finds no problem in any rendered object', async () => {
    const objects = [...rendered.values()].flat();
    expect(structuralProblems(objects)).toEqual([]);
    expect(await valueProblems(objects)).toEqual([]);
  });

  test('detects a value outside its enum, pattern or bounds', async () => {
    const route = rendered.get('gateway-api')!.find(({ kind }) => kind === 'HTTPRoute')!;
    const broken = structuredClone(route);
    (broken.spec!['rules'] as Record<string, unknown>[])[0]!['timeouts'] = { request: 'for ever' };
    expect(await valueProblems([route, broken])).toEqual([expect.stringMatching(/^HTTPRoute .*request/)]);
  });

  test('detects a field that is unknown, missing or of another type, at any depth', () => {
    const deployment = rendered.get('least')!.find(({ kind }) => kind === 'Deployment')!;
    const broken = (change: (pod: Record<string, unknown>) => void): KubernetesObject => {
      const copy = structuredClone(deployment);
      change(podOf(copy) as unknown as Record<string, unknown>);
      return copy;
    };
    const problems = structuralProblems([
      broken((pod) => (pod['terminationGracePeriod'] = 30)),
      broken((pod) => (pod['enableServiceLinks'] = 'false')),
      broken((pod) => delete pod['containers']),
      broken((pod) => Object.assign((pod['containers'] as Record<string, unknown>[])[0]!, { image_: 'x' })),
    ]);
    expect(problems).toHaveLength(4);
    expect(problems.join()).toMatch(
      /terminationGracePeriod.*enableServiceLinks|boolean.*containers.*image_/s,
    );
  });
});

test('names of objects are valid and distinct, even with a long release name', () => {
  const name = 'a-release-whose-name-is-as-long-as-helm-lets-it-be-53';
  const { ok, stdout } = helm('template', name.slice(0, 53), chart, '--values', setups.get('evaluation')!);
  expect(ok).toBe(true);
  const names = objectsOf(stdout).map(({ kind, metadata }) => `${kind}/${metadata.name}`);
  expect(new Set(names).size).toBe(names.length);
  for (const each of names) expect(each).toMatch(/^\w+\/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
});

test('G83: releases whose long names start alike share no object', () => {
  const start = 'a-team-with-a-very-long-name-of-its-own-for-';
  const named = (...args: readonly string[]): string[] => {
    const { stdout } = helm('template', ...args, chart, '--values', setups.get('evaluation')!);
    return objectsOf(stdout).map(({ kind, metadata }) => `${kind}/${metadata.name}`);
  };
  const override = (name: string): string[] => ['x', '--set', `fullnameOverride=${name}`];
  const sets = [
    named(`${start}a`),
    named(`${start}b`),
    named(start.slice(0, 39)),
    named(...override(`${start}c`)),
    named(...override(`${start}d`)),
  ];
  expect(sets.every((names) => names.length > 10)).toBe(true);
  const all = sets.flat();
  expect(all.filter((name, i) => all.indexOf(name) !== i)).toEqual([]);
});

test('G50: the size of /tmp can be set, for one service too', () => {
  const sizes = (...args: readonly string[]): (readonly [string, unknown])[] =>
    objectsOf(render(...least, ...args))
      .filter(({ kind }) => kind === 'Deployment')
      .map(({ metadata, spec }) => {
        const { volumes } = (spec as { template: { spec: { volumes: object[] } } }).template.spec;
        return [metadata.name, volumes.find((volume) => 'emptyDir' in volume)] as const;
      });
  const of = (size: string): object => ({ name: 'tmp', emptyDir: { sizeLimit: size } });
  expect(sizes('--set', 'connector.pod.tmpSize=4Gi')).toEqual([
    ['holdfast-connector', of('4Gi')],
    ['holdfast-gateway', of('256Mi')],
    ['holdfast-worker', of('256Mi')],
  ]);
  expect(sizes('--set', 'pod.tmpSize=1Gi').map(([, volume]) => volume)).toEqual([
    of('1Gi'),
    of('1Gi'),
    of('1Gi'),
  ]);
});

test('the chart creates a connector token only if none is named, and a different one for each release', () => {
  const tokens = [1, 2].map(() => secretOf(objectsOf(render(...least)), 'holdfast-connector-token'));
  expect(tokens[0]).toMatch(/^[A-Za-z0-9]{48}$/);
  expect(tokens[1]).not.toBe(tokens[0]);
  const given = objectsOf(render(...least, '--set', 'connector.token.existingSecret=ours'));
  expect(given.filter(({ kind }) => kind === 'Secret').map(({ metadata }) => metadata.name)).toEqual([
    'holdfast-store',
  ]);
});

function secretOf(objects: readonly KubernetesObject[], name: string): string {
  return objects.find(({ kind, metadata }) => kind === 'Secret' && metadata.name === name)!.stringData![
    'token'
  ]!;
}

test('a change of replicas or servers restarts no pod, and a change of the store restarts all', () => {
  const templates = (...more: readonly string[]): string[] =>
    objectsOf(render(...least, ...more))
      .filter(({ kind }) => kind === 'Deployment')
      .map(({ spec }) => JSON.stringify(spec!['template']));
  const before = templates();
  const servers = JSON.stringify([
    { id: 'x', name: 'X', transport: 'http', url: 'https://x', allowed_hosts: ['x'] },
  ]);
  expect(templates('--set', 'gateway.replicas=7', '--set-json', `connector.servers.list=${servers}`)).toEqual(
    before,
  );
  const after = templates('--set', 'store.url=postgres://db2/holdfast');
  for (const [index, template] of after.entries()) expect(template).not.toBe(before[index]);
});

test('NOTES show the URL, the command for Claude Code and evaluation-only values', () => {
  const notes = (path: string): string => {
    const { ok, stdout, stderr } = helm(
      'install',
      'holdfast',
      chart,
      '--dry-run=client',
      '--hide-notes=false',
      '--values',
      path,
    );
    if (!ok) throw new Error(stderr);
    return stdout.slice(stdout.indexOf('NOTES:'));
  };
  expect(notes(setups.get('postgres')!)).toContain(
    'claude mcp add --transport http holdfast https://mcp.example/mcp --header "Authorization: Bearer <key>"\n',
  );
  const evaluation = notes(setups.get('evaluation')!);
  expect(evaluation).toContain('kubectl -n default port-forward service/holdfast-gateway 8000:80');
  expect(evaluation).toContain('claude mcp add --transport http holdfast http://127.0.0.1:8000/mcp');
  expect(evaluation.match(/FOR EVALUATION ONLY/g)).toHaveLength(2);
  expect(notes(setups.get('upstreams')!)).toContain('Anyone who reaches a gateway can call it');
});

test('the chart and its app have the version of the repository', () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  expect(readYaml(join(chart, 'Chart.yaml'))).toMatchObject({ version, appVersion: version });
});
