import { formatPath } from '@holdfast/run';
import { defaultRules } from '@holdfast/tools';
import { z } from 'zod';
import { nearestName } from './nearest-name.js';
import { shownName } from './shown-name.js';

/**
 * One server as an operator writes it: the fields of BEHAVIOURS §4a by the names they have in the
 * settings file. Which of them go together is told by `parse-servers.ts`.
 */
const text = z.string().min(1).max(8192).refine((value) => !/[\0\r\n]/.test(value), 'may hold no line break'); // prettier-ignore
const anyText = z.string().max(65_536).refine((value) => !value.includes('\0'), 'may hold no NUL'); // prettier-ignore
/** Hosts take numbers and booleans as well. A number with a fraction may have been written in another way. */
const variableText = z.union([z.boolean().transform(String), z.int().transform(String), anyText], {
  error: 'must be a text, a whole number or a boolean',
});
const seconds = (min: number, max: number) => z.number().min(min).max(max);
const count = (min: number, max: number) => z.int().min(min).max(max);
const bareNames = z.array(text).max(10_000);
const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be the name of a variable');
const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, 'is no name of a header');
const envName = z.string().regex(/^[^=\0\s]+$/, 'is no name of a variable');

export const serverEntry = z.strictObject({
  id: z.string().regex(/^[a-z0-9_-]{1,32}$/, 'must be 1 to 32 of a-z, 0-9, - and _'),
  name: text.max(100).optional(),
  enabled: z.boolean().default(true),
  required: z.boolean().default(false),
  transport: z.enum(['stdio', 'http', 'streamable-http', 'streamableHttp', 'sse']),

  command: text.optional(),
  args: z.array(anyText).max(1000).optional(),
  env: z.record(envName, variableText).optional(),
  cwd: text.optional(),
  env_policy: z.enum(['allow-list', 'scrub']).optional(),

  url: text.optional(),
  headers: z.record(headerName, anyText.regex(/^[^\r\n]*$/, 'may hold no line break')).optional(),
  auth: z
    .union(
      [
        z.strictObject({ bearer_env: variable }),
        z.strictObject({ headers_env: z.record(headerName, variable) }),
      ],
      { error: 'must be {bearer_env: VARIABLE} or {headers_env: {HEADER: VARIABLE}}' },
    )
    .optional(),
  allowed_hosts: z.array(text.regex(/^[^/:?#@\s]+$|^\[[0-9A-Fa-f:.]+\]$/, 'must be a host name without scheme and port')).optional(), // prettier-ignore
  allow_http: z.boolean().optional(),
  allow_private: z.boolean().optional(),
  credentials: z.strictObject({ per: z.literal('principal'), module: text }).optional(),

  timeout: seconds(1, 600).default(defaultRules.timeoutMs / 1000),
  retry: count(0, 10).default(defaultRules.retry),
  connect_retries: count(1, 100).default(3),
  connect_backoff: seconds(0, 60).default(0.5),
  connect_timeout: seconds(0.1, 600).optional(),
  max_tool_pages: count(1, 100_000).default(100),
  max_tools: count(1, 100_000).default(500),
  cache_ttl: seconds(1, 30 * 24 * 3600).optional(),

  allow: bareNames.optional(),
  deny: bareNames.optional(),
  overrides: z.record(text, z.enum(['read', 'write'])).default(defaultRules.overrides),
  trust_hints: z.boolean().default(defaultRules.trustHints),
  requires_approval: bareNames.default([...defaultRules.requiresApproval]),
  auto_approve: bareNames.default([...defaultRules.autoApprove]),
  approval_mode: z.enum(['guarded', 'ask', 'allow-reads', 'allow-all']).optional(),
  concurrency: count(1, 10_000).default(defaultRules.concurrency),
  placement: z.enum(['single', 'every']).default('single'),
  session_scope: z.enum(['server', 'principal']).optional(),
  on_crash: z.enum(['rerun', 'unknown']).optional(),
  result_mode: z.enum(['passthrough', 'text']).default(defaultRules.resultMode),
  max_result_bytes: count(1024, 64 * 1024 * 1024).default(defaultRules.maxResultBytes),
  description_prefix: z.boolean().default(defaultRules.descriptionPrefix),
});

export type ServerEntry = z.infer<typeof serverEntry>;

const knownFields = Object.keys(serverEntry.shape);
const maxShownKeys = 10;

/** What other hosts call a field, or have beside ours. */
const hints: Readonly<Record<string, string>> = {
  serverUrl: 'did you mean url?',
  httpUrl: 'did you mean url?',
  disabled: 'write enabled: false',
  autoApprove: 'did you mean auto_approve?',
  alwaysAllow: 'did you mean auto_approve?',
  includeTools: 'did you mean allow?',
  excludeTools: 'did you mean deny?',
  disabledTools: 'did you mean deny?',
  envFile: 'put one file a variable into the folder HOLDFAST_ENV_DIR',
  oauth: 'use headers, auth or credentials',
  type: 'it is the same as transport; write one of the two',
};

/** What is wrong with an entry, field by field, without the value of any. */
export function problemsOf(error: z.ZodError): string {
  return error.issues.flatMap((issue) => issueProblems(issue)).join('; ');
}

function issueProblems(issue: z.core.$ZodIssue): string[] {
  const path = formatPath(
    issue.path.map((part) => (typeof part === 'number' ? part : shownName(String(part)))),
  );
  if (issue.code !== 'unrecognized_keys') return [`${path || 'the entry'}: ${issue.message}`];
  const shown = issue.keys.slice(0, maxShownKeys).map((key) => {
    if (path !== '') return `${path}: unknown field ${shownName(key)}`;
    const nearest = nearestName(key, knownFields);
    const hint = Object.hasOwn(hints, key) ? hints[key] : nearest && `did you mean ${nearest}?`;
    return `unknown field ${shownName(key)}${hint === undefined ? '' : `; ${hint}`}`;
  });
  const more = issue.keys.length - maxShownKeys;
  return more > 0 ? [...shown, `${more} more unknown fields`] : shown;
}
