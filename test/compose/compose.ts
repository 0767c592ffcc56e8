import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { join } from 'node:path';
import { documentedCalls } from './documented-call.ts';

/**
 * Starts docker-compose.yml, makes the calls that docs/compose.md shows, and removes everything again. Without
 * a Docker engine it reports that it did not run.
 */
const root = join(import.meta.dirname, '../..');
// A separate project, because the user may have one running.
const project = ['compose', '--project-name', 'holdfast-test'];

function docker(args: readonly string[], { isShown = false } = {}): SpawnSyncReturns<string> {
  return spawnSync('docker', args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', isShown ? 'inherit' : 'pipe', isShown ? 'inherit' : 'pipe'],
  });
}

function missing(): string | undefined {
  const engine = docker(['version', '--format', '{{.Server.Version}}']);
  if (engine.error !== undefined) return 'no docker command';
  if (engine.status !== 0) return 'no Docker engine answers';
  return docker(['compose', 'version']).status === 0 ? undefined : 'docker has no compose plugin';
}

function fail(what: string): void {
  process.stderr.write(`compose: ${what}\n`);
  process.exitCode = 1;
}

const reason = missing();
if (reason !== undefined) {
  process.stdout.write(`compose: not run: ${reason}\n`);
} else {
  try {
    if (docker([...project, 'config', '--quiet'], { isShown: true }).status !== 0) {
      fail('docker-compose.yml is not valid');
    } else if (
      docker([...project, 'up', '--build', '--wait', '--wait-timeout', '900'], { isShown: true }).status !== 0
    ) {
      docker([...project, 'ps', '--all'], { isShown: true });
      docker([...project, 'logs', '--tail', '20'], { isShown: true });
      fail('not every service became healthy');
    } else {
      for (const { command, expected } of documentedCalls()) {
        const { stdout } = spawnSync('bash', ['-c', command], { encoding: 'utf8', timeout: 120_000 });
        if (stdout.includes(expected)) process.stdout.write(`compose: answered ${expected}\n`);
        else fail(`expected ${expected} in the answer, got ${stdout}`);
      }
    }
  } finally {
    docker([...project, 'down', '--volumes', '--timeout', '45'], { isShown: true });
  }
}
