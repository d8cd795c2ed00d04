-- Deletion that can be taken back until garbage collection removes the rows; retention by age.

-- As runs.deleted is since 011. kDeletedForGood (1): it cannot be restored.
ALTER TABLE experiments ADD COLUMN deleted INTEGER;
ALTER TABLE environments ADD COLUMN deleted INTEGER;
-- Partial: what is not deleted costs nothing.
CREATE INDEX runs_deleted ON runs (deleted) WHERE deleted IS NOT NULL;
CREATE INDEX runs_deleted_of_experiment ON runs (experiment_id, deleted)
  WHERE deleted IS NOT NULL;

-- experiments.run_count leaves out deleted runs.
CREATE TRIGGER experiment_hides_run AFTER UPDATE OF deleted ON runs
WHEN (OLD.deleted IS NULL) <> (NEW.deleted IS NULL) BEGIN
  UPDATE experiments SET run_count = run_count + CASE WHEN NEW.deleted IS NULL THEN 1 ELSE -1 END
  WHERE id = NEW.experiment_id;
END;

ALTER TABLE workspaces ADD COLUMN retention_s INTEGER NOT NULL DEFAULT 0;  -- 0: for ever.

-- Trees of code that runs of a workspace have named: who may submit there may name them again
-- without sending their files. Others must show that they have the bytes.
CREATE TABLE workspace_trees (
  tree         TEXT NOT NULL,
  workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  PRIMARY KEY (tree, workspace_id)
) WITHOUT ROWID;
CREATE INDEX workspace_trees_of ON workspace_trees (workspace_id);
INSERT INTO workspace_trees (tree, workspace_id)
SELECT DISTINCT json_extract(s.spec, '$.snapshot'), r.workspace_id
FROM runs r JOIN run_specs s ON s.run = r.number
WHERE json_extract(s.spec, '$.snapshot') <> '';
