-- The member whose change wrote this version of a notification; null where an earlier version of the program did. Two members
-- may make the same change within a millisecond: where the answer to one is lost, this tells whose it is that stands there.
ALTER TABLE live ADD COLUMN writer bigint;
ALTER TABLE outcome ADD COLUMN writer bigint;

-- Both functions are as they were, and note the writer.
CREATE OR REPLACE FUNCTION write_accepted(my bigint, claimed bigint, accept json, bad int[], texts text[]) RETURNS delta[] LANGUAGE plpgsql AS $$
DECLARE deltas delta[];
BEGIN
  WITH a AS MATERIALIZED (
    SELECT nextval('acceptance') AS seq, x.* FROM json_to_recordset(accept) AS x(c int, id text, tenant text,
      recipient text, category text, job text, shared text, created_at bigint, channel text,
      priority text, bytes bigint, status smallint, kind smallint, rev int, due_at bigint, attempts int, fired_at bigint,
      turned_at bigint, suspects bigint[], digest text, cause text, at bigint, waits text, policy text, t int)
    WHERE c <> ALL(bad)
  ), n AS (
    INSERT INTO notification (id, seq, tenant, recipient, category, job, shared, created_at, body, first)
      SELECT id, seq, tenant, recipient, category, job, shared, created_at, texts[t]::json, texts[t + 1]::json
      FROM a
  ), l AS (
    INSERT INTO live (id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts,
        fired_at, turned_at, suspects, digest, cause, waits, policy, owner, writer)
      SELECT id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts,
        fired_at, turned_at, suspects, digest, cause, waits, policy,
        CASE WHEN status = 2 THEN -1 WHEN due_at <= claimed THEN my END, my
      FROM a WHERE status <= 5
  ), o AS (
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, writer)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, my FROM a WHERE status > 5
  )
  SELECT array_agg(ROW(tenant, kind, 1, CASE WHEN status <= 5 THEN bytes ELSE 0 END)::delta) INTO deltas FROM a;
  RETURN deltas;
END $$;

-- Writes the rows that were read, by their place: all of them are locked (lock_moved), so that none has moved since. By their
-- ids they would be looked for once more; and where `live` was nearly empty when that was planned, all of it is read for each
-- group, and each of its rows is compared with each of the group.
CREATE OR REPLACE FUNCTION write_moved(my bigint, claimed bigint, moves json, bad int[], texts text[]) RETURNS delta[] LANGUAGE plpgsql AS $$
DECLARE deltas delta[];
BEGIN
  WITH m AS MATERIALIZED (
    SELECT x.*, texts[t]::json AS state FROM json_to_recordset(moves) AS x(c int, id text, channel text,
      status smallint, kind smallint, rev int, due_at bigint, attempts int, fired_at bigint, turned_at bigint,
      suspects bigint[], digest text, cause text, at bigint, waits text, policy text, t int)
    WHERE c <> ALL(bad)
  ), old AS MATERIALIZED (
    SELECT m.*, l.place, l.tenant, l.old_kind, l.bytes, l.old_due_at, l.owner, l.old_state FROM m CROSS JOIN LATERAL (
      SELECT live.ctid AS place, tenant, live.kind AS old_kind, bytes, live.due_at AS old_due_at, owner, live.state AS old_state
        FROM live WHERE live.id = m.id OFFSET 0) l -- Kept apart: joined, it may be read whole, once for each group.
  ), gone AS (
    DELETE FROM live USING (SELECT place FROM old WHERE status > 5) e WHERE live.ctid = e.place
  ), ended AS (
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, state, writer)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects,
        -- `whole` adds the decision of the acceptance; one that a move has written since is added here.
        CASE WHEN old_state IS NULL OR state->'decision' IS NOT NULL THEN state
          ELSE ('{"decision":' || (old_state->'decision')::text || ',' || substr(state::text, 2))::json END, my
      FROM old WHERE status > 5
  ), stays AS (
    UPDATE live SET channel = s.channel, status = s.status, kind = s.kind, rev = s.rev, due_at = s.due_at,
      attempts = s.attempts, fired_at = s.fired_at, turned_at = s.turned_at, suspects = s.suspects, digest = s.digest,
      cause = s.cause, waits = s.waits, policy = s.policy, begun_at = NULL, state = s.state, writer = my,
      -- A free row that keeps its instant stays free; else the writer holds what is due by `claimed`, and nothing later.
      owner = CASE WHEN s.status = 2 THEN -1
        WHEN s.old_due_at = s.due_at AND s.owner IS NULL THEN NULL
        WHEN s.due_at <= claimed THEN my END
    FROM (SELECT * FROM old WHERE status <= 5) s WHERE live.ctid = s.place
  )
  SELECT array_agg(d) INTO deltas FROM old CROSS JOIN LATERAL (VALUES
    (ROW(tenant, old_kind, -1, -bytes)::delta),
    (ROW(tenant, kind, 1, CASE WHEN status <= 5 THEN bytes ELSE 0 END)::delta)) v(d);
  RETURN deltas;
END $$;
