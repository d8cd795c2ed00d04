-- Runs for elsewhere wait until their environment is made, and hold nobody back meanwhile.

ALTER TABLE runs ADD COLUMN held TEXT NOT NULL DEFAULT '';  -- Its hash; '': nothing is waited for.
-- The queue in its order, without these.
DROP INDEX runs_open;
CREATE INDEX runs_open ON runs (status, queue, held, priority DESC, number) WHERE final = 0;
CREATE INDEX runs_held ON runs (held, number) WHERE held <> '';
