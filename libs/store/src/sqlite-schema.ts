/**
 * Numbered, forward-only. They run in one transaction, so two processes that start at once migrate once. One that
 * only adds, and whose additions have defaults, lets processes of the version before go on and start beside it;
 * any other says `-- breaking` on its first line: see `SchemaVersion`. A file's `user_version` is how many of
 * these it has had, and 1,000 times the least that a process has to know.
 */
export const sqliteMigrations: readonly string[] = [
  `
  -- The record of a run. 'open' is queued or running: which of the two is told by the queue.
  CREATE TABLE runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    workflow TEXT NOT NULL,
    tool TEXT NOT NULL,
    tool_class TEXT NOT NULL CHECK (tool_class IN ('read', 'write')),
    realm TEXT,
    principal TEXT,
    arguments TEXT NOT NULL,
    digest TEXT NOT NULL,
    definition TEXT NOT NULL,
    submitted_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    started_at INTEGER,
    finished_at INTEGER,
    state TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'succeeded', 'failed', 'cancelled')),
    result TEXT,
    error TEXT,
    CHECK ((realm IS NULL) = (principal IS NULL)),
    CHECK ((state = 'open') = (finished_at IS NULL)),
    CHECK ((state = 'succeeded') = (result IS NOT NULL)),
    CHECK ((state IN ('failed', 'cancelled')) = (error IS NOT NULL))
  );

  -- For retention: a walk through all that is kept would hold the file, and the event loop, for long.
  CREATE INDEX ended ON runs (finished_at) WHERE state <> 'open';

  -- One narrow row for each open run; the claim token is the fence.
  CREATE TABLE queue (
    seq INTEGER PRIMARY KEY REFERENCES runs (seq),
    workflow TEXT NOT NULL,
    definition TEXT NOT NULL,
    queued_at INTEGER NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    token TEXT,
    claimed_at INTEGER,
    CHECK ((worker IS NULL) = (token IS NULL))
  );

  CREATE TABLE events (
    seq INTEGER NOT NULL,
    n INTEGER NOT NULL,
    at INTEGER NOT NULL,
    value REAL NOT NULL,
    total REAL,
    message TEXT,
    PRIMARY KEY (seq, n)
  ) WITHOUT ROWID;

  CREATE TABLE repeats (key TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX repeats_seq ON repeats (seq);
  CREATE TABLE tombstones (id TEXT PRIMARY KEY, until INTEGER NOT NULL) WITHOUT ROWID;

  CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    "group" TEXT NOT NULL,
    workflows TEXT NOT NULL,
    lease_until INTEGER NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    realm TEXT,
    principal TEXT,
    version TEXT NOT NULL,
    client TEXT NOT NULL,
    last_used INTEGER NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE tools ("group" TEXT NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, definition TEXT NOT NULL, PRIMARY KEY ("group", name)) WITHOUT ROWID;
  CREATE TABLE catalogue (revision INTEGER NOT NULL);
  INSERT INTO catalogue VALUES (0);

  -- What processes tell each other about sessions; only the last few are kept.
  CREATE TABLE told (n INTEGER PRIMARY KEY AUTOINCREMENT, origin TEXT NOT NULL, session TEXT NOT NULL, message TEXT NOT NULL);

  CREATE TABLE secrets (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  `,
  `
  -- Which tool of which upstream, as JSON; NULL for a tool of our own.
  ALTER TABLE runs ADD COLUMN upstream TEXT;

  -- Where the call stands in a trace, as JSON; NULL for one that is in none.
  ALTER TABLE runs ADD COLUMN trace TEXT;

  -- The dispatch mark. It is the run's, not the claim's: no requeue takes it away.
  ALTER TABLE queue ADD COLUMN is_dispatched INTEGER NOT NULL DEFAULT 0 CHECK (is_dispatched IN (0, 1));

  CREATE TABLE servers (key TEXT PRIMARY KEY, catalogue TEXT NOT NULL) WITHOUT ROWID;

  -- Which connector owns which server; not of servers, because a server is owned before it is first published.
  CREATE TABLE owners (
    server TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    address TEXT NOT NULL,
    lease_until INTEGER NOT NULL
  ) WITHOUT ROWID;
  `,
  `
  -- Whose run it is, for claims that are shared among callers; '' for nobody, and for runs of before.
  ALTER TABLE queue ADD COLUMN caller TEXT NOT NULL DEFAULT '';
  CREATE INDEX queue_callers ON queue (caller, seq);
  `,
];
