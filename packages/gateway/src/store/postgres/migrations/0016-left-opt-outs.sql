-- A recipient that nobody has saved may have opt-outs that an erasure has left; the right to send tells of those, too.

-- Gives the right to send to the versions that are on record and that no other member holds, and answers the versions
-- of their recipients: of what was saved, else of the opt-outs that an erasure has left under the pseudonym (0: neither
-- is on record; processes of an earlier version name no pseudonym). It commits synchronously: after a crash whatever may
-- have been called is on record as begun. No lock guards the reading of a recipient: whoever forbids calls waits until
-- such a right has ended.
CREATE OR REPLACE FUNCTION begin_sending(my bigint, my_epoch int, at bigint, asked json) RETURNS json LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE begun json;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  WITH mine AS MATERIALIZED (
    SELECT l.id, m.pseudonym FROM (SELECT * FROM json_to_recordset(asked) AS x(id text, status smallint, rev int,
        due_at bigint, attempts int, pseudonym text) ORDER BY id OFFSET 0) m
      CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.status AND l.rev = m.rev
        AND l.due_at = m.due_at AND l.attempts = m.attempts AND (l.owner IS NULL OR l.owner + 0 = my) FOR UPDATE) l
  ), done AS (
    UPDATE live SET begun_at = at, owner = my FROM mine WHERE live.id = mine.id
      RETURNING live.id, live.tenant, live.recipient, mine.pseudonym
  )
  SELECT json_agg(json_build_array(d.id, coalesce(
      (SELECT r.version FROM recipient r WHERE r.tenant = d.tenant AND r.id = d.recipient),
      (SELECT r.version FROM recipient r WHERE r.tenant = d.tenant AND r.id = d.pseudonym), 0))) INTO begun FROM done d;
  RETURN coalesce(begun, '[]');
END $$;
