-- Functions in SQL are parsed and planned by each statement that calls them: these are in PL/pgSQL, whose plans are kept
-- for the session. Rows that end, and rights that are given, are found once less.

CREATE OR REPLACE FUNCTION add_deltas(my bigint, deltas delta[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tally (tenant, member, kind, count, bytes)
    SELECT d.tenant, my, d.kind, sum(d.count), sum(d.bytes) FROM unnest(deltas) d GROUP BY d.tenant, d.kind
    HAVING sum(d.count) <> 0 OR sum(d.bytes) <> 0 ORDER BY d.tenant, d.kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes;
END $$;

-- The moves whose version is on record, locked in the order of their ids. What another member may be sending is its own.
CREATE OR REPLACE FUNCTION lock_moved(my bigint, moves json) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE matched text[];
BEGIN
  SELECT array_agg(l.id) INTO matched FROM (SELECT * FROM json_to_recordset(moves) AS x(id text, b_status smallint,
      b_rev int, b_due_at bigint, b_attempts int) ORDER BY id OFFSET 0) m
    CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.b_status AND l.rev = m.b_rev
      AND l.due_at = m.b_due_at AND l.attempts = m.b_attempts AND (l.begun_at IS NULL OR l.owner + 0 = my) FOR UPDATE) l;
  RETURN matched;
END $$;

-- Every row of `moves` was locked in its version by lock_moved, or its change stands in `bad`.
CREATE OR REPLACE FUNCTION write_moved(my bigint, claimed bigint, moves json, bad int[]) RETURNS delta[] LANGUAGE plpgsql AS $$
DECLARE deltas delta[];
BEGIN
  WITH m AS MATERIALIZED (
    SELECT * FROM json_to_recordset(moves) AS x(c int, id text, channel text, status smallint, kind smallint, rev int,
      due_at bigint, attempts int, fired_at bigint, turned_at bigint, suspects bigint[], digest text, cause text,
      at bigint, state json)
    WHERE c <> ALL(bad)
  ), old AS MATERIALIZED (
    SELECT m.*, l.tenant, l.old_kind, l.bytes, l.old_due_at, l.owner FROM m CROSS JOIN LATERAL (
      SELECT tenant, live.kind AS old_kind, bytes, live.due_at AS old_due_at, owner FROM live WHERE live.id = m.id) l
    WHERE m.status <= 5
  ), gone AS (
    DELETE FROM live USING (SELECT * FROM m WHERE status > 5) e WHERE live.id = e.id
      RETURNING e.*, live.tenant, live.kind AS old_kind, live.bytes
  ), ended AS (
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, state)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, state FROM gone
  ), stays AS (
    UPDATE live SET channel = s.channel, status = s.status, kind = s.kind, rev = s.rev, due_at = s.due_at,
      attempts = s.attempts, fired_at = s.fired_at, turned_at = s.turned_at, suspects = s.suspects, digest = s.digest,
      cause = s.cause, begun_at = NULL, state = s.state,
      -- A free row that keeps its instant stays free; else the writer holds what is due by `claimed`, and nothing later.
      owner = CASE WHEN s.status = 2 THEN -1
        WHEN s.old_due_at = s.due_at AND s.owner IS NULL THEN NULL
        WHEN s.due_at <= claimed THEN my END
    FROM old s WHERE live.id = s.id
  )
  SELECT array_agg(d) INTO deltas FROM (
      SELECT tenant, old_kind, kind, bytes, bytes AS left_bytes FROM old
      UNION ALL SELECT tenant, old_kind, kind, bytes, 0 FROM gone) w
    CROSS JOIN LATERAL (VALUES (ROW(w.tenant, w.old_kind, -1, -w.bytes)::delta),
      (ROW(w.tenant, w.kind, 1, w.left_bytes)::delta)) v(d);
  RETURN deltas;
END $$;

-- Gives the right to send to the versions that are on record and that no other member holds, and answers the versions
-- of their recipients (0: none on record). It commits synchronously: after a crash whatever may have been called is on
-- record as begun. No lock guards the reading of a recipient: whoever forbids calls waits until such a right has ended.
-- The rows are updated in the order of their ids, which is that of all locks.
CREATE OR REPLACE FUNCTION begin_sending(my bigint, my_epoch int, at bigint, asked json) RETURNS json LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE begun json;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  WITH done AS (
    UPDATE live l SET begun_at = at, owner = my
      FROM (SELECT * FROM json_to_recordset(asked) AS x(id text, status smallint, rev int, due_at bigint,
        attempts int) ORDER BY id OFFSET 0) m
      WHERE l.id = m.id AND l.status = m.status AND l.rev = m.rev AND l.due_at = m.due_at
        AND l.attempts = m.attempts AND (l.owner IS NULL OR l.owner + 0 = my)
      RETURNING l.id, l.tenant, l.recipient
  )
  SELECT json_agg(json_build_array(d.id, coalesce(r.version, 0))) INTO begun
    FROM done d LEFT JOIN recipient r ON r.tenant = d.tenant AND r.id = d.recipient;
  RETURN coalesce(begun, '[]');
END $$;
