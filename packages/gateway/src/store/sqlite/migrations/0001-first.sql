-- The truth about every notification, in two rows: what hardly ever changes (notifications) is kept apart from what
-- every move changes (states). A settlement then rewrites some 200 bytes instead of a row of a kilobyte, and a
-- hundred of them in the order of acceptance dirty a handful of pages.
-- Instants are epoch milliseconds. Status codes: see status-codes.ts. `sum` is a CRC-32 over the row's other columns, so that
-- a byte that changed on the disk is seen when the row is read.

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
  sum               INTEGER NOT NULL
);
CREATE INDEX by_tenant ON notifications (tenant, created_at);

-- Indexes by hash, written late: see write-behind-index.ts. They may name rows that are gone or another's.
CREATE TABLE recipient_rows (
  hash INTEGER NOT NULL,                      -- of tenant and recipient
  seq  INTEGER NOT NULL,
  PRIMARY KEY (hash, seq)
) WITHOUT ROWID;
CREATE TABLE answer_rows (
  hash INTEGER NOT NULL,                      -- of tenant, module, method, path and key
  seq  INTEGER NOT NULL,
  PRIMARY KEY (hash, seq)
) WITHOUT ROWID;

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
  cause      TEXT,                            -- of a dead letter
  timeline   TEXT NOT NULL,                   -- events: JSON
  sum        INTEGER NOT NULL
);
CREATE INDEX dead ON states (status) WHERE status = 5;
CREATE INDEX collecting ON states (digest_id) WHERE status = 2;
CREATE INDEX promised ON states (due_at) WHERE platform = 1;

-- What is scheduled, queued or dead, by its instant; written late: see due-index.ts.
CREATE TABLE due (
  due_at INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  PRIMARY KEY (due_at, seq)
) WITHOUT ROWID;

CREATE TABLE digests (
  id         TEXT PRIMARY KEY,
  tenant     TEXT NOT NULL,
  recipient  TEXT NOT NULL,
  channel    TEXT NOT NULL,
  category   TEXT NOT NULL,
  name       TEXT NOT NULL,
  opened_at  INTEGER NOT NULL,
  closes_at  INTEGER NOT NULL,
  sum        INTEGER NOT NULL,
  UNIQUE (tenant, recipient, channel, category, name)
);
CREATE INDEX closing ON digests (closes_at);

CREATE TABLE recipients (
  tenant TEXT NOT NULL,
  id     TEXT NOT NULL,
  body   TEXT NOT NULL,                       -- JSON
  sum    INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;

CREATE TABLE answers (
  seq        INTEGER PRIMARY KEY,
  created_at INTEGER NOT NULL,
  body       TEXT NOT NULL,                   -- JSON of the whole
  sum        INTEGER NOT NULL
);

CREATE TABLE tallies (
  tenant   TEXT NOT NULL,
  status   INTEGER NOT NULL,
  platform INTEGER NOT NULL,
  count    INTEGER NOT NULL,
  PRIMARY KEY (tenant, status, platform)
) WITHOUT ROWID;
