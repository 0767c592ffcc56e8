import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { ScriptableUpstream } from './scriptable-upstream.ts';
import type { Execution } from './upstream-executions.ts';
import type { Fault, LoggedRequest, UpstreamScript } from './upstream-script.ts';

/** The operations of an upstream over its control port, by path. */
interface Verbs {
  log: { body: undefined; answer: LoggedRequest[] };
  executions: { body: undefined; answer: Execution[] };
  state: { body: undefined; answer: { sessions: number; listeners: number } };
  'clear-log': { body: undefined; answer: void };
  script: { body: Partial<UpstreamScript>; answer: void };
  fault: { body: Fault; answer: void };
  'clear-faults': { body: undefined; answer: void };
  'forget-sessions': { body: undefined; answer: void };
  'tools-changed': { body: { times: number }; answer: void };
  'end-streams': { body: undefined; answer: void };
}

type Verb = keyof Verbs;

/** The control port of an upstream: `POST /<verb>` with JSON. */
export function serveControl(upstream: ScriptableUpstream): Server {
  const verbs: { [verb in Verb]: (body: Verbs[verb]['body']) => Verbs[verb]['answer'] } = {
    log: () => upstream.log,
    executions: () => [...upstream.executions.all],
    state: () => ({ sessions: upstream.sessions, listeners: upstream.listeners }),
    'clear-log': () => void upstream.log.splice(0),
    script: (patch) => void Object.assign(upstream.script, patch),
    fault: (fault) => void upstream.faults.push(fault),
    'clear-faults': () => void upstream.faults.splice(0),
    'forget-sessions': () => void upstream.forgetSessions(),
    'tools-changed': ({ times }) => void upstream.toolsChanged(times),
    'end-streams': () => void upstream.endStreams(),
  };
  return createServer((req, res) => void answer(verbs, req, res));
}

async function answer(
  verbs: { [verb in Verb]: (body: never) => unknown },
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of req as AsyncIterable<Buffer>) chunks.push(chunk);
  const verb = (req.url ?? '').slice(1);
  if (!Object.hasOwn(verbs, verb)) {
    res.writeHead(404).end();
    return;
  }
  const text = Buffer.concat(chunks).toString();
  const result = verbs[verb as Verb]((text === '' ? undefined : JSON.parse(text)) as never);
  res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(result ?? null));
}

/** Uses the control port of an upstream in another process. */
export async function askUpstream<V extends Verb>(
  controlUrl: string,
  verb: V,
  ...[body]: Verbs[V]['body'] extends undefined ? [] : [Verbs[V]['body']]
): Promise<Verbs[V]['answer']> {
  const response = await fetch(`${controlUrl}/${verb}`, {
    method: 'POST',
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`control port: ${verb} answered ${response.status}`);
  return (await response.json()) as Verbs[V]['answer'];
}
