-- Content that is kept apart from its notifications: of a batch once for all of it, of a single notification where it
-- is large. Who refers to it is counted beside it, in rows that are short: a change of a row rewrites all of it.
CREATE TABLE contents (
  id     TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  body   TEXT NOT NULL,                       -- JSON
  sum    INTEGER NOT NULL
);
CREATE TABLE content_uses (
  id      TEXT PRIMARY KEY,
  tenant  TEXT NOT NULL,
  bytes   INTEGER NOT NULL,                   -- of content and data as JSON
  refs    INTEGER NOT NULL,                   -- notifications and running jobs that refer to it; with the last it goes
  waiting INTEGER NOT NULL                    -- those of them that have not ended
) WITHOUT ROWID;
CREATE INDEX waiting_contents ON content_uses (tenant) WHERE waiting > 0;

ALTER TABLE notifications ADD COLUMN shared TEXT;
-- Of what has not ended: the content that it carries itself. Rows of before count nothing, when they come and when
-- they go.
ALTER TABLE tallies ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN shared TEXT;
ALTER TABLE jobs ADD COLUMN bytes INTEGER;
