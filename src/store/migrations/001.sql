-- The first tables. Times are microseconds since 1970, UTC. Names of columns follow the model.

CREATE TABLE roles (
  name TEXT PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO roles VALUES ('reader'), ('submitter'), ('admin');

CREATE TABLE users (
  id      INTEGER PRIMARY KEY,
  name    TEXT NOT NULL UNIQUE,
  role    TEXT NOT NULL REFERENCES roles (name),
  created INTEGER NOT NULL
);

CREATE TABLE workspaces (
  id              INTEGER PRIMARY KEY,
  name            TEXT NOT NULL UNIQUE,
  subscription_id TEXT NOT NULL,
  resource_group  TEXT NOT NULL,
  created_by      TEXT NOT NULL,
  created         INTEGER NOT NULL
);

CREATE TABLE experiments (
  id           INTEGER PRIMARY KEY,
  workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  created      INTEGER NOT NULL,
  UNIQUE (workspace_id, name)
);

-- What changes often is narrow: a change of status rewrites a row of some 200 bytes. The spec,
-- which never changes, lies apart.
CREATE TABLE runs (
  number         INTEGER PRIMARY KEY,  -- The order of submission.
  id             TEXT NOT NULL UNIQUE,
  version        INTEGER NOT NULL,
  workspace_id   INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  experiment_id  INTEGER NOT NULL REFERENCES experiments (id) ON DELETE CASCADE,
  user_name      TEXT NOT NULL,  -- A name, not a reference: a run outlives its user.
  target         TEXT NOT NULL,
  cpus           INTEGER NOT NULL,
  memory_bytes   INTEGER NOT NULL,
  status         TEXT NOT NULL,  -- The contract's word.
  final          INTEGER NOT NULL,
  attempt        INTEGER NOT NULL,
  lost_early     INTEGER NOT NULL,
  cancel_asked   INTEGER NOT NULL,
  exit_code      INTEGER,
  error          TEXT NOT NULL,
  event_seq      INTEGER NOT NULL,  -- The last event's, so that the next follows without a gap.
  event_at       INTEGER NOT NULL,
  created        INTEGER NOT NULL,
  started        INTEGER,
  ended          INTEGER,
  outputs        TEXT NOT NULL,
  snapshot_files INTEGER NOT NULL,
  snapshot_bytes INTEGER NOT NULL,
  spec_hash      TEXT NOT NULL
);
CREATE INDEX runs_of_workspace ON runs (workspace_id, number);
CREATE INDEX runs_of_experiment ON runs (experiment_id, number);
-- The queue and what is live: small, whatever the history holds, and the only index that a change
-- of status touches.
CREATE INDEX runs_open ON runs (status, number) WHERE final = 0;
-- Written once in a run's life, when it is over.
CREATE INDEX runs_final ON runs (status, number) WHERE final = 1;
CREATE INDEX runs_final_of_workspace ON runs (workspace_id, status, number) WHERE final = 1;
CREATE INDEX runs_final_of_experiment ON runs (experiment_id, status, number) WHERE final = 1;
CREATE INDEX runs_ended ON runs (ended) WHERE final = 1;

CREATE TABLE run_specs (
  run  INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
  spec TEXT NOT NULL
);

CREATE TABLE attempts (
  run               INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  number            INTEGER NOT NULL,
  node              TEXT NOT NULL,
  placed            INTEGER NOT NULL,
  started           INTEGER,
  ended             INTEGER,
  phase             TEXT NOT NULL,     -- The last kind reported; '' before the first.
  report_seq        INTEGER NOT NULL,  -- The last report taken.
  cpu_seconds       REAL NOT NULL,
  memory_bytes      INTEGER NOT NULL,
  memory_peak_bytes INTEGER NOT NULL,
  outcome           TEXT NOT NULL,     -- What it came to, JSON; '' before.
  released          INTEGER NOT NULL,  -- 1: nothing of it is left on its node.
  PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE INDEX attempts_unreleased ON attempts (run, number) WHERE released = 0;

CREATE TABLE events (
  run     INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  seq     INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  text    TEXT NOT NULL,
  PRIMARY KEY (run, seq)
) WITHOUT ROWID;

CREATE TABLE run_files (
  run    INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  path   TEXT NOT NULL,
  PRIMARY KEY (run, number),
  UNIQUE (run, path)
) WITHOUT ROWID;

-- Trees that were seen whole.
CREATE TABLE snapshots (
  tree     TEXT PRIMARY KEY,
  files    INTEGER NOT NULL,
  bytes    INTEGER NOT NULL,
  verified INTEGER NOT NULL
) WITHOUT ROWID;

-- Never a secret, only its SHA-256. An attempt's token belongs to a run and ends with the attempt.
CREATE TABLE tokens (
  id        INTEGER PRIMARY KEY,
  hash      TEXT NOT NULL UNIQUE,
  kind      TEXT NOT NULL CHECK (kind IN ('user', 'node', 'attempt')),
  user_name TEXT NOT NULL,
  label     TEXT NOT NULL,
  created   INTEGER NOT NULL,
  expires   INTEGER,
  revoked   INTEGER,
  run       INTEGER REFERENCES runs (number) ON DELETE CASCADE,
  attempt   INTEGER
);
CREATE INDEX tokens_of_user ON tokens (user_name) WHERE kind <> 'attempt';
CREATE INDEX tokens_of_run ON tokens (run, attempt) WHERE run IS NOT NULL;
