-- Who holds a notification: claims, releases, the takeover from a member that has gone; and what is removed at the end.

-- Claims free rows that are due, earliest first. Where one tenant would take more than half of a full page, or tenants
-- are passed over, each tenant gets the same share, beginning behind the tenant `after`. `upto` of the first row is the
-- instant up to which nothing is free; null where the shares decided. It commits asynchronously: a claim that a crash loses is free again.
CREATE FUNCTION claim_due(my bigint, my_epoch int, number bigint, until bigint, max int, without text[], after text)
RETURNS TABLE (upto bigint, claimed json) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE page text[]; share int; most int; all_ boolean; latest bigint;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  PERFORM set_config('synchronous_commit', 'off', true);
  IF cardinality(without) = 0 THEN
    SELECT array_agg(p.id), max(p.due_at), (SELECT count(*)::int FROM unnest(array_agg(p.tenant)) t GROUP BY t ORDER BY 1 DESC LIMIT 1)
      INTO page, latest, most
      FROM (SELECT id, tenant, due_at FROM live WHERE owner IS NULL AND due_at <= until ORDER BY due_at, seq LIMIT max
        FOR UPDATE SKIP LOCKED) p;
    all_ := coalesce(cardinality(page), 0) < max;
  END IF;
  IF cardinality(without) > 0 OR NOT all_ AND most * 2 > max THEN
    WITH RECURSIVE t AS (
      (SELECT tenant FROM live WHERE owner IS NULL ORDER BY tenant LIMIT 1)
      UNION ALL
      SELECT (SELECT l.tenant FROM live l WHERE l.owner IS NULL AND l.tenant > t.tenant ORDER BY l.tenant LIMIT 1)
        FROM t WHERE t.tenant IS NOT NULL
    ), ready AS MATERIALIZED (
      SELECT tenant FROM t WHERE tenant <> ALL(without)
        AND (SELECT l.due_at FROM live l WHERE l.owner IS NULL AND l.tenant = t.tenant ORDER BY l.due_at LIMIT 1) <= until
        ORDER BY tenant <= after, tenant LIMIT max
    ), shares AS MATERIALIZED (
      SELECT greatest(1, ceil(max::numeric / greatest(1, count(*)))::int) AS share FROM ready
    ), found AS MATERIALIZED (
      SELECT l.id, r.tenant, l.due_at, l.seq FROM ready r CROSS JOIN LATERAL (
        SELECT id, due_at, seq FROM live WHERE owner IS NULL AND tenant = r.tenant AND due_at <= until
          ORDER BY due_at, seq LIMIT (SELECT s.share FROM shares s) FOR UPDATE SKIP LOCKED) l
    )
    SELECT array_agg(f.id), (SELECT s.share FROM shares s),
        (SELECT max(k.n)::int FROM (SELECT count(*) AS n FROM found GROUP BY tenant) k)
      INTO page, share, most FROM (SELECT * FROM found ORDER BY due_at, seq LIMIT max) f;
    all_ := coalesce(most, 0) < share AND coalesce(cardinality(page), 0) < max;
    latest := NULL;
  END IF;
  upto := CASE WHEN all_ THEN until ELSE latest - 1 END;
  UPDATE live SET owner = my, claim = number WHERE id = ANY(page);
  claimed := NULL;
  RETURN NEXT;
  RETURN QUERY SELECT NULL::bigint, row_to_json(w) FROM
    (SELECT whole.* FROM whole JOIN (SELECT unnest(page) AS id) p USING (id) ORDER BY whole.due_at, whole.seq) w;
END $$;

-- Removes a page of ended notifications, and answers them by tenant and status.
CREATE FUNCTION prune_ended(my bigint, my_epoch int, before bigint, max int)
RETURNS TABLE (tenant text, status smallint, count bigint) LANGUAGE plpgsql SET jit = off AS $$
DECLARE gone delta[];
BEGIN
  PERFORM check_epoch(my, my_epoch);
  WITH old AS MATERIALIZED (
    SELECT o.id FROM outcome o WHERE o.at < before
      AND EXISTS (SELECT FROM notification n WHERE n.id = o.id AND n.created_at < before)
      ORDER BY o.at LIMIT max FOR UPDATE SKIP LOCKED
  ), o AS (DELETE FROM outcome USING old WHERE outcome.id = old.id RETURNING outcome.tenant, outcome.status),
  n AS (DELETE FROM notification USING old WHERE notification.id = old.id)
  SELECT array_agg(ROW(o.tenant, o.status * 2, -1, 0)::delta) INTO gone FROM o;
  PERFORM add_deltas(my, coalesce(gone, '{}'));
  RETURN QUERY SELECT g.tenant, (g.kind / 2)::smallint, count(*) FROM unnest(gone) g GROUP BY 1, 2;
END $$;

-- Frees what claims took whose answers were lost: this member does not know what it holds.
CREATE FUNCTION free_claims(my bigint, my_epoch int, numbers bigint[]) RETURNS void LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  PERFORM check_epoch(my, my_epoch);
  UPDATE live SET owner = NULL WHERE owner > 0 AND owner + 0 = my AND claim = ANY(numbers) AND begun_at IS NULL;
END $$;

-- Gives claimed rows back. A right to send that was not used ends.
CREATE FUNCTION release_due(my bigint, my_epoch int, ids text[]) RETURNS void LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  PERFORM check_epoch(my, my_epoch);
  UPDATE live SET owner = NULL, begun_at = NULL WHERE id = ANY(ids) AND owner + 0 = my;
END $$;

-- Declares a member dead. The exclusive lock waits for the last statement that it has under way; what comes later is
-- refused.
CREATE FUNCTION declare_dead(gone bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(lock_class(), hashtext(gone::text));
  UPDATE member SET state = 3 WHERE id = gone AND state <> 4;
END $$;

-- Frees the rows of a member that is dead or ends, and folds its counts. What it had begun may have been sent: that
-- instant counts (suspects).
CREATE FUNCTION settle_member(gone bigint, at bigint) RETURNS void LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  PERFORM declare_dead(gone);
  UPDATE live SET owner = NULL, begun_at = NULL,
    suspects = CASE WHEN begun_at IS NULL THEN suspects ELSE array_append(suspects, at) END
    WHERE owner > 0 AND owner + 0 = gone;
  INSERT INTO tally (tenant, member, kind, count, bytes)
    SELECT tenant, 0, kind, count, bytes FROM tally WHERE member = gone ORDER BY tenant, kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes;
  DELETE FROM tally WHERE member = gone;
  UPDATE member SET state = 4 WHERE id = gone;
END $$;

-- Gives rows of dead members to this one, earliest due first; or, by their ids, rows of its own. It commits
-- synchronously: the suspects of what may have left are on record before the answer.
CREATE FUNCTION take_over(my bigint, my_epoch int, at bigint, max int, without text[], own text[])
RETURNS TABLE (may_have_left boolean, taken json) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE begun text[]; page text[]; dead bigint[] := ARRAY(SELECT id FROM member WHERE state = 3);
BEGIN
  PERFORM check_epoch(my, my_epoch);
  IF own IS NOT NULL THEN
    SELECT array_agg(p.id), array_agg(p.id) FILTER (WHERE p.begun_at IS NOT NULL) INTO page, begun FROM
      (SELECT id, begun_at FROM live WHERE id = ANY(own) AND owner + 0 = my ORDER BY id FOR UPDATE) p;
  ELSIF cardinality(dead) > 0 THEN
    SELECT array_agg(p.id), array_agg(p.id) FILTER (WHERE p.begun_at IS NOT NULL) INTO page, begun FROM
      (SELECT id, begun_at FROM live WHERE owner > 0 AND owner + 0 = ANY(dead) AND tenant <> ALL(without)
        ORDER BY due_at LIMIT max FOR UPDATE SKIP LOCKED) p;
  END IF;
  UPDATE live SET owner = my, begun_at = NULL,
    suspects = CASE WHEN begun_at IS NULL THEN suspects ELSE array_append(suspects, at) END WHERE id = ANY(page);
  RETURN QUERY SELECT w.id = ANY(coalesce(begun, '{}')), row_to_json(w) FROM
    (SELECT whole.* FROM whole JOIN (SELECT unnest(page) AS id) p USING (id) ORDER BY whole.due_at, whole.seq) w;
END $$;
