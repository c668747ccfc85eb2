-- How far each partition of a topic has been taken: all before `next`, and the offsets in `ahead`.
CREATE TABLE intake_position (
  topic_id     TEXT NOT NULL,
  partition    INTEGER NOT NULL,
  next         INTEGER NOT NULL,
  ahead        TEXT NOT NULL,                 -- JSON, a list of offsets
  PRIMARY KEY (topic_id, partition)
) WITHOUT ROWID;

-- Records that could not be accepted. `sum` is a CRC-32 over the body.
CREATE TABLE poison (
  seq          INTEGER PRIMARY KEY,           -- the order of keeping
  topic_id     TEXT NOT NULL,
  partition    INTEGER NOT NULL,
  at_offset    INTEGER NOT NULL,
  tenant       TEXT,
  at           INTEGER NOT NULL,              -- when it was kept
  body         TEXT NOT NULL,                 -- JSON of the rest; the bytes in base64
  sum          INTEGER NOT NULL
);
CREATE UNIQUE INDEX poison_once ON poison (topic_id, partition, at_offset);
CREATE INDEX poison_of_tenant ON poison (tenant, seq);
