-- Events that providers and callers report of notifications that were sent. They change no state. `key` identifies an
-- event within its notification; `body` holds the fields without a column.
CREATE TABLE feedback (
  seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant       text COLLATE "C" NOT NULL,
  notification text COLLATE "C" NOT NULL,
  key          text COLLATE "C" NOT NULL,
  category     text COLLATE "C" NOT NULL,
  type         text NOT NULL,
  at           bigint NOT NULL,               -- when it happened
  kept_at      bigint NOT NULL,               -- when it was recorded
  body         jsonb NOT NULL
);
CREATE UNIQUE INDEX feedback_once ON feedback (tenant, notification, key);
CREATE INDEX feedback_by_category ON feedback (tenant, category, type, at, seq);
CREATE INDEX feedback_complaints ON feedback (at, seq) WHERE type = 'complaint';
CREATE INDEX feedback_kept ON feedback (kept_at);

-- Ids and addresses at providers, as keyed hashes, and the notification that was sent under them last.
CREATE TABLE sent (
  key          text COLLATE "C" PRIMARY KEY,
  tenant       text COLLATE "C" NOT NULL,
  notification text COLLATE "C" NOT NULL,
  sent_at      bigint NOT NULL
);
CREATE INDEX sent_at ON sent (sent_at);
