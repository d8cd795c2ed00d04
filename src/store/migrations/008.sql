-- Environments that a compute builds, by a run of its own.

ALTER TABLE workspaces ADD COLUMN image_build_compute TEXT NOT NULL DEFAULT '';  -- '': the server.

CREATE TABLE environment_builds (
  hash TEXT PRIMARY KEY,
  run  TEXT NOT NULL  -- The newest that builds it, or has; it may be gone.
) WITHOUT ROWID;
