-- Reports about notifications that are not on record yet: ten minutes at most. `body` is JSON, `sum` a CRC-32 over it.
CREATE TABLE feedback_waiting (
  id       TEXT PRIMARY KEY,
  reporter TEXT NOT NULL,
  until    INTEGER NOT NULL,
  body     TEXT NOT NULL,
  sum      INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX feedback_waiting_of ON feedback_waiting (reporter);
