import { parseArgs } from 'node:util';
import { startOrExit } from '@holdfast/ops';

const help = `Holdfast in one process: gateway, worker and connector over one store.

  main.js            serve hosts over HTTP (http://127.0.0.1:8000/mcp unless set otherwise)
  main.js stdio      serve one host over stdin and stdout; logs go to stderr

  --watch            start again when a tool module or its folder changes
  --help             this text

Settings are environment variables, all in docs/configuration.md. The most used:
  HOLDFAST_TOOLS     modules whose exports are tools, comma-separated (the examples)
  HOLDFAST_STORE     sqlite:PATH, postgres://…, valkey://…, memory: (sqlite:./data/holdfast.db)
  HOLDFAST_SERVERS_FILE  JSON or YAML file of upstream MCP servers
  HOLDFAST_AUTH      none, keys, jwt, module (none, which listens on loopback only)
  HOLDFAST_PORT      8000
`;

await startOrExit(async () => {
  const { values, positionals } = parseArgs({
    options: { watch: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
  });
  const [command = 'serve', ...rest] = positionals;
  if (values.help === true) return void process.stdout.write(help);
  if (rest.length > 0 || !['serve', 'stdio'].includes(command)) {
    throw new Error(`unknown command: ${positionals.join(' ')}; --help lists what there is`);
  }
  if (command === 'stdio') return (await import('./stdio.js')).serveOverStdio();
  if (values.watch === true) return (await import('./watch.js')).serveAndWatch();
  return (await import('./serve.js')).serve();
});
