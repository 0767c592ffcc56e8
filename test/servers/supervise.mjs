/**
 * Ensures that a test server and its folder do not outlive the process that started it.
 *
 * Argument: JSON `{ folder, stopSignal, cleanUp }`. Each line of stdin is JSON `{ command, args, uid, gid, log }` and
 * starts the server (again, once it has exited). Each line of stdout is an event: `{ started: pid }`,
 * `{ exited: code or signal }` or `{ failed: message }`.
 *
 * The end of stdin is the order to stop. The supervisor sends `stopSignal` to the server, ten seconds later SIGKILL,
 * then runs the command `cleanUp`, if any, and removes the folder. A pipe also ends when the process at its other end
 * is killed, so a crashed test run cleans up like a finished one. Plain JavaScript, because it runs under the Node that
 * runs Jest.
 */
import { spawn, spawnSync } from 'node:child_process';
import { closeSync, openSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';

const { folder, stopSignal, cleanUp } = JSON.parse(process.argv[2]);
const report = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
let server;
let ended = false;

function start({ command, args, uid, gid, log }) {
  const output = openSync(log, 'a');
  server = spawn(command, args, { uid, gid, cwd: folder, stdio: ['ignore', output, output] });
  closeSync(output);
  server.once('spawn', () => report({ started: server.pid }));
  server.once('error', (error) => gone({ failed: error.message }));
  server.once('exit', (code, signal) => gone({ exited: signal ?? code }));
}

function gone(event) {
  server = undefined;
  report(event);
  if (ended) leave();
}

function end() {
  if (ended) return;
  ended = true;
  if (server === undefined) return leave();
  server.kill(stopSignal);
  server.kill('SIGCONT'); // a paused server would not see the signal above
  setTimeout(() => server?.kill('SIGKILL'), 10_000).unref();
}

function leave() {
  if (cleanUp) spawnSync(cleanUp[0], cleanUp.slice(1));
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  process.exit(0);
}

process.stdout.on('error', () => {}); // the reader is gone; the end of stdin reports this too
process.on('SIGTERM', end);
process.on('SIGINT', end);
createInterface({ input: process.stdin })
  .on('line', (line) => start(JSON.parse(line)))
  .on('close', end);
