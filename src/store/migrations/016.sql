-- Names of deleted users. Without it a name that has no row in users is either a deleted user's or
-- that of an account which uses the Unix socket, an admin: runs of the former must not start.
CREATE TABLE deleted_users (
  name TEXT PRIMARY KEY
) WITHOUT ROWID;
INSERT INTO deleted_users (name)
SELECT DISTINCT user_name FROM tokens
WHERE kind <> 'attempt' AND user_name NOT IN (SELECT name FROM users);

-- For retention by age: what is deleted, or a child, is not in it.
DROP INDEX runs_ended;
CREATE INDEX runs_ended ON runs (workspace_id, ended)
  WHERE final = 1 AND parent IS NULL AND deleted IS NULL;
