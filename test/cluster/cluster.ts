/**
 * `npm run cluster`: installs the chart into the cluster of KUBECONFIG, whose nodes have the images, and lets
 * everything happen to it that happens to a release, while a pod calls. Without KUBECONFIG it says so and ends.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { helmPath, install } from '../helm/install.ts';
import { Report } from '../interop/report.ts';

const kubeconfig = process.env['KUBECONFIG'];
if (kubeconfig === undefined || kubeconfig === '') {
  process.stdout.write(
    'test/cluster did not run: KUBECONFIG is not set. It needs a cluster whose nodes have the images, and kubectl.\n',
  );
  process.exit();
}

const root = join(import.meta.dirname, '../..');
const chart = join(root, 'helm/holdfast');
const namespace = `holdfast-test-${randomBytes(3).toString('hex')}`;
/** More for helm, such as `--set image.tag=dev`; and `--from CHART`, the chart to upgrade from. */
const args = process.argv.slice(2);
const from = args.includes('--from') ? args.splice(args.indexOf('--from'), 2)[1]! : chart;

const run = async (command: string, ...rest: readonly string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)(command, ['--namespace', namespace, ...rest], {
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout;
};
const kubectl = (...rest: readonly string[]): Promise<string> => run('kubectl', ...rest);
const helm = (...rest: readonly string[]): Promise<string> => run(helmPath, ...rest);
const values = ['--values', join(chart, 'ci/evaluation-values.yaml'), '--wait', '--timeout', '5m', ...args];
const key = 'desk-for-evaluation-only';
const over = '/tmp/over';
const deployments = ['gateway', 'worker', 'connector'].map((service) => `deployment/holdfast-${service}`);

install();
const report = new Report();
report.heading(`a release in ${namespace}`);
try {
  await kubectl('create', 'namespace', namespace);
  await report.check('is installed', async () => void (await helm('install', 'holdfast', from, ...values)));
  await report.check('passes helm test', async () => void (await helm('test', 'holdfast')));
  await startLoad();
  await report.check('scales its workers up and down', async () => {
    await kubectl('scale', 'deployment/holdfast-worker', '--replicas=4');
    await kubectl('rollout', 'status', 'deployment/holdfast-worker', '--timeout=3m');
    await kubectl('scale', 'deployment/holdfast-worker', '--replicas=2');
  });
  for (const deployment of deployments) {
    await report.check(`${deployment} is rolled out anew`, async () => {
      await kubectl('rollout', 'restart', deployment);
      await kubectl('rollout', 'status', deployment, '--timeout=5m');
    });
    await report.check(`${deployment} comes back after the kill of a pod`, async () => {
      const selector = `app.kubernetes.io/component=${deployment.replace('deployment/holdfast-', '')}`;
      const pods = await kubectl('get', 'pods', '--selector', selector, '--output', 'name');
      await kubectl('delete', pods.split('\n')[0]!, '--force', '--grace-period=0');
      await kubectl('rollout', 'status', deployment, '--timeout=5m');
    });
  }
  await report.check('is upgraded', async () => {
    await helm('upgrade', 'holdfast', chart, ...values, '--set', 'logLevel=debug');
  });
  await report.check('answered every call once', async () => {
    const { calls, sentAgain, failed, otherwise } = await endLoad();
    process.stdout.write(`    ${calls} calls, sent again ${sentAgain} times\n`);
    assert.deepEqual([failed, otherwise], [[], []]);
    assert.ok(calls > 0);
  });
  await report.check('is uninstalled, and leaves nothing that runs', async () => {
    await helm('uninstall', 'holdfast', '--wait');
    const selector = 'app.kubernetes.io/instance=holdfast';
    await kubectl('wait', '--for=delete', 'pod', '--selector', selector, '--timeout=3m');
    assert.equal(await kubectl('get', 'all', '--selector', selector, '--output', 'name'), '');
  });
} finally {
  await kubectl('delete', 'namespace', namespace, '--wait=false').catch(() => {});
}
report.finish();

interface Seen {
  readonly calls: number;
  readonly sentAgain: number;
  readonly failed: readonly string[];
  readonly otherwise: readonly string[];
}

/** A pod of the image of the gateway that calls until the file is there. */
async function startLoad(): Promise<void> {
  const image = '{.spec.template.spec.containers[0].image}';
  const gateway = await kubectl('get', 'deployment/holdfast-gateway', '--output', `jsonpath=${image}`);
  await kubectl('create', 'configmap', 'load', `--from-file=${join(root, 'test/cluster/load.mjs')}`);
  const url = 'http://holdfast-gateway/mcp';
  const spec = {
    containers: [
      {
        name: 'load',
        image: gateway,
        args: ['node', '/load/load.mjs'],
        env: Object.entries({ URL: url, KEY: key, OVER: over }).map(([name, value]) => ({ name, value })),
        volumeMounts: [{ name: 'load', mountPath: '/load' }],
      },
    ],
    volumes: [{ name: 'load', configMap: { name: 'load' } }],
  };
  const overrides = JSON.stringify({ apiVersion: 'v1', spec });
  await kubectl('run', 'load', `--image=${gateway}`, '--restart=Never', `--overrides=${overrides}`);
  await kubectl('wait', '--for=condition=Ready', 'pod/load', '--timeout=2m');
}

async function endLoad(): Promise<Seen> {
  await kubectl('exec', 'load', '--', 'touch', over);
  await kubectl('wait', '--for=jsonpath={.status.phase}=Succeeded', 'pod/load', '--timeout=5m');
  return JSON.parse((await kubectl('logs', 'load')).trim().split('\n').at(-1)!) as Seen;
}
