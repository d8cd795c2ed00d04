-- Who may use a workspace; and which token made which.

-- 'everyone': the roles of the server hold. 'members': only its members, and admins, get in.
ALTER TABLE workspaces ADD COLUMN access TEXT NOT NULL DEFAULT 'everyone';

CREATE TABLE workspace_members (
  workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  user_name    TEXT NOT NULL,
  role         TEXT NOT NULL REFERENCES roles (name),
  added_by     TEXT NOT NULL,
  added        INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, user_name)
) WITHOUT ROWID;
CREATE INDEX workspaces_of_member ON workspace_members (user_name);

ALTER TABLE tokens ADD COLUMN parent INTEGER;  -- The token that made it; NULL: the Unix socket.
ALTER TABLE tokens ADD COLUMN role TEXT;       -- At most this role; NULL: the user's.
CREATE INDEX tokens_of_parent ON tokens (parent) WHERE parent IS NOT NULL;
CREATE INDEX tokens_by_expiry ON tokens (expires) WHERE expires IS NOT NULL;
