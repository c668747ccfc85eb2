-- The truth about every notification, in a form for several processes. What never changes (notification) is kept apart
-- from what moves change (live), which is narrow and exists only until the notification has ended (outcome).
-- Instants are epoch milliseconds. Statuses are the codes of status-codes.ts; live has those up to 5, outcome those above.
-- `kind` is 2 × status, + 1 for a notification in a throttle queue and for a dead letter that no pool serves.

CREATE TABLE meta (name text PRIMARY KEY, value json NOT NULL);
CREATE SEQUENCE acceptance;
CREATE SEQUENCE recipient_version;

-- Never updated, except by an erasure. `body` holds the fields without a column, `first` the state of the acceptance.
CREATE TABLE notification (
  id         text COLLATE "C" PRIMARY KEY,
  seq        bigint NOT NULL,                 -- the order of acceptance
  tenant     text COLLATE "C" NOT NULL,
  recipient  text COLLATE "C" NOT NULL,
  category   text NOT NULL,
  job        text COLLATE "C",
  shared     text COLLATE "C",                -- the content that is kept apart
  created_at bigint NOT NULL,
  body       json NOT NULL,
  first      json NOT NULL
);
CREATE INDEX notification_tenant ON notification (tenant, created_at, id);
CREATE INDEX notification_recipient ON notification (tenant, recipient, created_at, id);
CREATE INDEX notification_job ON notification (job) WHERE job IS NOT NULL;
CREATE INDEX notification_shared ON notification (shared) WHERE shared IS NOT NULL;

-- `owner`: the member that holds it in memory; null: free to be claimed; -1: a digest collects it; 0: it is left to a broker.
-- `begun_at`: the instant since which the owner has the right to send it, and may have called the provider. It stands in no
-- index, so that giving a right is a HOT update where the page has room for it, and else an entry in each index. A group
-- gives rights to all rows of a page at once, so the fillfactor leaves room for a second version of each.
-- `waits` is the part of the backlog's cell that has no column (backlog-cell.ts): every look at those that wait asks for it
-- and for `policy`, and of a million rows no JSON is read.
-- `writer`: the member whose change wrote this version. Two members may make the same change within a millisecond: where
-- the answer to one is lost, this tells whose it is that stands there.
CREATE TABLE live (
  id         text COLLATE "C" PRIMARY KEY,
  seq        bigint NOT NULL,
  tenant     text COLLATE "C" NOT NULL,
  recipient  text COLLATE "C" NOT NULL,
  channel    text NOT NULL,
  priority   text NOT NULL,
  shared     text COLLATE "C",
  bytes      bigint NOT NULL,                 -- of the content that it carries itself
  status     smallint NOT NULL,
  kind       smallint NOT NULL,
  rev        int NOT NULL,                    -- the number of its events
  due_at     bigint NOT NULL,
  attempts   int NOT NULL,
  fired_at   bigint,
  turned_at  bigint,
  suspects   bigint[],
  digest     text COLLATE "C",                -- while a digest collects it
  cause      text,                            -- of a dead letter
  owner      bigint,
  claim      bigint,                          -- the number of its owner's claim
  begun_at   bigint,
  state      json,                            -- null: as it was accepted
  waits      text,
  policy     text COLLATE "C",                -- the version of the policy under which it was decided
  writer     bigint
) WITH (fillfactor = 45, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX live_free ON live (due_at, seq) WHERE owner IS NULL;
CREATE INDEX live_free_tenant ON live (tenant, due_at, seq) WHERE owner IS NULL;
CREATE INDEX live_owned ON live (due_at) WHERE owner > 0;
CREATE INDEX live_recipient ON live (tenant, recipient);
CREATE INDEX live_collected ON live (digest, seq) WHERE digest IS NOT NULL;
CREATE INDEX live_shared ON live (shared) WHERE shared IS NOT NULL;
CREATE INDEX live_throttled ON live (id) WHERE kind = 3;
CREATE INDEX live_dead ON live (id) WHERE kind >= 10;
CREATE INDEX live_turned ON live (tenant, turned_at) WHERE turned_at IS NOT NULL;
CREATE INDEX live_left ON live (tenant, due_at) WHERE owner = 0;

-- Appended once: how a notification ended.
CREATE TABLE outcome (
  id         text COLLATE "C" PRIMARY KEY,
  tenant     text COLLATE "C" NOT NULL,
  channel    text NOT NULL,
  status     smallint NOT NULL,
  at         bigint NOT NULL,
  due_at     bigint NOT NULL,
  attempts   int NOT NULL,
  fired_at   bigint,
  turned_at  bigint,
  suspects   bigint[],
  state      json,
  writer     bigint
);
CREATE INDEX outcome_at ON outcome (at);
CREATE INDEX outcome_turned ON outcome (tenant, turned_at) WHERE turned_at IS NOT NULL;

-- A notification as it is now. The decision of the acceptance is that of an end which names none.
CREATE VIEW whole AS
  SELECT n.id, n.seq, n.tenant, n.recipient, n.category, n.job, n.created_at, n.body,
    coalesce(l.channel, o.channel) AS channel,
    coalesce(l.status, o.status) AS status,
    l.owner::text AS owner, l.begun_at,
    coalesce(l.due_at, o.due_at) AS due_at,
    coalesce(l.attempts, o.attempts) AS attempts,
    coalesce(l.fired_at, o.fired_at) AS fired_at,
    coalesce(l.turned_at, o.turned_at) AS turned_at,
    to_json(coalesce(l.suspects, o.suspects)) AS suspects,
    (coalesce(l.suspects, o.suspects))[cardinality(coalesce(l.suspects, o.suspects))] AS suspect_at,
    CASE WHEN o.state IS NULL THEN coalesce(l.state, n.first)
      WHEN o.state->'decision' IS NULL
        THEN ('{"decision":' || (n.first->'decision')::text || ',' || substr(o.state::text, 2))::json
      ELSE o.state END AS state
  FROM notification n LEFT JOIN live l ON l.id = n.id LEFT JOIN outcome o ON o.id = n.id;

-- Each member writes only its own rows: sums over the members are exact, and no row is contended. The rows of a member that
-- has gone are added to those of the member 0. Kind 100 counts what jobs have yet to accept.
CREATE TABLE tally (
  tenant text COLLATE "C",
  member bigint,
  kind   smallint,
  count  bigint NOT NULL,
  bytes  bigint NOT NULL,
  PRIMARY KEY (tenant, member, kind)
) WITH (fillfactor = 50);
