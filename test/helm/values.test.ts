import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { chart, containerOf, least, objectsOf, refusal, render, type KubernetesObject } from './chart.ts';

describe('the schema rejects', () => {
  test.each([
    ['gateway.replica=3', 'replica'],
    ['worker.tool.modules={a}', 'tool'],
    ['metrics.podMonitor.enable=true', 'enable'],
    ['conector.enabled=false', 'conector'],
    ['pod.nodeselector.a=b', 'nodeselector'],
    ['gateway.settings.HOLDFAST_MAX_SESSION=5', 'HOLDFAST_MAX_SESSION'],
    ['worker.settings.HOLDFAST_MAX_SESSIONS=5', 'HOLDFAST_MAX_SESSIONS'],
    ['gateway.settings.HOLDFAST_STORE=postgres://x', 'HOLDFAST_STORE'],
  ])('a misspelt or misplaced name: %s', (value, named) => {
    const said = refusal(...least, '--set', value);
    expect(said).toContain(named);
    expect(said).toMatch(/additional properties? '?.*'? not allowed/);
  });

  test.each([
    ['gateway.replicas=many', '/gateway/replicas'],
    ['ingress.sticky.controller=traefik', '/ingress/sticky/controller'],
    ['worker.autoscaling.type=vpa', '/worker/autoscaling/type'],
    ['gateway.image.digest=sha256:abc', '/gateway/image/digest'],
    ['store.url=mysql://db', '/store/url'],
    ['gateway.settings.HOLDFAST_HOST_CANCEL=sometimes', '/gateway/settings/HOLDFAST_HOST_CANCEL'],
    ['auth.modes={password}', '/auth/modes'],
    ['gateway.extraEnv[0].name=HOLDFAST_PORT', '/gateway/extraEnv/0/name'],
  ])('a wrong value: %s', (value, where) => {
    expect(refusal(...least, '--set', value)).toContain(where);
  });

  test('unknown names, except where it leaves validation to Kubernetes', () => {
    const schema = JSON.parse(readFileSync(join(chart, 'values.schema.json'), 'utf8')) as unknown;
    const open: string[] = [];
    (function look(node: unknown, path: string): void {
      if (typeof node !== 'object' || node === null) return;
      const { type, additionalProperties } = node as Record<string, unknown>;
      if (type === 'object' && (additionalProperties === undefined || additionalProperties === true))
        open.push(path);
      for (const [name, inner] of Object.entries(node)) look(inner, `${path}/${name}`);
    })(schema, '');
    expect(open).toEqual(['/$defs/kubernetes']);
  });
});

describe('contradictory values are rejected with a remedy', () => {
  test.each([
    [['auth.apiKeys.existingSecret=keys'], /No store is set.*store\.url/s],
    [[...sets(least), 'evaluation.postgres.enabled=true'], /Several stores/],
    [['store.url=postgres://db/x'], /No caller could authenticate.*auth\.apiKeys\.existingSecret/s],
    [['store.url=postgres://db/x', 'auth.modes={jwt}'], /auth\.jwt\.issuer/],
    [['store.url=postgres://db/x', 'auth.modes={none}'], /auth\.allowUnauthenticated/],
    [['store.url=postgres://db/x', 'auth.modes={module}'], /auth\.module/],
    [[...sets(least), 'connector.enabled=false'], /Workers have no work/],
    [[...sets(least), 'worker.autoscaling.minReplicas=0'], /needs worker\.autoscaling\.type=keda/],
    [[...sets(least), 'httpRoute.enabled=true'], /httpRoute\.parentRefs/],
    [[...sets(least), 'gateway.autoscaling.enabled=true', 'gateway.autoscaling.cpu=0'], /has no metric/],
    [[...sets(least), 'gateway.enabled=false', 'ingress.enabled=true'], /gateway\.enabled is false/],
    [[...sets(least), 'connector.servers.policy[0].deny=x'], /rules are not served yet/],
    [
      [...sets(least), 'metrics.podMonitor.enabled=true', 'metrics.serviceMonitor.enabled=true'],
      /scrape every pod twice/,
    ],
    [
      [
        ...sets(least),
        'metrics.prometheusRule.enabled=true',
        'metrics.prometheusRule.disabled={HoldfastQueueStaled}',
      ],
      /unknown alert HoldfastQueueStaled.*HoldfastQueueStalled/s,
    ],
  ])('%j', (values, said) => {
    expect(refusal(...values.flatMap((value) => ['--set', value]))).toMatch(said);
  });
});

function sets(args: readonly string[]): string[] {
  return args.filter((arg) => arg !== '--set');
}

test('whole numbers stay whole, however large', () => {
  const manifests = render(...least, '--set', 'gateway.settings.HOLDFAST_RUN_RETENTION_MS=1209600000');
  expect(manifests).toContain('value: "1209600000"');
});

describe('F194: sizes, timeouts and annotations of an Ingress', () => {
  const ingressOf = (values: object): { ingress: KubernetesObject; objects: readonly KubernetesObject[] } => {
    const objects = objectsOf(render(...least, '--set-json', JSON.stringify(values)));
    return { objects, ingress: objects.find(({ kind }) => kind === 'Ingress')! };
  };
  const sticky = { enabled: true, sticky: { enabled: true, controller: 'haproxy' } };

  test('come from the user, besides those that the chart needs', () => {
    const annotations = { 'haproxy.org/timeout-server': '2h', 'haproxy.org/request-capture': 'x' };
    const { ingress, objects } = ingressOf({
      commonAnnotations: { owner: 'platform' },
      gateway: { settings: { HOLDFAST_MAX_BODY_BYTES: 33_554_432, HOLDFAST_KEEP_ALIVE_MS: 5_000 } },
      ingress: { ...sticky, annotations },
    });
    expect(ingress.metadata.annotations).toEqual({
      ...annotations,
      owner: 'platform',
      'haproxy.org/backend-config-snippet': expect.stringContaining('stick on req.hdr(mcp-session-id)'),
    });
    const env = containerOf(objects, 'gateway')!.env!;
    expect(env).toContainEqual({ name: 'HOLDFAST_MAX_BODY_BYTES', value: '33554432' });
    expect(env).toContainEqual({ name: 'HOLDFAST_KEEP_ALIVE_MS', value: '5000' });
  });

  test('of the user replace annotations of the chart with the same name', () => {
    const annotations = { 'haproxy.org/backend-config-snippet': 'balance leastconn' };
    const { ingress } = ingressOf({ ingress: { ...sticky, annotations } });
    expect(ingress.metadata.annotations).toEqual(annotations);
  });

  test('are not limited again by the nginx of the chart', () => {
    const nginx = { enabled: true, sticky: { enabled: true, controller: 'nginx' } };
    const annotations = { 'nginx.ingress.kubernetes.io/proxy-body-size': '32m' };
    const { ingress, objects } = ingressOf({ ingress: { ...nginx, annotations } });
    expect(ingress.metadata.annotations).toEqual(annotations);
    const { data } = objects.find(({ data }) => data?.['nginx.conf'] !== undefined)!;
    expect(data!['nginx.conf']).toContain('client_max_body_size 0;');
  });
});
