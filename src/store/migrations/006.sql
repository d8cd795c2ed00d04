-- Environments by name: those that people registered, of a workspace; and curated ones, of all.

CREATE TABLE environments (
  id           INTEGER PRIMARY KEY,
  workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  version      TEXT NOT NULL,
  environment  TEXT NOT NULL,  -- JSON, without name and version.
  fingerprint  TEXT NOT NULL,  -- The same for those that do the same.
  description  TEXT NOT NULL,
  archived     INTEGER NOT NULL,
  created_by   TEXT NOT NULL,
  created      INTEGER NOT NULL,
  UNIQUE (workspace_id, name, version)
);
CREATE INDEX environments_same ON environments (workspace_id, name, fingerprint);

-- A '*' in a name stands for anything; the longest that fits is taken. Versions are left to the
-- day of the build: the lock of a run has them.
CREATE TABLE curated_environments (
  name        TEXT NOT NULL COLLATE NOCASE PRIMARY KEY,
  environment TEXT NOT NULL,
  note        TEXT NOT NULL,  -- Said to who uses the name.
  changed_by  TEXT NOT NULL   -- '': it came with Trainyard.
) WITHOUT ROWID;
INSERT INTO curated_environments VALUES
  ('tensorflow',
   '{"recipe": {"kind": "venv", "requirements":
    ["tensorflow", "numpy", "pandas", "scikit-learn", "matplotlib"]}}', '', ''),
  ('sklearn',
   '{"recipe": {"kind": "venv", "requirements":
    ["scikit-learn", "numpy", "pandas", "scipy", "joblib", "matplotlib"]}}', '', ''),
  ('pytorch',
   '{"recipe": {"kind": "venv", "requirements":
    ["torch", "torchvision", "numpy", "pandas", "matplotlib"]}}', '', ''),
  ('minimal',
   '{"recipe": {"kind": "venv"}}', '', ''),
  ('xgboost',
   '{"recipe": {"kind": "venv", "requirements":
    ["xgboost", "scikit-learn", "numpy", "pandas"]}}', '', ''),
  ('lightgbm',
   '{"recipe": {"kind": "venv", "requirements":
    ["lightgbm", "scikit-learn", "numpy", "pandas"]}}', '', ''),
  ('AzureML-Minimal*',
   '{"recipe": {"kind": "venv"}}', '', ''),
  ('AzureML-Tutorial*',
   '{"recipe": {"kind": "venv", "requirements":
    ["scikit-learn", "numpy", "pandas", "scipy", "joblib", "matplotlib"]}}', 'old', ''),
  ('AzureML-TensorFlow-*',
   '{"recipe": {"kind": "venv", "requirements":
    ["tensorflow", "numpy", "pandas", "scikit-learn", "matplotlib"]}}', 'old', ''),
  ('AzureML-TensorFlow-*-CPU*',
   '{"recipe": {"kind": "venv", "requirements":
    ["tensorflow-cpu", "numpy", "pandas", "scikit-learn", "matplotlib"]}}', 'old', ''),
  ('AzureML-Scikit-learn-*',
   '{"recipe": {"kind": "venv", "requirements":
    ["scikit-learn", "numpy", "pandas", "scipy", "joblib", "matplotlib"]}}', 'old', ''),
  ('AzureML-sklearn-*',
   '{"recipe": {"kind": "venv", "requirements":
    ["scikit-learn", "numpy", "pandas", "scipy", "joblib", "matplotlib"]}}', 'old', ''),
  ('AzureML-PyTorch-*',
   '{"recipe": {"kind": "venv", "requirements":
    ["torch", "torchvision", "numpy", "pandas", "matplotlib"]}}', 'old', ''),
  ('AzureML-ACPT-*',
   '{"recipe": {"kind": "venv", "requirements":
    ["torch", "torchvision", "numpy", "pandas", "matplotlib"]}}', 'old', ''),
  ('AzureML-lightgbm-*',
   '{"recipe": {"kind": "venv", "requirements":
    ["lightgbm", "scikit-learn", "numpy", "pandas"]}}', 'old', ''),
  ('AzureML-XGBoost-*',
   '{"recipe": {"kind": "venv", "requirements":
    ["xgboost", "scikit-learn", "numpy", "pandas"]}}', 'old', ''),
  ('sklearn-1.*',
   '{"recipe": {"kind": "venv", "requirements":
    ["scikit-learn", "numpy", "pandas", "scipy", "joblib", "matplotlib"]}}', 'old', ''),
  ('tensorflow-2.*',
   '{"recipe": {"kind": "venv", "requirements":
    ["tensorflow", "numpy", "pandas", "scikit-learn", "matplotlib"]}}', 'old', ''),
  ('acpt-pytorch-*',
   '{"recipe": {"kind": "venv", "requirements":
    ["torch", "torchvision", "numpy", "pandas", "matplotlib"]}}', 'old', ''),
  ('python-sdk-v2',
   '{"recipe": {"kind": "venv", "requirements":
    ["scikit-learn", "numpy", "pandas", "scipy", "joblib", "matplotlib"]}}', 'old', ''),
  ('lightgbm-3.*',
   '{"recipe": {"kind": "venv", "requirements":
    ["lightgbm", "scikit-learn", "numpy", "pandas"]}}', 'old', '');
UPDATE curated_environments SET note = 'the packages that name once had cannot be installed '
  || 'on the Python of today: their living versions stand for them' WHERE note = 'old';
