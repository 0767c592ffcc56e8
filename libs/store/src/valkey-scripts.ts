/**
 * The scripts of the Valkey store. Each runs as one step that nobody sees half of, so they are
 * its transactions. A script that fails is not undone, though: what can fail is read before
 * anything is written, and one bad item of a batch is reported for itself.
 *
 * Keys, behind the prefix that each script gets as its only key (its hash tag puts all of them
 * in one slot of a cluster):
 *
 * - `run:<id>`        hash: the record of a run, with `token` and `worker` while it is running, and
 *   `dispatched`, the dispatch mark, until it has ended. What never changes is one field, `about`: a
 *   field each took half a kilobyte more for a run. Only `upstream` and `trace` are apart, so that scripts
 *   which look into `about` need not read what a host wrote into them
 * - `runs`            seq -> id, every run; `seq` the last one given
 * - `queue:<workflow>\n<definition>\n<caller>`  seqs of queued runs; `definitions:<workflow>` which of these there
 *   are, as `<definition>\n<caller>`. Without a caller, and in runs of before, the last part is not there
 * - `waiting`         all queued runs by seq; `since` the same by the time of their submission
 * - `running`         seqs of claimed runs; `held:<worker>` those of one worker
 * - `ended`           seqs of ended runs by the time of their end: what retention walks
 * - `events:<seq>`    progress by its number
 * - `repeats`, `tombstones`, `workers` (by end of lease), `serves`, `sessions` (by last use),
 *   `session:<id>`, `own:<principal>`, `tools`, `digests`, `servers`, `catalogue`, `secrets`, `version`, `least`
 * - `owners`          server -> end of lease and owner
 *
 * No key expires by itself: retention is the store's own, and nothing may go that it does not know of.
 */

/** In the order in which scripts give the fields of a run. */
export const runFields = [
  'seq',
  'id',
  'about',
  'arguments',
  'upstream',
  'trace',
  'submitted_at',
  'attempt',
  'started_at',
  'finished_at',
  'state',
  'result',
  'error',
  'dispatched',
] as const;

/** What `about` holds, as a JSON array. */
export const aboutFields = [
  'workflow',
  'tool',
  'tool_class',
  'realm',
  'principal',
  'digest',
  'definition',
] as const;

/** Where a script finds a field in what `HMGET` or `cjson.decode` gave it; Lua counts from one. */
const place = (fields: readonly string[], name: string): number => fields.indexOf(name) + 1;
const about = (name: (typeof aboutFields)[number]): string => `[${place(aboutFields, name)}]`;
const field = (name: (typeof runFields)[number]): string => `[${place(runFields, name)}]`;

/**
 * What every script begins with. Its first arguments: `now` in milliseconds or nothing for the
 * server's clock, the origin of signals, and their channel.
 *
 * A seq is never lower than the microseconds of the clock. So one that was given and then lost,
 * with the last second of an append-only file or in a fail-over, is not given to another run,
 * whose result would go to whoever still waits for the lost one.
 */
const prelude = `
local P = KEYS[1]
local call = redis.call
local clock = call('TIME')
local now = tonumber(ARGV[1]) or (clock[1] * 1000 + math.floor(clock[2] / 1000))
local at = 4
local function arg() at = at + 1 return ARGV[at - 1] end
local function whole(n) return string.format('%.0f', n) end
local function tell(what) call('PUBLISH', ARGV[3], ARGV[2] .. ' ' .. what) end
local function idOf(seq) return call('ZRANGEBYSCORE', P .. 'runs', seq, seq)[1] end
local function record(id)
  return call('HMGET', P .. 'run:' .. id, ${runFields.map((name) => `'${name}'`).join(', ')})
end
-- Not so when it was removed, or damaged from outside: then it must not fail its neighbours.
local function isRecord(run) return call('TYPE', run).ok == 'hash' end
local function isEnded(state) return state ~= 'queued' and state ~= 'running' end

-- See callerKey.
local function lineOf(about)
  local realm, principal = about${about('realm')}, about${about('principal')}
  if realm == cjson.null then return about${about('definition')} end
  return about${about('definition')} .. '\\n' .. string.sub(redis.sha1hex(realm .. '\\n' .. principal), 1, 20)
end

local function enqueue(seq, workflow, line, since)
  call('ZADD', P .. 'queue:' .. workflow .. '\\n' .. line, seq, seq)
  call('SADD', P .. 'definitions:' .. workflow, line)
  call('ZADD', P .. 'waiting', seq, seq)
  call('ZADD', P .. 'since', since, seq)
end

local function dequeue(seq, workflow, about)
  for _, line in ipairs({lineOf(about), about${about('definition')}}) do
    local queue = P .. 'queue:' .. workflow .. '\\n' .. line
    call('ZREM', queue, seq)
    if call('EXISTS', queue) == 0 then call('SREM', P .. 'definitions:' .. workflow, line) end
  end
  call('ZREM', P .. 'waiting', seq)
  call('ZREM', P .. 'since', seq)
end

-- Does \`call\` with many members at once, a few thousand at most.
local function all(command, key, members)
  if #members > 0 then call(command, P .. key, unpack(members)) end
end

local function push(lists, name, ...)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  for _, value in ipairs({...}) do list[#list + 1] = value end
end

local function letGo(seq, worker)
  call('ZREM', P .. 'running', seq)
  call('SREM', P .. 'held:' .. worker, seq)
end

-- Whether there was such a claim; \`fits\` tells by its token.
local function requeue(seq, fits)
  local id = idOf(seq)
  if not id then return false end
  local run = P .. 'run:' .. id
  if not isRecord(run) then return false end
  local held = call('HMGET', run, 'token', 'worker', 'about', 'submitted_at')
  if not held[1] or not fits(held[1]) then return false end
  local about = cjson.decode(held[3])
  call('HDEL', run, 'token', 'worker', 'started_at')
  call('HSET', run, 'state', 'queued')
  letGo(seq, held[2])
  enqueue(seq, about${about('workflow')}, lineOf(about), held[4])
  return true
end

local function requeueHeld(worker, fits)
  local count = 0
  for _, seq in ipairs(call('SMEMBERS', P .. 'held:' .. worker)) do
    if requeue(seq, fits) then count = count + 1 end
  end
  return count
end

local function any() return true end

local function leave(worker)
  call('ZREM', P .. 'workers', worker)
  call('HDEL', P .. 'serves', worker)
  local count = requeueHeld(worker, any)
  call('DEL', P .. 'held:' .. worker)
  return count
end

-- Does one item of a batch. A fault of the server fails the whole batch, before anything was written.
local function each(count, work)
  local answers = {}
  for i = 1, count do
    local ok, answer = pcall(work)
    if not ok then
      local text = type(answer) == 'table' and answer.err or tostring(answer)
      local code = string.match(text, '^%u+')
      if code and code ~= 'WRONGTYPE' and code ~= 'ERR' then return nil, {err = text} end
      answer = {'fault', text}
    end
    answers[i] = answer
  end
  return answers
end
`;

const submit = `
local last = tonumber(call('GET', P .. 'seq') or 0)
local mayBeExpired = call('EXISTS', P .. 'tombstones') == 1
local runs, waiting, since, queues, definitions = {}, {}, {}, {}, {}
local count = tonumber(arg())
local answers, broken = each(count, function()
  local base = at
  at = at + 10
  local id, workflow, line, about, arguments, upstream, trace, key, windowMs, given = unpack(ARGV, base, base + 9)
  local submitted = tonumber(given) or now
  if windowMs ~= '' then
    local earlier = call('HGET', P .. 'repeats', key)
    if earlier then
      local kept = call('HMGET', P .. 'run:' .. earlier, 'state', 'submitted_at')
      if kept[1] and (not isEnded(kept[1]) or tonumber(kept[2]) > submitted - tonumber(windowMs)) then
        return {'attached', record(earlier)}
      end
    end
  end
  local run = P .. 'run:' .. id
  if call('HEXISTS', run, 'seq') == 1 then return {'attached', record(id)} end
  local expires = mayBeExpired and call('ZSCORE', P .. 'tombstones', id)
  if expires and tonumber(expires) > submitted then return {'expired'} end
  last = math.max(last + 1, clock[1] * 1000000 + clock[2])
  local seq, time = whole(last), whole(submitted)
  call('HSET', run, 'seq', seq, 'id', id, 'about', about, 'arguments', arguments, 'submitted_at', time,
    'attempt', '0', 'state', 'queued')
  if upstream ~= '' then call('HSET', run, 'upstream', upstream) end
  if trace ~= '' then call('HSET', run, 'trace', trace) end
  if windowMs ~= '' then
    call('HSET', P .. 'repeats', key, id)
    call('HSET', run, 'repeat', key)
  end
  push(queues, 'queue:' .. workflow .. '\\n' .. line, seq, seq)
  push(definitions, 'definitions:' .. workflow, line)
  push(runs, 1, seq, id)
  push(waiting, 1, seq, seq)
  push(since, 1, time, seq)
  return {'fresh', seq, time}
end)
if runs[1] then
  call('SET', P .. 'seq', whole(last))
  all('ZADD', 'runs', runs[1])
  all('ZADD', 'waiting', waiting[1])
  all('ZADD', 'since', since[1])
  for key, seqs in pairs(queues) do all('ZADD', key, seqs) end
  for key, names in pairs(definitions) do all('SADD', key, names) end
  tell('queued')
end
return answers or broken
`;

/** Of one workflow, the most lines of callers that one claim looks at; of more, some at random. */
const mostLines = 256;

/**
 * Takes from the queues that a worker serves by turn and age: see `fair-share.ts`. Within a queue of another
 * definition, the oldest waits longest, so the first that is too young ends it.
 */
const claim = `
local worker, token, graceMs, limit, share = arg(), arg(), tonumber(arg()), tonumber(arg()), tonumber(arg())
local lease = call('ZSCORE', P .. 'workers', worker)
if not lease or tonumber(lease) <= now or call('ZCARD', P .. 'waiting') == 0 then return {} end
local workflows, served, turns, free = {}, {}, {}, {}
for i = 1, tonumber(arg()) do
  workflows[i] = {name = arg(), pool = arg()}
  free[workflows[i].pool] = tonumber(arg())
end
for i = 1, tonumber(arg()) do served[arg()] = true end
for i = 1, tonumber(arg()) do
  local holder = arg() .. ' ' .. arg()
  turns[holder] = tonumber(arg())
end

local queues, pageSize = {}, math.min(limit, 32)
local function advance(queue)
  queue.i = queue.i + 1
  if queue.i > #queue.page then
    if #queue.page < pageSize then return false end
    queue.page = call('ZRANGEBYSCORE', queue.key, '(' .. queue.page[#queue.page], '+inf', 'LIMIT', 0, pageSize)
    queue.i = 1
    if #queue.page == 0 then return false end
  end
  queue.seq = queue.page[queue.i]
  queue.order = tonumber(queue.seq)
  return queue.isServed or tonumber(call('ZSCORE', P .. 'since', queue.seq) or 0) <= now - graceMs
end
local found = {}
for _, workflow in ipairs(workflows) do
  local lines = P .. 'definitions:' .. workflow.name
  local all = call('SCARD', lines) > ${mostLines} and call('SRANDMEMBER', lines, ${mostLines}) or call('SMEMBERS', lines)
  for _, line in ipairs(all) do
    local definition, caller = string.match(line, '^([^\\n]*)\\n?(.*)$')
    found[#found + 1] = {key = P .. 'queue:' .. workflow.name .. '\\n' .. line, workflow = workflow.name, line = line,
      i = 0, isServed = served[definition], pool = workflow.pool, holder = workflow.pool .. ' ' .. caller}
  end
end
if #found > 8 then pageSize = math.min(pageSize, 4) end
for _, queue in ipairs(found) do
  queue.page = call('ZRANGE', queue.key, 0, pageSize - 1)
  if #queue.page > 0 and advance(queue) then queues[#queues + 1] = queue end
end

local taken, seqs, members, gone = {}, {}, {}, {}
local function turnOf(queue) return (turns[queue.holder] or 0) + 1 end
while #taken < limit and #queues > 0 do
  local first, least = 1, turnOf(queues[1])
  for i = 2, #queues do
    local turn = turnOf(queues[i])
    if turn < least or (turn == least and queues[i].order < queues[first].order) then
      first, least = i, turn
    end
  end
  local queue = queues[first]
  local left = free[queue.pool] - 1
  if left < 0 or (least > 1 and least * (100 - share) > share * left) then
    -- Its turns only rise from here, and the room of its pool only shrinks.
    table.remove(queues, first)
  else
    local seq = queue.seq
    if not advance(queue) then table.remove(queues, first) end
    local id = idOf(seq)
    -- A record that was removed or damaged from outside stays where it is, and the others are served.
    local kept = id and redis.pcall('HMGET', P .. 'run:' .. id, ${runFields.map((name) => `'${name}'`).join(', ')})
    if kept and kept${field('state')} == 'queued' then
      kept${field('state')} = 'running'
      kept${field('attempt')} = whole(kept${field('attempt')} + 1)
      kept${field('started_at')} = whole(now)
      call('HSET', P .. 'run:' .. id, 'state', 'running', 'attempt', kept${field('attempt')},
        'started_at', kept${field('started_at')}, 'token', token, 'worker', worker)
      turns[queue.holder] = least
      free[queue.pool] = left
      push(gone, queue, seq)
      seqs[#seqs + 1] = seq
      members[#members + 1] = seq
      members[#members + 1] = seq
      taken[#taken + 1] = kept
    elseif kept and kept${field('state')} then
      -- A process of the layout before took it from its own queue, or ended it.
      push(gone, queue, seq)
    end
  end
end
for queue, claimed in pairs(gone) do
  call('ZREM', queue.key, unpack(claimed))
  if call('EXISTS', queue.key) == 0 then call('SREM', P .. 'definitions:' .. queue.workflow, queue.line) end
end
all('ZREM', 'waiting', seqs)
all('ZREM', 'since', seqs)
all('ZADD', 'running', members)
all('SADD', 'held:' .. worker, seqs)
return taken
`;

const report = `
local changed, seen = {}, {}
local answers, broken = each(tonumber(arg()), function()
  local seq, token, given, count = arg(), arg(), arg(), tonumber(arg())
  local base = at
  at = at + 2 * count
  local id = idOf(seq)
  if not id or call('HGET', P .. 'run:' .. id, 'token') ~= token then return 0 end
  local events = P .. 'events:' .. seq
  local said = whole(tonumber(given) or now)
  for i = base, base + 2 * count - 1, 2 do
    local n = ARGV[i]
    if call('ZCOUNT', events, n, n) == 0 then
      call('ZADD', events, n, n .. ' ' .. said .. ' ' .. ARGV[i + 1])
    end
  end
  if not seen[seq] then
    seen[seq] = true
    changed[#changed + 1] = seq
  end
  return 1
end)
if #changed > 0 then tell('runs ' .. table.concat(changed, ',')) end
return answers or broken
`;

const finish = `
local changed, ended, held = {}, {}, {}
local answers, broken = each(tonumber(arg()), function()
  local seq, token, state, result, failure, given = arg(), arg(), arg(), arg(), arg(), arg()
  local id = idOf(seq)
  if not id then return 0 end
  local run = P .. 'run:' .. id
  local claim = call('HMGET', run, 'token', 'worker')
  if claim[1] ~= token then return 0 end
  local finished = whole(tonumber(given) or now)
  if state == 'succeeded' then call('HSET', run, 'state', state, 'finished_at', finished, 'result', result)
  else call('HSET', run, 'state', state, 'finished_at', finished, 'error', failure) end
  call('HDEL', run, 'token', 'worker', 'dispatched')
  push(held, 'held:' .. claim[2], seq)
  changed[#changed + 1] = seq
  ended[#ended + 1] = finished
  ended[#ended + 1] = seq
  return 1
end)
all('ZREM', 'running', changed)
all('ZADD', 'ended', ended)
for key, seqs in pairs(held) do all('SREM', key, seqs) end
if #changed > 0 then tell('runs ' .. table.concat(changed, ',')) end
return answers or broken
`;

const cancel = `
local id, whenQueued, whenRunning, whenDispatched = arg(), arg(), arg(), arg()
local run = P .. 'run:' .. id
local kept = call('HMGET', run, 'seq', 'state', 'about', 'worker', 'dispatched')
if not kept[1] then return {0} end
if isEnded(kept[2]) then return {0, record(id)} end
local isQueued = kept[2] == 'queued'
local failure = kept[5] and whenDispatched or isQueued and whenQueued or whenRunning
call('HSET', run, 'state', 'cancelled', 'finished_at', whole(now), 'error', failure)
call('HDEL', run, 'token', 'worker', 'dispatched')
if isQueued then
  local about = cjson.decode(kept[3])
  dequeue(kept[1], about${about('workflow')}, about)
else
  letGo(kept[1], kept[4])
end
call('ZADD', P .. 'ended', whole(now), kept[1])
tell('cancelled ' .. kept[1])
return {1, record(id)}
`;

const dispatch = `
local answers, broken = each(tonumber(arg()), function()
  local seq, token = arg(), arg()
  local id = idOf(seq)
  if not id then return 'stale' end
  local run = P .. 'run:' .. id
  local held = call('HMGET', run, 'token', 'dispatched')
  if held[1] ~= token then return 'stale' end
  if held[2] then return 'lost' end
  call('HSET', run, 'dispatched', '1')
  return 'won'
end)
return answers or broken
`;

const revoke = `
local seq, token, fresh = arg(), arg(), arg()
local id = idOf(seq)
if not id then return 'stale' end
local run = P .. 'run:' .. id
local held = call('HMGET', run, 'token', 'dispatched')
if held[1] ~= token then return 'stale' end
if held[2] then return 'dispatched' end
call('HSET', run, 'token', fresh)
return 'revoked'
`;

const release = `
local count = 0
for i = 1, tonumber(arg()) do
  local seq, token = arg(), arg()
  if requeue(seq, function(held) return held == token end) then count = count + 1 end
end
if count > 0 then tell('queued') end
return count
`;

const news = `
local told = {}
for i = 1, tonumber(arg()) do
  local seq, after = arg(), arg()
  local said = call('ZRANGEBYSCORE', P .. 'events:' .. seq, '(' .. after, '+inf')
  local id = idOf(seq)
  local state = id and isRecord(P .. 'run:' .. id) and call('HGET', P .. 'run:' .. id, 'state')
  if state and isEnded(state) then told[#told + 1] = {seq, said, record(id)}
  elseif #said > 0 then told[#told + 1] = {seq, said} end
end
return told
`;

/**
 * One page of the walk, newest first. Gives what fits and where to go on, nothing at the end. A
 * filter is a JSON text, or nothing.
 */
const list = `
local source, before, size, limit, state = arg(), arg(), tonumber(arg()), tonumber(arg()), arg()
local tool, principal = arg(), arg()
tool = tool ~= '' and cjson.decode(tool)[1]
principal = principal ~= '' and cjson.decode(principal)[1]
local page = call('ZREVRANGEBYSCORE', P .. source, '(' .. before, '-inf', 'LIMIT', 0, size)
local found, last = {}, false
for _, member in ipairs(page) do
  local id = source == 'runs' and member or idOf(member)
  local kept = id and isRecord(P .. 'run:' .. id) and call('HMGET', P .. 'run:' .. id, 'seq', 'state', 'about')
  if kept and kept[1] then
    last = kept[1]
    local about = (tool or principal) and cjson.decode(kept[3])
    if (state == '' or kept[2] == state) and (not tool or about${about('tool')} == tool)
      and (not principal or about${about('principal')} == principal) then
      found[#found + 1] = record(id)
      if #found == limit then return {found, last} end
    end
  end
end
return {found, #page == size and last}
`;

/** Runs of the same tool, caller and arguments as one whose `about` is given. */
const like = `
local seq, reach, limit, alike = arg(), tonumber(arg()), tonumber(arg()), cjson.decode(arg())
local ids = call('ZRANGEBYSCORE', P .. 'runs', '(' .. seq, '+inf', 'LIMIT', 0, reach)
for i = 1, math.floor(#ids / 2) do ids[i], ids[#ids + 1 - i] = ids[#ids + 1 - i], ids[i] end
for _, id in ipairs(call('ZREVRANGEBYSCORE', P .. 'runs', '(' .. seq, '-inf', 'LIMIT', 0, reach)) do
  ids[#ids + 1] = id
end
local found = {}
for _, id in ipairs(ids) do
  local kept = isRecord(P .. 'run:' .. id) and call('HGET', P .. 'run:' .. id, 'about')
  local about = kept and cjson.decode(kept)
  if about and about${about('tool')} == alike${about('tool')} and about${about('digest')} == alike${about('digest')}
    and about${about('realm')} == alike${about('realm')}
    and about${about('principal')} == alike${about('principal')} then
    found[#found + 1] = record(id)
    if #found == limit then break end
  end
end
return found
`;

const queue = `
return {call('ZCARD', P .. 'waiting'), call('ZRANGE', P .. 'since', 0, 0, 'WITHSCORES')[2] or false}
`;

const remove = `
local before, limit, rememberUntil = arg(), tonumber(arg()), arg()
call('ZREMRANGEBYSCORE', P .. 'tombstones', '-inf', whole(now))
local due = call('ZRANGEBYSCORE', P .. 'ended', '-inf', '(' .. before, 'LIMIT', 0, limit)
for _, seq in ipairs(due) do
  local id = idOf(seq)
  if id then
    local run = P .. 'run:' .. id
    if rememberUntil ~= '' and string.sub(id, 1, 3) == 'r1_' then
      call('ZADD', P .. 'tombstones', rememberUntil, id)
    end
    local key = isRecord(run) and call('HGET', run, 'repeat')
    if key and call('HGET', P .. 'repeats', key) == id then call('HDEL', P .. 'repeats', key) end
    call('UNLINK', run, P .. 'events:' .. seq)
    call('ZREM', P .. 'runs', id)
  end
  call('ZREM', P .. 'ended', seq)
end
return #due
`;

const join = `
local id, serves, leaseMs = arg(), arg(), tonumber(arg())
call('HSET', P .. 'serves', id, serves)
call('ZADD', P .. 'workers', whole(now + leaseMs), id)
`;

const renew = `
local id, leaseMs = arg(), tonumber(arg())
if not call('ZSCORE', P .. 'workers', id) then return 0 end
call('ZADD', P .. 'workers', whole(now + leaseMs), id)
return 1
`;

const releaseUnknown = `
local worker, known = arg(), {}
for i = 1, tonumber(arg()) do known[arg()] = true end
local count = requeueHeld(worker, function(token) return not known[token] end)
if count > 0 then tell('queued') end
return count
`;

const leaveWorker = `
local count = leave(arg())
if count > 0 then tell('queued') end
return count
`;

const recover = `
local count = 0
for _, worker in ipairs(call('ZRANGEBYSCORE', P .. 'workers', '-inf', whole(now))) do
  count = count + leave(worker)
end
if count > 0 then tell('queued') end
return count
`;

const live = `
local ids = call('ZRANGEBYSCORE', P .. 'workers', '(' .. whole(now), '+inf')
local found = {}
for i, id in ipairs(ids) do found[i] = call('HGET', P .. 'serves', id) end
return found
`;

const openSession = `
local id, owner, kept, max, idleMs, ownMax = arg(), arg(), arg(), tonumber(arg()), tonumber(arg()), arg()
local sessions = P .. 'sessions'
for _, idle in ipairs(call('ZRANGEBYSCORE', sessions, '-inf', whole(now - idleMs))) do
  local of = call('HGET', P .. 'session:' .. idle, 'owner')
  if of then call('SREM', P .. 'own:' .. of, idle) end
  call('UNLINK', P .. 'session:' .. idle)
  call('ZREM', sessions, idle)
end
if call('ZCARD', sessions) >= max then return 'full' end
if ownMax ~= '' and call('SCARD', P .. 'own:' .. owner) >= tonumber(ownMax) then return 'principal-full' end
call('HSET', P .. 'session:' .. id, 'owner', owner, 'kept', kept)
call('SADD', P .. 'own:' .. owner, id)
call('ZADD', sessions, whole(now), id)
return 'opened'
`;

const getSession = `
local id, idleMs = arg(), tonumber(arg())
local used = call('ZSCORE', P .. 'sessions', id)
return used and tonumber(used) > now - idleMs and call('HGET', P .. 'session:' .. id, 'kept')
`;

const touchSessions = `
for i = 1, tonumber(arg()) do call('ZADD', P .. 'sessions', 'XX', whole(now), arg()) end
`;

const closeSession = `
local id = arg()
if call('ZREM', P .. 'sessions', id) == 0 then return 0 end
call('SREM', P .. 'own:' .. call('HGET', P .. 'session:' .. id, 'owner'), id)
call('UNLINK', P .. 'session:' .. id)
tell('session ' .. id)
return 1
`;

const countSessions = `
return call('ZCOUNT', P .. 'sessions', '(' .. whole(now - tonumber(arg())), '+inf')
`;

const register = `
local group, digests, definitions = arg(), arg(), arg()
local had = call('HGET', P .. 'digests', group)
if had == digests or (not had and digests == '') then return 0 end
local revision = call('INCR', P .. 'catalogue')
call('HSET', P .. 'digests', group, digests)
call('HSET', P .. 'tools', group, revision .. ' ' .. definitions)
tell('tools')
return 1
`;

const listTools = `
local revision = call('GET', P .. 'catalogue') or '0'
if revision == arg() then return false end
return {revision, call('HGETALL', P .. 'tools'), call('HGETALL', P .. 'servers')}
`;

/** Who owns a server at this instant, as JSON. */
const ownerOf = `
local function ownerOf(kept)
  local ends, owner = string.match(kept or '', '^(%d+) (.+)$')
  return ends and tonumber(ends) > now and owner
end
`;

const publish = `${ownerOf}
local lease, owner, key, catalogue = arg(), arg(), arg(), arg()
local current = ownerOf(call('HGET', P .. 'owners', lease))
if not current or cjson.decode(current).id ~= owner then return 'stale' end
if call('HGET', P .. 'servers', key) == catalogue then return 'same' end
call('INCR', P .. 'catalogue')
call('HSET', P .. 'servers', key, catalogue)
tell('tools')
return 'changed'
`;

const own = `${ownerOf}
local id, owner, leaseMs = arg(), arg(), tonumber(arg())
local owned = {}
for i = 1, tonumber(arg()) do
  local server = arg()
  local current = ownerOf(call('HGET', P .. 'owners', server))
  if not current or cjson.decode(current).id == id then
    call('HSET', P .. 'owners', server, whole(now + leaseMs) .. ' ' .. owner)
    owned[#owned + 1] = server
  end
end
return owned
`;

const disown = `${ownerOf}
local id = arg()
for i = 1, tonumber(arg()) do
  local server = arg()
  local current = ownerOf(call('HGET', P .. 'owners', server))
  if current and cjson.decode(current).id == id then call('HDEL', P .. 'owners', server) end
end
`;

const owners = `${ownerOf}
local kept, found = call('HGETALL', P .. 'owners'), {}
for i = 1, #kept, 2 do
  local owner = ownerOf(kept[i + 1])
  if owner then found[#found + 1] = {kept[i], owner} end
end
return found
`;

const secret = `
local name, made = arg(), arg()
call('HSETNX', P .. 'secrets', name, made)
return call('HGET', P .. 'secrets', name)
`;

/** Makes ours the version of the layout where it is the newer one, and gives what it is then: version and least. */
const version = `
local ours, least, found = arg(), arg(), call('GET', P .. 'version')
if not found or tonumber(found) < tonumber(ours) then
  call('MSET', P .. 'version', ours, P .. 'least', least)
end
return call('MGET', P .. 'version', P .. 'least')
`;

const bodies = {
  submit,
  claim,
  report,
  finish,
  cancel,
  dispatch,
  revoke,
  release,
  news,
  list,
  like,
  queue,
  remove,
  join,
  renew,
  releaseUnknown,
  leave: leaveWorker,
  recover,
  live,
  openSession,
  getSession,
  touchSessions,
  closeSession,
  countSessions,
  register,
  listTools,
  publish,
  own,
  disown,
  owners,
  secret,
  version,
};

export type ScriptName = keyof typeof bodies;

export const scripts = Object.fromEntries(
  Object.entries(bodies).map(([name, body]) => [name, prelude + body]),
) as Record<ScriptName, string>;
