-- Samples are numbered apart from reports, and one supervisor claims an attempt on a node.

ALTER TABLE attempts ADD COLUMN sample_seq INTEGER NOT NULL DEFAULT 0;  -- The last one taken.
ALTER TABLE attempts ADD COLUMN instance TEXT NOT NULL DEFAULT '';  -- The supervisor; '': none yet.
ALTER TABLE attempt_nodes ADD COLUMN sample_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempt_nodes ADD COLUMN instance TEXT NOT NULL DEFAULT '';
