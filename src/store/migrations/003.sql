-- Clusters as targets, each with a queue of its own, and what their machines are and cost.

-- Whose turn it is, is decided within one: 'local', or 'WORKSPACE/COMPUTE'. All before were local.
ALTER TABLE runs ADD COLUMN queue TEXT NOT NULL DEFAULT 'local';
DROP INDEX runs_open;
CREATE INDEX runs_open ON runs (status, queue, priority DESC, number) WHERE final = 0;

CREATE TABLE computes (
  id           INTEGER PRIMARY KEY,
  workspace_id INTEGER NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
  name         TEXT NOT NULL,
  spec         TEXT NOT NULL,     -- JSON
  paused       INTEGER NOT NULL,  -- 1: nothing new is placed there.
  created_by   TEXT NOT NULL,
  created      INTEGER NOT NULL,
  UNIQUE (workspace_id, name)
);

-- A name is one whatever its case: STANDARD_D3_V2 and Standard_D3_v2 are both in use.
CREATE TABLE vm_sizes (
  name      TEXT NOT NULL COLLATE NOCASE PRIMARY KEY,
  cpus      INTEGER NOT NULL,
  memory_gb REAL NOT NULL,
  gpus      INTEGER NOT NULL,
  price     REAL NOT NULL,  -- Of an hour, dedicated and low priority; in what currency is the
  price_low REAL NOT NULL   -- admin's choice, here it is USD.
) WITHOUT ROWID;

-- A start, for an admin to change: sizes that scripts for Azure name, with the list prices of one
-- of its regions (US East, Linux, 2023); low priority was sold at a fifth of them.
INSERT INTO vm_sizes (name, cpus, memory_gb, gpus, price, price_low)
SELECT column1, column2, column3, column4, column5, round(column5 / 5, 4) FROM (VALUES
  ('Standard_D1_v2',             1,  3.5, 0,  0.073),
  ('Standard_D2_v2',             2,    7, 0,  0.146),
  ('Standard_D3_v2',             4,   14, 0,  0.293),
  ('Standard_D4_v2',             8,   28, 0,  0.585),
  ('Standard_D5_v2',            16,   56, 0,  1.17),
  ('Standard_D11_v2',            2,   14, 0,  0.185),
  ('Standard_D12_v2',            4,   28, 0,  0.371),
  ('Standard_D13_v2',            8,   56, 0,  0.741),
  ('Standard_D14_v2',           16,  112, 0,  1.482),
  ('Standard_DS1_v2',            1,  3.5, 0,  0.073),
  ('Standard_DS2_v2',            2,    7, 0,  0.146),
  ('Standard_DS3_v2',            4,   14, 0,  0.293),
  ('Standard_DS4_v2',            8,   28, 0,  0.585),
  ('Standard_DS5_v2',           16,   56, 0,  1.17),
  ('Standard_DS11_v2',           2,   14, 0,  0.185),
  ('Standard_DS12_v2',           4,   28, 0,  0.371),
  ('Standard_DS13_v2',           8,   56, 0,  0.741),
  ('Standard_DS14_v2',          16,  112, 0,  1.482),
  ('Standard_D2s_v3',            2,    8, 0,  0.096),
  ('Standard_D4s_v3',            4,   16, 0,  0.192),
  ('Standard_D8s_v3',            8,   32, 0,  0.384),
  ('Standard_D16s_v3',          16,   64, 0,  0.768),
  ('Standard_NC6',               6,   56, 1,  0.9),
  ('Standard_NC12',             12,  112, 2,  1.8),
  ('Standard_NC24',             24,  224, 4,  3.6),
  ('Standard_NC24r',            24,  224, 4,  3.96),
  ('Standard_NC6s_v2',           6,  112, 1,  2.07),
  ('Standard_NC12s_v2',         12,  224, 2,  4.14),
  ('Standard_NC24s_v2',         24,  448, 4,  8.28),
  ('Standard_NC6s_v3',           6,  112, 1,  3.06),
  ('Standard_NC12s_v3',         12,  224, 2,  6.12),
  ('Standard_NC24s_v3',         24,  448, 4, 12.24),
  ('Standard_NC24rs_v3',        24,  448, 4, 13.46),
  ('Standard_NC4as_T4_v3',       4,   28, 1,  0.526),
  ('Standard_NC8as_T4_v3',       8,   56, 1,  0.752),
  ('Standard_NC16as_T4_v3',     16,  110, 1,  1.204),
  ('Standard_NC64as_T4_v3',     64,  440, 4,  4.352),
  ('Standard_NC24ads_A100_v4',  24,  220, 1,  3.673),
  ('Standard_NC48ads_A100_v4',  48,  440, 2,  7.346),
  ('Standard_NC96ads_A100_v4',  96,  880, 4, 14.692),
  ('Standard_ND40rs_v2',        40,  672, 8, 22.032),
  ('Standard_ND96asr_v4',       96,  900, 8, 27.197)
);
