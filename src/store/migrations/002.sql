-- Priorities, GPUs, retries, interactive and child runs; labels, metrics and parameters; secrets.

ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 1;  -- 0 low, 1 normal, 2 high.
ALTER TABLE runs ADD COLUMN gpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN retries INTEGER NOT NULL DEFAULT 0;   -- Made so far.
ALTER TABLE runs ADD COLUMN retry TEXT NOT NULL DEFAULT '';       -- The policy, JSON; '': none.
ALTER TABLE runs ADD COLUMN interactive INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN parent INTEGER REFERENCES runs (number) ON DELETE CASCADE;
ALTER TABLE runs ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_of_parent ON runs (parent, number) WHERE parent IS NOT NULL;
-- The queue in its order.
DROP INDEX runs_open;
CREATE INDEX runs_open ON runs (status, priority DESC, number) WHERE final = 0;

ALTER TABLE attempts ADD COLUMN gpus TEXT NOT NULL DEFAULT '';  -- Indexes on the node, by commas.

-- What people may change of a run later; a run without a row is as its spec says.
CREATE TABLE run_labels (
  run          INTEGER PRIMARY KEY REFERENCES runs (number) ON DELETE CASCADE,
  display_name TEXT NOT NULL,
  description  TEXT NOT NULL,
  tags         TEXT NOT NULL,  -- JSON
  properties   TEXT NOT NULL   -- JSON
);

-- Parameters that the script told; those of the spec stay there.
CREATE TABLE parameters (
  run   INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  name  TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (run, name)
) WITHOUT ROWID;

-- A run's metrics, with what lists and tables show of each.
CREATE TABLE metrics (
  id         INTEGER PRIMARY KEY,
  run        INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  name       TEXT NOT NULL,
  kind       TEXT NOT NULL,     -- scalar, list, row, table, image, text
  points     INTEGER NOT NULL,  -- How many; the next one's number.
  last_value REAL,
  last_text  TEXT,
  last_step  INTEGER,
  last_at    INTEGER NOT NULL,
  UNIQUE (run, name)
);
-- A point is a number or, for what is none (rows, images, "NaN"), a JSON text.
CREATE TABLE points (
  metric INTEGER NOT NULL REFERENCES metrics (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  at     INTEGER NOT NULL,
  step   INTEGER,
  value  REAL,
  text   TEXT,
  PRIMARY KEY (metric, number)
) WITHOUT ROWID;

-- How far each stream of records was taken, in bytes: what comes again counts once.
CREATE TABLE record_streams (
  run     INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  attempt INTEGER NOT NULL,
  rank    INTEGER NOT NULL,
  taken   INTEGER NOT NULL,
  PRIMARY KEY (run, attempt, rank)
) WITHOUT ROWID;

CREATE TABLE secrets (
  workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  sealed       BLOB NOT NULL,
  created_by   TEXT NOT NULL,
  created      INTEGER NOT NULL,
  changed      INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, name)
) WITHOUT ROWID;
