-- The truth about every notification, in four streams of rows that are mostly appended to.
--
-- What never changes (notifications) is kept apart from what does (states) and from what is only added (events):
-- a settlement then rewrites some 40 bytes instead of a row of a kilobyte, and a hundred settlements in the order
-- of acceptance dirty three or four pages instead of thirty.
-- Instants are epoch milliseconds. Status codes: see codes.ts.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value
) WITHOUT ROWID;

CREATE TABLE notifications (
  seq               INTEGER PRIMARY KEY,      -- the order of acceptance
  id                TEXT NOT NULL UNIQUE,
  tenant            TEXT NOT NULL,
  recipient         TEXT NOT NULL,
  channel           TEXT NOT NULL,
  requested_channel TEXT,
  category          TEXT NOT NULL,
  created_at        INTEGER NOT NULL,
  request           TEXT NOT NULL,            -- JSON of what never changes
  decision          TEXT NOT NULL,            -- JSON
  opening           TEXT NOT NULL             -- the events of acceptance: JSON without the brackets
);
CREATE INDEX by_tenant ON notifications (tenant, created_at);
CREATE INDEX by_recipient ON notifications (tenant, recipient, created_at);

CREATE TABLE states (
  seq        INTEGER PRIMARY KEY,
  status     INTEGER NOT NULL,
  revision   INTEGER NOT NULL,                -- how many events its timeline has
  due_at     INTEGER NOT NULL,
  attempts   INTEGER NOT NULL,
  fired_at   INTEGER,
  suspect_at INTEGER,
  digest_id  TEXT,
  single     INTEGER NOT NULL,
  undecided  INTEGER NOT NULL,
  platform   INTEGER NOT NULL,                -- its decision names a tenant or module limit
  cause      TEXT                             -- of a dead letter
);
CREATE INDEX due ON states (due_at) WHERE status IN (1, 3, 5);
CREATE INDEX dead ON states (status) WHERE status = 5;
CREATE INDEX collecting ON states (digest_id) WHERE status = 2;
CREATE INDEX promised ON states (due_at) WHERE platform = 1;

CREATE TABLE events (
  place INTEGER PRIMARY KEY,                  -- seq << 20 | revision before them
  body  TEXT NOT NULL                         -- JSON without the brackets
);

CREATE TABLE digests (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL,
  recipient  TEXT NOT NULL,
  channel    TEXT NOT NULL,
  category   TEXT NOT NULL,
  name       TEXT NOT NULL,
  opened_at  INTEGER NOT NULL,
  closes_at  INTEGER NOT NULL,
  UNIQUE (tenant, recipient, channel, category, name)
);
CREATE INDEX closing ON digests (closes_at);

CREATE TABLE recipients (
  tenant TEXT NOT NULL,
  id     TEXT NOT NULL,
  body   TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE answers (
  seq        INTEGER PRIMARY KEY,
  hash       INTEGER NOT NULL,                -- of tenant, module, method, path and key: 53 bits
  created_at INTEGER NOT NULL,
  body       TEXT NOT NULL                    -- JSON of the whole
);
CREATE INDEX by_hash ON answers (hash);

CREATE TABLE tallies (
  tenant   TEXT NOT NULL,
  status   INTEGER NOT NULL,
  platform INTEGER NOT NULL,
  count    INTEGER NOT NULL,
  PRIMARY KEY (tenant, status, platform)
) WITHOUT ROWID;
