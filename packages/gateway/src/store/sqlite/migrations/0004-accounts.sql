-- Provider accounts that are not healthy: what a restart must not forget. Written when it changes, a few rows in all.
CREATE TABLE accounts (
  channel  TEXT NOT NULL,
  provider TEXT NOT NULL,
  account  TEXT NOT NULL,
  body     TEXT NOT NULL,                     -- JSON of the whole
  sum      INTEGER NOT NULL,
  PRIMARY KEY (channel, provider, account)
) WITHOUT ROWID;

-- Where a notification may have been sent more than once without our knowing: all these instants, JSON. The newest is
-- in suspect_at, too, and alone there where it is the only one.
ALTER TABLE states ADD COLUMN suspects TEXT;
