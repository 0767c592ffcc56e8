/**
 * `npm run cluster`: installs the chart into the cluster of KUBECONFIG, whose nodes have the images, and runs it
 * through the life of a release while a pod calls. The namespace enforces the restricted Pod Security Standard.
 * Without KUBECONFIG it reports this and exits.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { helmPath, install } from '../helm/install.ts';
import { Report } from '../interop/report.ts';
import { watchPods } from './pods.ts';

const kubeconfig = process.env['KUBECONFIG'];
if (kubeconfig === undefined || kubeconfig === '') {
  process.stdout.write(
    'skipped: no cluster. Set KUBECONFIG to a cluster whose nodes have the images, and install kubectl.\n',
  );
  process.exit();
}

const root = join(import.meta.dirname, '../..');
const chart = join(root, 'helm/holdfast');
const namespace = `holdfast-test-${randomBytes(3).toString('hex')}`;
/** Additional arguments for helm, such as `--set image.tag=dev`; and `--from CHART`, the chart to upgrade from. */
const args = process.argv.slice(2);
const from = args.includes('--from') ? args.splice(args.indexOf('--from'), 2)[1]! : chart;

const run = async (command: string, ...rest: readonly string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)(command, ['--namespace', namespace, ...rest], {
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout;
};
const kubectlReads = async (input: string, ...rest: readonly string[]): Promise<void> => {
  const running = promisify(execFile)('kubectl', ['--namespace', namespace, ...rest]);
  // A command that ends before it has read everything reports the reason itself.
  running.child.stdin!.on('error', () => {});
  running.child.stdin!.end(input);
  await running;
};
const kubectl = (...rest: readonly string[]): Promise<string> => run('kubectl', ...rest);
const helm = (...rest: readonly string[]): Promise<string> => run(helmPath, ...rest);
const wait = ['--wait', '--timeout', '5m'];
const values = ['--values', join(chart, 'ci/evaluation-values.yaml'), ...wait, ...args];
const servers = (...ids: readonly string[]): string[] => {
  const list = ids.map((id) => ({
    id,
    url: 'http://upstream:8000/mcp',
    allowed_hosts: ['upstream'],
    allow_private: true,
    allow_http: true,
  }));
  return ['--set-json', `connector.servers.list=${JSON.stringify(list)}`];
};
const upgrade = (...rest: readonly string[]): Promise<string> =>
  helm('upgrade', 'holdfast', chart, ...values, ...rest);
const key = 'desk-for-evaluation-only';
const over = '/tmp/over';
const sentAgainPath = '/tmp/sent-again';
const services = ['gateway', 'worker', 'connector'];
const worker = ['--selector', 'app.kubernetes.io/component=worker', '--output', 'name'];

install();
const report = new Report();
report.heading(`a release in ${namespace}`);
const pods = watchPods(namespace);
try {
  await kubectl('create', 'namespace', namespace);
  for (const mode of ['enforce', 'warn'])
    await kubectl('label', 'namespace', namespace, `pod-security.kubernetes.io/${mode}=restricted`);
  await kubectl('create', 'configmap', 'scripts', `--from-file=${join(root, 'test/cluster')}`);
  await report.check(
    'could be any set-up of helm/holdfast/ci, as far as the cluster knows its kinds',
    async () => {
      // Its imports were installed above.
      const { objectsOf, setups } = await import('../helm/chart.ts');
      const versions = (await kubectl('api-versions')).split('\n');
      for (const [setup, path] of setups) {
        const items = objectsOf(await helm('template', 'holdfast', chart, '--values', path));
        const known = items.filter(({ apiVersion }) => versions.includes(apiVersion));
        const list = { apiVersion: 'v1', kind: 'List', items: known };
        const create = ['create', '--dry-run=server', '--validate=strict', '--warnings-as-errors'];
        await kubectlReads(JSON.stringify(list), ...create, '--filename=-').catch((error: Error) => {
          throw new Error(`${setup}: ${error.message}`, { cause: error });
        });
      }
    },
  );
  await report.check('is installed', async () => {
    await helm('install', 'holdfast', from, ...values, ...servers('numbers'));
  });
  await report.check('passes helm test', async () => void (await helm('test', 'holdfast')));
  await report.check('serves a pod that calls', async () => {
    await runScript('upstream', 'upstream.mjs');
    await kubectl('expose', 'pod/upstream', '--port=8000');
    await runScript('load', 'load.mjs');
    await listed('numbers');
  });
  const token = await secret('holdfast-connector-token');
  const storePassword = await secret('holdfast-store');
  await undisturbed('scales its workers up and down', async () => {
    await kubectl('scale', 'deployment/holdfast-worker', '--replicas=4');
    await rolledOut('worker');
    await kubectl('scale', 'deployment/holdfast-worker', '--replicas=2');
    await rolledOut('worker');
    await until(async () => (await kubectl('get', 'pods', ...worker)).trim().split('\n').length === 2);
  });
  for (const service of services) {
    await undisturbed(`rolls out its ${service}s anew`, async () => {
      await kubectl('rollout', 'restart', `deployment/holdfast-${service}`);
      await rolledOut(service);
    });
  }
  await undisturbed('is upgraded', async () => {
    await upgrade(...servers('numbers'), '--set', 'logLevel=debug');
  });
  await undisturbed('restarts no pod for other servers, which it connects, or other replicas', async () => {
    const before = await podsOf(...services);
    await upgrade(...servers('numbers', 'more'), '--set', 'logLevel=debug,connector.replicas=3');
    await listed('more');
    const after = await podsOf(...services);
    assert.deepEqual(
      before.filter((pod) => !after.includes(pod)),
      [],
    );
    assert.equal(after.length, before.length + 1);
  });
  await undisturbed('is rolled back', async () => {
    await helm('rollback', 'holdfast', '1', ...wait);
  });
  await report.check('kept its token and the password of its store', async () => {
    assert.equal(await secret('holdfast-connector-token'), token);
    assert.equal(await secret('holdfast-store'), storePassword);
  });
  await undisturbed('is unchanged after ten seconds', () => sleep(10_000));
  for (const service of services) {
    await report.check(`starts a ${service} again that was killed`, async () => {
      const [pod] = await podsOf(service);
      // Only tini remains, and it ends with its child.
      await kubectl('exec', pod!, '--', 'sh', '-c', 'kill -9 -1').catch(() => {});
      const restarted = '--for=jsonpath={.status.containerStatuses[0].restartCount}=1';
      await kubectl('wait', restarted, `pod/${pod}`, '--timeout=1m');
      await rolledOut(service);
    });
    await report.check(`replaces a ${service} whose pod is deleted at once`, async () => {
      const [pod] = await podsOf(service);
      pods.forget(pod!);
      await kubectl('delete', 'pod', pod!, '--force', '--grace-period=0');
      await rolledOut(service);
    });
  }
  await report.check('answered every call once', async () => {
    const { calls, sentAgain, slowestMs, failed, otherwise } = await endLoad();
    process.stdout.write(
      `    ${calls} calls, sent again ${sentAgain} times, the slowest took ${slowestMs} ms\n`,
    );
    assert.deepEqual([failed, otherwise], [[], []]);
    assert.ok(calls > 0);
  });
  await report.check('is uninstalled, and leaves nothing that runs', async () => {
    await helm('uninstall', 'holdfast', '--wait');
    const selector = 'app.kubernetes.io/instance=holdfast';
    await kubectl('wait', '--for=delete', 'pod', '--selector', selector, '--timeout=3m');
    assert.equal(await kubectl('get', 'all', '--selector', selector, '--output', 'name'), '');
  });
  await report.check('ended each pod in its time, with exit code 0', async () => {
    const ends = await pods.stop();
    process.stdout.write(`    ${ends.size} pods\n`);
    assert.deepEqual(
      [...ends].filter(([, end]) => end !== '0'),
      [],
    );
    assert.ok(ends.size > 6);
  });
  // The release was rolled back to its first chart, and an older chart left its volume.
  if (from === chart) {
    await report.check('is installed again, and passes helm test', async () => {
      await helm('install', 'holdfast', chart, ...values);
      await helm('test', 'holdfast');
    });
  }
} finally {
  await pods.stop();
  await kubectl('delete', 'namespace', namespace, '--wait=false').catch(() => {});
}
report.finish();

interface Seen {
  readonly calls: number;
  readonly sentAgain: number;
  readonly slowestMs: number;
  readonly failed: readonly string[];
  readonly otherwise: readonly string[];
}

/** A check during which no caller may have to repeat a call. */
async function undisturbed(name: string, what: () => Promise<unknown>): Promise<void> {
  await report.check(name, async () => {
    const count = () => kubectl('exec', 'load', '--', 'cat', sentAgainPath);
    const before = await count();
    await what();
    assert.equal(await count(), before, 'calls had to be sent again');
  });
}

function rolledOut(service: string): Promise<string> {
  return kubectl('rollout', 'status', `deployment/holdfast-${service}`, '--timeout=5m');
}

/** Polls every half second for two minutes. @throws Error if the condition never held */
async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await holds()); tries++) {
    if (tries === 240) throw new Error('not within two minutes');
    await sleep(500);
  }
}

/** Names of the pods of services that are not terminating. */
async function podsOf(...of: readonly string[]): Promise<string[]> {
  const selector = `app.kubernetes.io/part-of=holdfast,app.kubernetes.io/component in (${of.join(',')})`;
  const columns = 'custom-columns=:.metadata.name,:.metadata.deletionTimestamp';
  const pods = await kubectl('get', 'pods', '--selector', selector, '--no-headers', '--output', columns);
  return [...pods.matchAll(/^(\S+) +<none>$/gm)].map(([, name]) => name!);
}

async function secret(name: string): Promise<string> {
  return kubectl('get', 'secret', name, '--output', 'jsonpath={.data}');
}

/** A pod with the gateway image that runs one of the scripts beside this file. */
async function runScript(name: string, script: string): Promise<void> {
  const path = 'jsonpath={.spec.template.spec.containers[0].image}';
  const image = await kubectl('get', 'deployment/holdfast-gateway', '--output', path);
  const env = { URL: 'http://holdfast-gateway/mcp', KEY: key, OVER: over, SENT_AGAIN: sentAgainPath };
  const spec = {
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name,
        image,
        args: ['node', `/scripts/${script}`],
        env: Object.entries(env).map(([variable, value]) => ({ name: variable, value })),
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        volumeMounts: [{ name: 'scripts', mountPath: '/scripts' }],
      },
    ],
    volumes: [{ name: 'scripts', configMap: { name: 'scripts' } }],
  };
  const overrides = JSON.stringify({ apiVersion: 'v1', spec });
  await kubectl('run', name, `--image=${image}`, '--restart=Never', `--overrides=${overrides}`);
  await kubectl('wait', '--for=condition=Ready', `pod/${name}`, '--timeout=2m');
}

/** Waits until hosts see the tool of that server. The kubelet takes a minute or more to update a ConfigMap. */
async function listed(server: string): Promise<void> {
  await kubectl('exec', 'load', '--', 'node', '/scripts/listed.mjs', `${server}__number`);
}

async function endLoad(): Promise<Seen> {
  await kubectl('exec', 'load', '--', 'touch', over);
  await kubectl('wait', '--for=jsonpath={.status.phase}=Succeeded', 'pod/load', '--timeout=5m');
  return JSON.parse((await kubectl('logs', 'load')).trim().split('\n').at(-1)!) as Seen;
}
