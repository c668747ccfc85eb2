-- What a gateway keeps besides notifications.

CREATE TABLE recipient (
  tenant  text COLLATE "C",
  id      text COLLATE "C",
  version bigint NOT NULL,                    -- every write has another one, never used before
  body    json NOT NULL,
  PRIMARY KEY (tenant, id)
);
-- Recipients who are being erased: a row from the beginning of an erasure to its end. What was accepted behind `until`
-- is of a recipient who came back.
CREATE TABLE erasure (
  tenant text COLLATE "C", recipient text COLLATE "C", until bigint NOT NULL, PRIMARY KEY (tenant, recipient)
);
CREATE TABLE answer (
  tenant text COLLATE "C", module text COLLATE "C", method text COLLATE "C", path text COLLATE "C", key text COLLATE "C",
  hash text NOT NULL, status int NOT NULL, body text NOT NULL, created_at bigint NOT NULL,
  PRIMARY KEY (tenant, module, method, path, key)
);
CREATE INDEX answer_created ON answer (created_at);
-- The open ones. A digest that closes has no row any more.
CREATE TABLE digest (
  id text COLLATE "C" PRIMARY KEY, tenant text COLLATE "C" NOT NULL, recipient text COLLATE "C" NOT NULL,
  channel text NOT NULL, category text NOT NULL, name text NOT NULL,
  opened_at bigint NOT NULL, closes_at bigint NOT NULL, held_as json, owner bigint,
  UNIQUE (tenant, recipient, channel, category, name)
);
CREATE INDEX digest_due ON digest (closes_at);
CREATE TABLE job (
  id text COLLATE "C" PRIMARY KEY, tenant text COLLATE "C" NOT NULL, created_at bigint NOT NULL,
  status text NOT NULL, taken int NOT NULL, shared text COLLATE "C", body json NOT NULL, owner bigint
);
CREATE INDEX job_running ON job (created_at, id) WHERE status = 'running';
CREATE INDEX job_created ON job (created_at) WHERE status <> 'running';
CREATE TABLE job_work (id text COLLATE "C" PRIMARY KEY, body json NOT NULL);
-- Content that several notifications share. It is on record as long as a notification or a running job names it.
CREATE TABLE content (
  id text COLLATE "C" PRIMARY KEY, tenant text COLLATE "C" NOT NULL, bytes bigint NOT NULL, body json NOT NULL,
  has_text boolean NOT NULL DEFAULT false     -- it needs no template
);
CREATE TABLE account (channel text, provider text, account text, body json NOT NULL, PRIMARY KEY (channel, provider, account));
CREATE TABLE hold (name text PRIMARY KEY, body json NOT NULL);
CREATE TABLE secret (name text, version int, value bytea NOT NULL, PRIMARY KEY (name, version));

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

-- Reports about notifications that are not on record yet: ten minutes at most. `body` is JSON.
CREATE TABLE feedback_waiting (
  id       text COLLATE "C" PRIMARY KEY,
  reporter text COLLATE "C" NOT NULL,
  until    bigint NOT NULL,
  body     text NOT NULL
);
CREATE INDEX feedback_waiting_of ON feedback_waiting (reporter);

-- How far each partition of a topic has been taken: all before `next`, and the offsets in `ahead`.
CREATE TABLE intake_position (
  topic_id     text COLLATE "C" NOT NULL,
  partition    integer NOT NULL,
  next         bigint NOT NULL,
  ahead        bigint[] NOT NULL,
  PRIMARY KEY (topic_id, partition)
);

-- Records that could not be accepted.
CREATE TABLE poison (
  seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  topic_id     text COLLATE "C" NOT NULL,
  partition    integer NOT NULL,
  at_offset    bigint NOT NULL,
  topic        text NOT NULL,
  tenant       text COLLATE "C",
  at           bigint NOT NULL,               -- when it was kept
  detail       text NOT NULL,
  bytes        bytea NOT NULL,                -- the beginning of the record
  size         integer NOT NULL               -- bytes of the whole record
);
CREATE UNIQUE INDEX poison_once ON poison (topic_id, partition, at_offset);
CREATE INDEX poison_of_tenant ON poison (tenant, seq);
CREATE INDEX poison_kept ON poison (at);

-- Changes of state that the delivery log has not got yet: a row a group, written only where a log is configured. The
-- numbers are not in the order of the commits, so rows are removed by number and not up to one.
CREATE TABLE outbox (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  entries bigint NOT NULL,
  body    text NOT NULL                       -- JSON: a list of records
);

-- Deliveries and complaints by tenant and category since the beginning, which the complaint guard of several processes
-- reads. Only the growth of a total means anything: a total is the sum over its slots. A process writes in one slot, so
-- that processes hardly ever wait for each other, and rows are bounded; feedback writes in slot 64.
CREATE TABLE delivery_total (
  category   text COLLATE "C",
  tenant     text COLLATE "C",
  slot       smallint,
  delivered  bigint NOT NULL,
  complained bigint NOT NULL,
  PRIMARY KEY (category, tenant, slot)
) WITH (fillfactor = 50);
