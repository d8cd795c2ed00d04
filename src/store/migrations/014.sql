-- Things about a run that its owner should know and that did not stop it. One row a kind: `text` is
-- that of the first, later ones are counted.
CREATE TABLE run_warnings (
  run   INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  kind  TEXT NOT NULL,
  count INTEGER NOT NULL,
  text  TEXT NOT NULL,
  PRIMARY KEY (run, kind)
) WITHOUT ROWID;
