-- Machines that pull their work: joined ones, targets of a workspace; and people's own, each the
-- `local` of one person.

CREATE TABLE machines (
  id           INTEGER PRIMARY KEY,
  key          TEXT NOT NULL UNIQUE,  -- In URLs and in queues.
  uid          TEXT NOT NULL,         -- Made on the machine.
  workspace_id INTEGER REFERENCES workspaces (id) ON DELETE CASCADE,  -- NULL: a person's own.
  name         TEXT NOT NULL,
  owner        TEXT NOT NULL,
  credential   TEXT UNIQUE,           -- Its SHA-256; NULL: its owner's tokens are.
  facts        TEXT NOT NULL,         -- JSON, what it has.
  joined       INTEGER NOT NULL,
  heard        INTEGER
);
CREATE UNIQUE INDEX machines_of_workspace ON machines (workspace_id, name)
  WHERE workspace_id IS NOT NULL;
CREATE UNIQUE INDEX machines_of_owner ON machines (owner, uid) WHERE workspace_id IS NULL;

-- What a token of kind 'node' is good for, once.
CREATE TABLE node_tokens (
  token        INTEGER PRIMARY KEY REFERENCES tokens (id) ON DELETE CASCADE,
  workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         TEXT NOT NULL,  -- The machine's to be; '': its own choice.
  used_by      TEXT NOT NULL   -- A machine's uid; '': not used.
);
