-- An index for every filter of a list of runs, and tags in a table of their own.
--
-- One million runs take about half a minute to migrate.

-- How a run ended; '' until then. `status` changes at every step of a run's life, this column once,
-- and so do the indexes below: they hold the whole history.
ALTER TABLE runs ADD COLUMN outcome TEXT NOT NULL DEFAULT '';
UPDATE runs SET outcome = status WHERE final = 1;
-- When it was deleted, NULL: it is not. Its rows stay until they are purged.
ALTER TABLE runs ADD COLUMN deleted INTEGER;
-- Which lists show a run: 0 top-level, 1 child; 2 and 3 the same, archived; 4 deleted.
ALTER TABLE runs ADD COLUMN shelf INTEGER GENERATED ALWAYS AS
  (CASE WHEN deleted IS NULL THEN archived * 2 + (parent IS NOT NULL) ELSE 4 END) VIRTUAL;

DROP INDEX runs_of_workspace;
DROP INDEX runs_of_experiment;
DROP INDEX runs_of_parent;
DROP INDEX runs_final;
DROP INDEX runs_final_of_workspace;
DROP INDEX runs_final_of_experiment;
-- With all columns before `number` given, each range is in the order of a list.
CREATE INDEX runs_of_shelf ON runs (shelf, number);
CREATE INDEX runs_of_outcome ON runs (outcome, shelf, number);
CREATE INDEX runs_of_workspace ON runs (workspace_id, outcome, shelf, number);
CREATE INDEX runs_of_experiment ON runs (experiment_id, outcome, shelf, number);
CREATE INDEX runs_of_target ON runs (workspace_id, target, outcome, shelf, number);
CREATE INDEX runs_of_user ON runs (workspace_id, user_name, outcome, shelf, number);
CREATE INDEX runs_of_parent ON runs (parent, outcome, shelf, number) WHERE parent IS NOT NULL;
CREATE INDEX experiments_named ON experiments (name);

-- The tags of each run as they are now, whether they came from its spec or from a later change.
CREATE TABLE run_tags (
  run           INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  name          TEXT NOT NULL,
  value         TEXT NOT NULL,
  workspace_id  INTEGER NOT NULL,  -- The run's, copied for the indexes.
  experiment_id INTEGER NOT NULL,
  PRIMARY KEY (run, name)
) WITHOUT ROWID;
INSERT INTO run_tags (run, name, value, workspace_id, experiment_id)
SELECT r.number, t.key, t.value, r.workspace_id, r.experiment_id
FROM runs r JOIN run_specs s ON s.run = r.number LEFT JOIN run_labels l ON l.run = r.number,
  json_each(COALESCE(l.tags, json_extract(s.spec, '$.tags'))) t
WHERE l.run IS NOT NULL OR instr(s.spec, '"tags":{"') > 0;
CREATE INDEX run_tags_of_workspace ON run_tags (workspace_id, name, value, run);
CREATE INDEX run_tags_of_experiment ON run_tags (experiment_id, name, value, run);
-- For a filter by a tag's name alone.
CREATE INDEX run_tags_named_in_workspace ON run_tags (workspace_id, name, run);
CREATE INDEX run_tags_named_in_experiment ON run_tags (experiment_id, name, run);

-- How many runs an experiment has: counting a million takes longer than a list may.
ALTER TABLE experiments ADD COLUMN run_count INTEGER NOT NULL DEFAULT 0;
UPDATE experiments SET run_count = (SELECT COUNT(*) FROM runs WHERE experiment_id = experiments.id);
CREATE TRIGGER experiment_gains_run AFTER INSERT ON runs BEGIN
  UPDATE experiments SET run_count = run_count + 1 WHERE id = NEW.experiment_id;
END;
CREATE TRIGGER experiment_loses_run AFTER DELETE ON runs WHEN OLD.deleted IS NULL BEGIN
  UPDATE experiments SET run_count = run_count - 1 WHERE id = OLD.experiment_id;
END;

-- When it was deleted, NULL: it is not. Its name is free again at once; its runs are purged in the
-- background, and then the row.
ALTER TABLE workspaces ADD COLUMN deleted INTEGER;

-- Files handed in for interactive runs that are not in the tree of the run's outputs yet.
CREATE TABLE pending_outputs (
  run    INTEGER NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
  path   TEXT NOT NULL,
  digest TEXT NOT NULL,
  size   INTEGER NOT NULL,
  PRIMARY KEY (run, path)
) WITHOUT ROWID;
