import { describe, expect, test } from '@jest/globals';
import {
  containerOf,
  goldenSetups,
  podOf,
  services,
  type Container,
  type KubernetesObject,
  type PodSpec,
} from './chart.ts';

const set = goldenSetups();

const pods: (readonly [name: string, pod: PodSpec, object: KubernetesObject])[] = [...set].flatMap(
  ([setup, objects]) =>
    objects.flatMap((object) => {
      const pod = podOf(object);
      return pod === undefined
        ? []
        : [[`${setup}: ${object.kind} ${object.metadata.name}`, pod, object] as const];
    }),
);
const containers: (readonly [name: string, container: Container, object: KubernetesObject])[] = pods.flatMap(
  ([name, pod, object]) =>
    pod.containers.map((container) => [`${name}, ${container.name}`, container, object] as const),
);
const long = containers.filter(([, , { kind }]) => kind !== 'Pod');

/** Names of all objects that violate a rule, so that one failure names them all. */
function breaking<T>(
  all: readonly (readonly [string, T, ...unknown[]])[],
  keeps: (each: T) => boolean,
): string[] {
  return all.filter(([, each]) => !keeps(each)).map(([name]) => name);
}

test('the renders contain objects to check', () => {
  expect(pods.length).toBeGreaterThan(40);
});

describe('every pod', () => {
  test('runs without root, under the default seccomp profile', () => {
    expect(
      breaking(pods, ({ securityContext }) => {
        const { runAsNonRoot, runAsUser, seccompProfile } = securityContext as Record<string, unknown>;
        return (
          runAsNonRoot === true &&
          (runAsUser as number) > 0 &&
          JSON.stringify(seccompProfile) === '{"type":"RuntimeDefault"}'
        );
      }),
    ).toEqual([]);
  });

  test('has no token of a service account and no variables of Services', () => {
    expect(
      breaking(
        pods,
        (pod) => pod['automountServiceAccountToken'] === false && pod['enableServiceLinks'] === false,
      ),
    ).toEqual([]);
  });

  test('shares nothing with its node', () => {
    expect(
      breaking(
        pods,
        (pod) =>
          pod['hostNetwork'] === undefined &&
          pod['hostPID'] === undefined &&
          pod['hostIPC'] === undefined &&
          (pod.volumes ?? []).every((volume) => volume['hostPath'] === undefined),
      ),
    ).toEqual([]);
  });

  test('mounts only its own volumes', () => {
    const claimed = (object: KubernetesObject): string[] =>
      ((object.spec?.['volumeClaimTemplates'] ?? []) as KubernetesObject[]).map(
        ({ metadata }) => metadata.name,
      );
    const missing = pods.flatMap(([name, pod, object]) => {
      const there = [...(pod.volumes ?? []).map((volume) => volume.name), ...claimed(object)];
      return pod.containers
        .flatMap((container) => (container['volumeMounts'] ?? []) as { name: string }[])
        .filter((mount) => !there.includes(mount.name))
        .map((mount) => `${name}: ${mount.name}`);
    });
    expect(missing).toEqual([]);
  });
});

describe('every container', () => {
  test('is not privileged, gains no privileges, has no capabilities and a read-only root', () => {
    expect(
      breaking(containers, ({ securityContext }) => {
        const { privileged, allowPrivilegeEscalation, readOnlyRootFilesystem, capabilities } =
          securityContext as Record<string, unknown>;
        return (
          privileged === undefined &&
          allowPrivilegeEscalation === false &&
          readOnlyRootFilesystem === true &&
          JSON.stringify(capabilities) === '{"drop":["ALL"]}'
        );
      }),
    ).toEqual([]);
  });

  test('requests CPU and memory, and limits its memory', () => {
    expect(
      breaking(containers, ({ resources }) => {
        const { requests, limits } = resources as Record<string, Record<string, unknown> | undefined>;
        return (
          requests?.['cpu'] !== undefined &&
          requests['memory'] !== undefined &&
          limits?.['memory'] !== undefined
        );
      }),
    ).toEqual([]);
  });

  test('of a Deployment or StatefulSet has startup, readiness and liveness probes', () => {
    expect(
      breaking(long, (container) =>
        ['startupProbe', 'readinessProbe', 'livenessProbe'].every((probe) => container[probe] !== undefined),
      ),
    ).toEqual([]);
  });

  test('names its image with a tag or a digest, and never with latest', () => {
    expect(
      breaking(
        containers,
        ({ image }) => /(:[\w.-]+|@sha256:[0-9a-f]{64})$/.test(image) && !/:latest$/.test(image),
      ),
    ).toEqual([]);
  });

  test('receives no secret by value', () => {
    expect(
      breaking(containers, ({ env }) =>
        (env ?? []).every(
          ({ name, value }) =>
            value === undefined ||
            !/TOKEN$|PASSWORD$|STORE$|LISTEN_URL$|RUN_ID_KEY/.test(name) ||
            value === 'off',
        ),
      ),
    ).toEqual([]);
  });
});

describe('a service', () => {
  const own = [...set].flatMap(([setup, objects]) =>
    services.flatMap((service) => {
      const container = containerOf(objects, service);
      const deployment = objects.find(
        ({ kind, metadata }) =>
          kind === 'Deployment' && metadata.labels['app.kubernetes.io/component'] === service,
      );
      return container === undefined
        ? []
        : [[`${setup}: ${service}`, { container, deployment: deployment! }] as const];
    }),
  );

  test('is not killed while its store is unavailable: only readiness asks /readyz', () => {
    const paths = own.map(([, { container }]) =>
      ['startupProbe', 'readinessProbe', 'livenessProbe'].map(
        (probe) => (container[probe] as { httpGet: { path: string; port: string } }).httpGet,
      ),
    );
    const ops = (path: string): object => ({ path, port: 'ops' });
    for (const found of paths) expect(found).toEqual([ops('/healthz'), ops('/readyz'), ops('/healthz')]);
  });

  test('has a longer grace period than its sleep, its drain and the ten seconds of its stop', () => {
    expect(
      breaking(own, ({ container, deployment }) => {
        const drainMs = Number(container.env!.find(({ name }) => name === 'HOLDFAST_DRAIN_MS')!.value);
        const lifecycle = container['lifecycle'] as { preStop: { sleep: { seconds: number } } } | undefined;
        const sleep = lifecycle?.preStop.sleep.seconds ?? 0;
        return podOf(deployment)!.terminationGracePeriodSeconds! > sleep + drainMs / 1000 + 10;
      }),
    ).toEqual([]);
  });

  test('starts as from the root of the repository, with the command of its name', () => {
    for (const [name, { container }] of own) {
      const service = name.split(': ')[1]!;
      expect(container.args).toEqual(['node', `apps/${service}/dist/main.js`]);
    }
  });

  test('of gateways sleeps before it stops, so that load balancers remove it first', () => {
    const gateways = own.filter(([name]) => name.endsWith('gateway'));
    expect(breaking(gateways, ({ container }) => container['lifecycle'] !== undefined)).toEqual([]);
  });

  test('is spread, updated without a gap and protected from simultaneous eviction', () => {
    for (const [setup, objects] of set) {
      for (const service of services) {
        if (containerOf(objects, service) === undefined) continue;
        const of = (kind: string): KubernetesObject | undefined =>
          objects.find((object) => object.kind === kind && object.metadata.name === `holdfast-${service}`);
        expect({ setup, service, pdb: of('PodDisruptionBudget')?.spec?.['maxUnavailable'] }).toEqual({
          setup,
          service,
          pdb: 1,
        });
        const { spec } = of('Deployment')!;
        expect(podOf(of('Deployment')!)!['topologySpreadConstraints']).toBeDefined();
        expect(spec!['strategy']).toMatchObject({ rollingUpdate: { maxUnavailable: 0 } });
      }
    }
  });

  test('with autoscaling sets no replicas, which an upgrade would reset', () => {
    const scaled = (setup: string, service: string): unknown =>
      set
        .get(setup)!
        .find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === `holdfast-${service}`)!
        .spec!['replicas'];
    expect(scaled('hpa', 'gateway')).toBeUndefined();
    expect(scaled('hpa', 'worker')).toBeUndefined();
    expect(scaled('keda', 'worker')).toBeUndefined();
    expect(scaled('keda', 'gateway')).toBe(2);
  });
});

test('an autoscaler that can scale to zero also measures active runs, with metric types that have a KEDA fallback', () => {
  for (const setup of ['keda', 'keda-postgres']) {
    const { spec } = set.get(setup)!.find(({ kind }) => kind === 'ScaledObject')!;
    const triggers = spec!['triggers'] as { metricType: string; metadata: { query: string } }[];
    expect(spec!['minReplicaCount']).toBe(0);
    expect(triggers.map(({ metricType }) => metricType)).toEqual(triggers.map(() => 'AverageValue'));
    const asked = triggers.map(({ metadata }) => metadata.query).join();
    expect(asked).toMatch(setup === 'keda' ? /holdfast_calls_waiting/ : /FROM holdfast\.queue LIMIT/);
  }
});

describe('selectors', () => {
  test('of Services, budgets and policies select the pods of one component', () => {
    for (const [setup, objects] of set) {
      const labels = objects
        .filter(({ kind }) => kind === 'Deployment' || kind === 'StatefulSet')
        .map(({ spec }) => (spec!['template'] as KubernetesObject).metadata.labels);
      for (const { kind, metadata, spec } of objects) {
        const selector = (
          kind === 'Service'
            ? spec!['selector']
            : kind === 'PodDisruptionBudget'
              ? (spec!['selector'] as { matchLabels: unknown }).matchLabels
              : kind === 'NetworkPolicy'
                ? (spec!['podSelector'] as { matchLabels: unknown }).matchLabels
                : undefined
        ) as Record<string, string> | undefined;
        if (selector === undefined || metadata.name === 'holdfast-ops') continue;
        const found = labels.filter((pod) =>
          Object.entries(selector).every(([name, value]) => pod[name] === value),
        );
        expect({ setup, kind, name: metadata.name, found: found.length }).toMatchObject({ found: 1 });
      }
    }
  });

  test('of all monitors select the three services and nothing else', () => {
    const { spec } = set.get('postgres')!.find(({ kind }) => kind === 'PodMonitor')!;
    expect(spec!['selector']).toMatchObject({
      matchExpressions: [{ key: 'app.kubernetes.io/component', operator: 'In', values: [...services] }],
    });
  });
});

describe('a restricted network', () => {
  const objects = set.get('restricted')!;
  const policy = (
    component: string,
  ): { ingress: unknown[]; egress: { to?: unknown[]; ports?: { port: unknown }[] }[] } =>
    objects.find(
      ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === `holdfast-${component}`,
    )!.spec as never;

  test('has a policy for every pod', () => {
    for (const setup of ['restricted', 'evaluation-valkey', 'sticky-nginx']) {
      const covered = set
        .get(setup)!
        .filter(({ kind }) => kind === 'NetworkPolicy')
        .map(({ metadata }) => metadata.labels['app.kubernetes.io/component']);
      const running = pods
        .filter(([name, , { kind }]) => name.startsWith(`${setup}:`) && kind !== 'Pod')
        .map(([, , { metadata }]) => metadata.labels['app.kubernetes.io/component']);
      expect(covered.sort()).toEqual(running.sort());
    }
  });

  test('lets a worker reach DNS, the store, the collector, the connectors and the targets of its tools', () => {
    const ports = policy('worker').egress.flatMap((rule) => rule.ports!.map(({ port }) => port));
    expect(ports).toEqual([53, 53, 5432, 4317, 4318, 50051, 8080]);
  });

  test('lets a gateway reach the keys of the issuer on the port of their URL, and no connector', () => {
    const ports = policy('gateway').egress.flatMap((rule) => rule.ports!.map(({ port }) => port));
    expect(ports).toEqual([53, 53, 5432, 4317, 4318, 8443]);
  });

  test('blocks connectors from all internal addresses that are not named', () => {
    const outward = policy('connector').egress.filter(({ to }) =>
      JSON.stringify(to ?? []).includes('0.0.0.0/0'),
    );
    expect(outward).toEqual([expect.objectContaining({ ports: [{ port: 443, protocol: 'TCP' }] })]);
    expect(JSON.stringify(outward)).toContain(
      '"except":["10.0.0.0/8","100.64.0.0/10","127.0.0.0/8","169.254.0.0/16"',
    );
    expect(policy('connector').egress.every(({ to }) => to !== undefined)).toBe(true);
  });
});
