-- Names of deleted users. Without it a name that has no row in users is either a deleted user's or
-- that of an account which uses the Unix socket, an admin: runs of the former must not start.
CREATE TABLE deleted_users (
  name TEXT PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO deleted_users (name)
SELECT DISTINCT user_name FROM tokens
WHERE kind = 'user' AND user_name NOT IN (SELECT name FROM users);

-- Members that were removed from a workspace: they have lost the right to their runs there, whereas
-- closing a workspace ends no run of those who never were members.
CREATE TABLE former_members (
  workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  user_name    TEXT NOT NULL,
  PRIMARY KEY (workspace_id, user_name)
) WITHOUT ROWID;

-- While an experiment is being deleted, batch after batch: the time that its runs get, and the last
-- of them. A run that comes meanwhile brings the experiment back and is not deleted.
ALTER TABLE experiments ADD COLUMN deleting_when INTEGER;
ALTER TABLE experiments ADD COLUMN deleting_through INTEGER;

-- For retention by age: what is deleted, or a child, is not in it.
DROP INDEX runs_ended;
CREATE INDEX runs_ended ON runs (workspace_id, ended)
  WHERE final = 1 AND parent IS NULL AND deleted IS NULL;
