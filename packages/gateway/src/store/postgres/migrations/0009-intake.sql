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
