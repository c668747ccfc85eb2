-- Events that providers and callers report of notifications that were sent. They change no state. `key` identifies an
-- event within its notification; `sum` is a CRC-32 over the body.
CREATE TABLE feedback (
  seq          INTEGER PRIMARY KEY,           -- the order of recording
  tenant       TEXT NOT NULL,
  notification TEXT NOT NULL,
  key          TEXT NOT NULL,
  category     TEXT NOT NULL,
  type         TEXT NOT NULL,
  at           INTEGER NOT NULL,              -- when it happened
  kept_at      INTEGER NOT NULL,              -- when it was recorded
  body         TEXT NOT NULL,                 -- JSON of the rest
  sum          INTEGER NOT NULL
);
CREATE UNIQUE INDEX feedback_once ON feedback (tenant, notification, key);
CREATE INDEX feedback_by_category ON feedback (tenant, category, type, at);
CREATE INDEX feedback_complaints ON feedback (at) WHERE type = 'complaint';

-- Ids and addresses at providers, as keyed hashes, and the notification that was sent under them last. Keys are random,
-- so each day has a part of its own: what is written lies together, and a day is removed as a whole.
CREATE TABLE sent (
  day          INTEGER NOT NULL,              -- days since 1970
  key          TEXT NOT NULL,
  tenant       TEXT NOT NULL,
  notification TEXT NOT NULL,
  sent_at      INTEGER NOT NULL,
  PRIMARY KEY (day, key)
) WITHOUT ROWID;
