import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** The observed pods of a release. */
export interface PodWatch {
  /** Excludes a pod whose deletion hides its end. */
  forget(pod: string): void;
  /** Exit code of the container of each pod, as the kubelet reported it before the pod was removed; empty if it did not. */
  stop(): Promise<ReadonlyMap<string, string>>;
}

/** Watches the pods of gateways, workers and connectors in a namespace. */
export function watchPods(namespace: string): PodWatch {
  const line = '{.metadata.name} {.status.containerStatuses[0].state.terminated.exitCode}{"\\n"}';
  const watch = spawn(
    'kubectl',
    [
      ...['--namespace', namespace, 'get', 'pods', '--watch', '--output', `jsonpath=${line}`],
      ...['--selector', 'app.kubernetes.io/component in (gateway,worker,connector)'],
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ends = new Map<string, string>();
  const forgotten = new Set<string>();
  createInterface(watch.stdout).on('line', (text) => {
    const [pod, code] = text.split(' ');
    if (!forgotten.has(pod!)) ends.set(pod!, code!);
  });
  return {
    forget(pod) {
      forgotten.add(pod);
      ends.delete(pod);
    },
    async stop() {
      if (watch.kill()) await once(watch, 'close');
      return ends;
    },
  };
}
