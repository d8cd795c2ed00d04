-- What people of a role may ask of the machines that build and run their environments
-- (model/policy.h). A role without a row has the default.

CREATE TABLE role_policies (
  role   TEXT PRIMARY KEY,
  policy TEXT NOT NULL  -- JSON
) WITHOUT ROWID;
