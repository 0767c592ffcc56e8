/**
 * A process that starts the child on its command line as an upstream server, writes
 * `[group id, watchdog's process id]` on one line, with SHOW set also what the child writes, with HIDE set after hiding its environment, and then does
 * nothing until it is killed.
 */
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

const libs = new URL('../../libs/', import.meta.url);
// Uses the sources, not an earlier build of them.
registerHooks({
  resolve(specifier, context, next) {
    const ours = /^@holdfast\/(.+)$/.exec(specifier);
    if (ours !== null) return next(new URL(`${ours[1]}/src/index.ts`, libs).href, context);
    const isSource = context.parentURL?.startsWith(libs.href) && specifier.startsWith('.');
    return next(isSource ? specifier.replace(/\.js$/, '.ts') : specifier, context);
  },
});

const { startChild } = await import(fileURLToPath(new URL('mcp-client/src/stdio/child-process.ts', libs)));
const { ChildGuard } = await import(fileURLToPath(new URL('mcp-client/src/stdio/child-guard.ts', libs)));

const { hideEnvironment } = await import(
  fileURLToPath(new URL('mcp-client/src/stdio/hide-environment.ts', libs))
);

if (process.env.HIDE) console.log(hideEnvironment(process.env), process.env.HIDE);
const [command, ...args] = process.argv.slice(2);
const guard = new ChildGuard({ log: console });
const child = await startChild({
  server: 'stubborn',
  settings: { kind: 'stdio', command, args, env: {}, envPolicy: 'allow-list' },
  secrets: [],
  environment: { PATH: '/usr/bin:/bin' },
  guard,
});
console.log(JSON.stringify([child.pid, guard.pid]));
if (process.env.SHOW) child.stdout.pipe(process.stdout);
setInterval(() => {}, 1000);
