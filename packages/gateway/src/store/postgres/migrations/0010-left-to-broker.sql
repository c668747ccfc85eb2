-- Notifications that are left to a broker: owner 0, which no claim sees and to which no right is given.
CREATE INDEX live_left ON live (tenant, due_at) WHERE owner = 0;

-- Leaves rows that this member holds, or that are free (begin gives it the right for both), to the broker, in the versions
-- asked for. It commits asynchronously: what a crash loses is
-- still of its member, which finds it by its own sweep.
CREATE FUNCTION leave_to_broker(my bigint, my_epoch int, asked json) RETURNS void LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
BEGIN
  PERFORM check_epoch(my, my_epoch);
  PERFORM set_config('synchronous_commit', 'off', true);
  WITH mine AS MATERIALIZED (
    SELECT l.id FROM (SELECT * FROM json_to_recordset(asked) AS x(id text, status smallint, rev int, due_at bigint,
        attempts int) ORDER BY id OFFSET 0) m
      CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.status AND l.rev = m.rev
        AND l.due_at = m.due_at AND l.attempts = m.attempts AND (l.owner IS NULL OR l.owner + 0 = my) AND l.begun_at IS NULL FOR UPDATE) l
  )
  UPDATE live SET owner = 0, claim = NULL FROM mine WHERE live.id = mine.id;
END $$;

-- Gives rows to this member that are left to the broker, that the member `held_by` holds which published the message, or
-- that this member holds itself, because the answer to an earlier take was lost, or that are free: whoever claims them
-- first has them. It commits synchronously: the message is removed from its queue behind the answer.
CREATE FUNCTION take_left(my bigint, my_epoch int, asked json) RETURNS TABLE (taken json) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE page text[];
BEGIN
  PERFORM check_epoch(my, my_epoch);
  WITH found AS MATERIALIZED (
    SELECT l.id FROM (SELECT * FROM json_to_recordset(asked) AS x(id text, status smallint, rev int, due_at bigint,
        attempts int, held_by bigint) ORDER BY id OFFSET 0) m
      CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.status AND l.rev = m.rev
        AND l.due_at = m.due_at AND l.attempts = m.attempts AND l.begun_at IS NULL
        AND (l.owner IS NULL OR l.owner + 0 IN (0, my, m.held_by)) FOR UPDATE) l
  ), done AS (
    UPDATE live SET owner = my, claim = NULL FROM found WHERE live.id = found.id RETURNING live.id
  )
  SELECT array_agg(id) INTO page FROM done;
  RETURN QUERY SELECT row_to_json(w) FROM
    (SELECT whole.* FROM whole JOIN (SELECT unnest(page) AS id) p USING (id) ORDER BY whole.due_at, whole.seq) w;
END $$;

-- Frees rows that are left to the broker, earliest due first, and answers their number.
CREATE FUNCTION free_left(my bigint, my_epoch int, of_tenant text, of_priority text, due_by bigint, max int) RETURNS int
LANGUAGE plpgsql SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE freed int;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE live SET owner = NULL WHERE id = ANY(ARRAY(
    SELECT id FROM live WHERE owner = 0 AND tenant = of_tenant AND due_at <= due_by
      AND (of_priority IS NULL OR priority = of_priority) ORDER BY due_at LIMIT max FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS freed = ROW_COUNT;
  RETURN freed;
END $$;
