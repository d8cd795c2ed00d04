-- Deletion that can be taken back until garbage collection removes the rows; retention by age.

-- When it was deleted, NULL: it is not. kDeletedForGood (1): it cannot be restored.
ALTER TABLE runs ADD COLUMN deleted INTEGER;
ALTER TABLE experiments ADD COLUMN deleted INTEGER;
ALTER TABLE environments ADD COLUMN deleted INTEGER;
-- Partial: what is not deleted costs nothing.
CREATE INDEX runs_deleted ON runs (deleted) WHERE deleted IS NOT NULL;
CREATE INDEX runs_deleted_of_experiment ON runs (experiment_id, deleted)
  WHERE deleted IS NOT NULL;

ALTER TABLE workspaces ADD COLUMN retention_s INTEGER NOT NULL DEFAULT 0;  -- 0: for ever.
