-- Runs on several nodes: what each node's supervisor told.

ALTER TABLE runs ADD COLUMN nodes INTEGER NOT NULL DEFAULT 1;

-- Only of attempts on several nodes; all that is to know of one node is on the attempt's own row.
CREATE TABLE attempt_nodes (
  run               INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  attempt           INTEGER NOT NULL,
  node              INTEGER NOT NULL,
  name              TEXT NOT NULL,
  address           TEXT NOT NULL,
  port              INTEGER NOT NULL,
  phase             TEXT NOT NULL,     -- The last one reached.
  report_seq        INTEGER NOT NULL,
  failed            TEXT NOT NULL,     -- The first of its ranks to fail, JSON; '': none.
  failed_at         INTEGER NOT NULL,
  cpu_seconds       REAL NOT NULL,
  memory_bytes      INTEGER NOT NULL,
  memory_peak_bytes INTEGER NOT NULL,
  outcome           TEXT NOT NULL,     -- What the attempt came to there, JSON; '' before.
  PRIMARY KEY (run, attempt, node)
) WITHOUT ROWID;
