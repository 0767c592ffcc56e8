import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ChildGuard, hideEnvironment } from '@holdfast/mcp-client';
import { ConfigError, type Environment, type Health, type Metrics } from '@holdfast/ops';
import type { Log } from '@holdfast/run';
import type { Store } from '@holdfast/store';
import { Connector } from './connector.js';
import type { Diagnostic } from './diagnostic.js';
import { connectionOpener } from './open-connection.js';
import { watchServersFile } from './servers-file.js';
import type { ConnectingSettings } from './settings.js';

export interface ConnectingParts {
  readonly settings: ConnectingSettings;
  readonly env: Environment;
  readonly version: string;
  /** What `${home}` in the settings of a server stands for. */
  readonly dataFolder: string;
  readonly log: Log;
  readonly health: Health;
  readonly metrics: Metrics;
}

/** The connector of one process: the servers of its file, from the moment that the store is there. */
export class Connecting {
  readonly #parts: ConnectingParts;
  readonly #ready: ReturnType<Health['condition']>;
  #serving: { readonly connector: Connector; readonly stopWatching: () => void } | undefined;
  #isStopped = false;
  readonly #children: ChildGuard;

  constructor(parts: ConnectingParts) {
    this.#parts = parts;
    const { settings, log } = parts;
    const isRoot = process.getuid?.() === 0;
    if (settings.stdioUid !== undefined && !isRoot) {
      const message = 'needs a process of root, which may start others as another user; unset it';
      throw new ConfigError([{ variable: 'HOLDFAST_STDIO_UID', message }]);
    }
    if (settings.stdioEnabled) {
      if (!hideEnvironment(parts.env)) log.info({}, 'servers over stdio may read our environment from /proc');
      if (isRoot && settings.stdioUid === undefined)
        log.info(
          {},
          'servers over stdio run as root, as this process does; HOLDFAST_STDIO_UID gives them users',
        );
    }
    this.#children = new ChildGuard(parts);
    this.#ready = parts.health.condition('servers');
  }

  /** The connector, once the store is there. */
  get connector(): Connector | undefined {
    return this.#serving?.connector;
  }

  /** @param address where workers reach it */
  async serveFrom(store: Store, address: string): Promise<void> {
    if (this.#serving !== undefined) return;
    const { settings, env, version, dataFolder, log, metrics } = this.#parts;
    const isProduction = settings.profile === 'production';
    const diagnose = ({ message, ...diagnostic }: Diagnostic): void => log.warn(diagnostic, message);
    const connector = new Connector({
      store,
      address,
      leaseMs: settings.ownerLeaseMs,
      open: connectionOpener({
        guard: {
          allowLoopback: settings.allowLoopback ?? !isProduction,
          requireAllowedHosts: isProduction,
          network: settings.outboundNetwork,
        },
        placeholders: {
          node: process.execPath,
          python: 'python3',
          repo: process.cwd(),
          home: dataFolder,
          environment: env,
          ...(settings.envDir !== undefined && { environmentFolder: resolve(settings.envDir) }),
          ...(settings.envAllow !== undefined && { allowedPrefixes: settings.envAllow }),
        },
        children: this.#children,
        ...(settings.stdioUid !== undefined && { firstUserId: settings.stdioUid }),
        version,
        log,
      }),
      log,
      observer: metrics.connector(),
      diagnose,
    });
    const stopWatching =
      settings.serversFile === undefined
        ? () => {}
        : await watchServersFile(
            resolve(settings.serversFile),
            {
              stdioEnabled: settings.stdioEnabled,
              legacySse: settings.allowLegacySse,
              isProduction,
              approvalMode: settings.approvalMode,
            },
            ({ servers, diagnostics }) => {
              diagnostics.forEach(diagnose);
              // Of a file that cannot be read nothing is known; what was wanted before stays.
              if (!diagnostics.some(({ rule }) => rule === 'servers-file-invalid'))
                connector.setServers(servers);
            },
          );
    this.#serving = { connector, stopWatching };
    connector.start();
  }

  /**
   * Resolves once every required server is connected, and the process is ready then.
   * @throws Error naming those whose first tries to connect have failed (BEHAVIOURS X7)
   */
  async requiredServers(): Promise<void> {
    while (!this.#isStopped) {
      const missing = this.#serving!.connector.missing();
      if (missing.length === 0) return this.#ready.met();
      const reasons = missing.map(({ id, reason }) => `${id}: ${reason}`).join('; ');
      if (missing.some(({ isGivenUp }) => isGivenUp))
        throw new Error(`a required server is not connected: ${reasons}`);
      this.#ready.waiting(reasons);
      await sleep(200);
    }
  }

  /** Ends what is under way, for `patienceMs` at most, and gives its servers to the others. */
  async stop(patienceMs: number): Promise<void> {
    this.#isStopped = true;
    this.#serving?.stopWatching();
    await this.#serving?.connector.stop(patienceMs);
    this.#children.close();
  }
}
