-- How long a supervisor goes on without the server, as this attempt was told. 0: for ever.

ALTER TABLE attempts ADD COLUMN outage_s INTEGER NOT NULL DEFAULT 0;
