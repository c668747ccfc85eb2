-- Who holds a notification that waits: claims of what is due, rights to send, and what is left to a broker. 0004-commit.sql
-- explains the settings of the functions.

-- Claims free rows that are due, earliest first. Where one tenant would take more than half of a full page, or tenants
-- are passed over, each tenant gets the same share, beginning behind the tenant `after`. Rows of the channels `passed` stay
-- free for a process that serves them, and rows that are rendered with the templates `missing` for one that has these. `upto`
-- of the first row is the instant up to which nothing else is free; null where the shares decided. It commits asynchronously: a
-- claim that a crash loses is free again.
CREATE FUNCTION claim_due(my bigint, my_epoch int, number bigint, until bigint, max int, without text[], after text, passed text[],
  missing text[])
RETURNS TABLE (upto bigint, claimed json) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE page text[]; share int; most int; all_ boolean; latest bigint;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  PERFORM set_config('synchronous_commit', 'off', true);
  IF cardinality(missing) > 0 THEN
    -- Names of templates are read from the record, for a column would cost every row, and of the next ones that are due alone,
    -- for the claim of a page must not take as long as the backlog is: others claim what is behind.
    SELECT array_agg(p.id ORDER BY p.due_at, p.seq), max(p.due_at) INTO page, latest
      FROM (SELECT x.* FROM (SELECT id, channel, due_at, seq FROM live WHERE owner IS NULL AND due_at <= until
          AND channel <> ALL(passed) AND tenant <> ALL(without) ORDER BY due_at, seq LIMIT 10 * max) x
        WHERE NOT EXISTS (SELECT FROM notification n
          WHERE n.id = x.id AND (n.body->>'template') || '/' || x.channel = ANY(missing) AND n.body->'content' IS NULL AND NOT EXISTS (SELECT FROM content k WHERE k.id = n.shared AND k.has_text))
        ORDER BY x.due_at, x.seq LIMIT max) c
      CROSS JOIN LATERAL (SELECT id, due_at, seq FROM live WHERE id = c.id AND owner IS NULL FOR UPDATE SKIP LOCKED) p;
    all_ := coalesce(cardinality(page), 0) < max;
  ELSIF cardinality(without) = 0 THEN
    SELECT array_agg(p.id), max(p.due_at), (SELECT count(*)::int FROM unnest(array_agg(p.tenant)) t GROUP BY t ORDER BY 1 DESC LIMIT 1)
      INTO page, latest, most
      FROM (SELECT id, tenant, due_at FROM live WHERE owner IS NULL AND due_at <= until
        AND channel <> ALL(passed) ORDER BY due_at, seq LIMIT max
        FOR UPDATE SKIP LOCKED) p;
    all_ := coalesce(cardinality(page), 0) < max;
  END IF;
  IF cardinality(missing) = 0 AND (cardinality(without) > 0 OR NOT all_ AND most * 2 > max) THEN
    WITH RECURSIVE t AS (
      (SELECT tenant FROM live WHERE owner IS NULL ORDER BY tenant LIMIT 1)
      UNION ALL
      SELECT (SELECT l.tenant FROM live l WHERE l.owner IS NULL AND l.tenant > t.tenant ORDER BY l.tenant LIMIT 1)
        FROM t WHERE t.tenant IS NOT NULL
    ), ready AS MATERIALIZED (
      SELECT tenant FROM t WHERE tenant <> ALL(without)
        AND (SELECT l.due_at FROM live l WHERE l.owner IS NULL AND l.tenant = t.tenant AND l.channel <> ALL(passed)
          ORDER BY l.due_at LIMIT 1) <= until
        ORDER BY tenant <= after, tenant LIMIT max
    ), shares AS MATERIALIZED (
      SELECT greatest(1, ceil(max::numeric / greatest(1, count(*)))::int) AS share FROM ready
    ), found AS MATERIALIZED (
      SELECT l.id, r.tenant, l.due_at, l.seq FROM ready r CROSS JOIN LATERAL (
        SELECT id, due_at, seq FROM live WHERE owner IS NULL AND tenant = r.tenant AND due_at <= until AND channel <> ALL(passed)
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
    (SELECT r.* FROM unnest(page) p CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = p OFFSET 0) r
      ORDER BY r.due_at, r.seq) w;
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

-- Gives the right to send to the versions that are on record and that no other member holds, and answers the versions
-- of their recipients: of what was saved, else of the opt-outs that an erasure has left under the pseudonym (0: neither
-- is on record). It commits synchronously: after a crash whatever may have been called is on record as begun. No lock
-- guards the reading of a recipient: whoever forbids calls waits until such a right has ended.
CREATE FUNCTION begin_sending(my bigint, my_epoch int, at bigint, asked json) RETURNS json LANGUAGE plpgsql
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
    (SELECT r.* FROM unnest(page) p CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = p OFFSET 0) r
      ORDER BY r.due_at, r.seq) w;
END $$;

-- Frees what a member holds and has not begun to send, of these categories or of all others, and what is critical; answers
-- the ids. The keeper of the limits claims it.
CREATE FUNCTION hand_over(my bigint, categories text[], are_listed boolean, max int) RETURNS TABLE (id text) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE page text[];
BEGIN
  page := ARRAY(SELECT l.id FROM live l WHERE l.owner > 0 AND l.owner + 0 = my AND l.begun_at IS NULL AND (l.priority = 'critical'
      OR (SELECT (n.category = ANY(categories)) = are_listed FROM notification n WHERE n.id = l.id))
    ORDER BY l.due_at LIMIT max FOR UPDATE SKIP LOCKED);
  UPDATE live SET owner = NULL, claim = NULL WHERE live.id = ANY(page);
  RETURN QUERY SELECT unnest(page);
END $$;

-- Leaves rows that this member holds, or that are free (begin gives it the right for both), to the broker, in the versions
-- asked for. It commits asynchronously: what a crash loses is still held by its member, which finds it by its own sweep.
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
    (SELECT r.* FROM unnest(page) p CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = p OFFSET 0) r
      ORDER BY r.due_at, r.seq) w;
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

-- Removes a page of ended notifications, and answers them by tenant and status. The words of providers about them go, too:
-- no erasure would find them. They are looked for behind the removal, which has waited for reports that were being written.
CREATE FUNCTION prune_ended(my bigint, my_epoch int, before bigint, max int)
RETURNS TABLE (tenant text, status smallint, count bigint) LANGUAGE plpgsql
SET jit = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE gone delta[]; ids text[];
BEGIN
  PERFORM check_epoch(my, my_epoch);
  WITH old AS MATERIALIZED (
    SELECT o.id FROM outcome o WHERE o.at < before
      AND EXISTS (SELECT FROM notification n WHERE n.id = o.id AND n.created_at < before)
      ORDER BY o.at LIMIT max FOR UPDATE SKIP LOCKED
  ), o AS (DELETE FROM outcome USING old WHERE outcome.id = old.id RETURNING outcome.id, outcome.tenant, outcome.status),
  n AS (DELETE FROM notification USING old WHERE notification.id = old.id)
  SELECT array_agg(ROW(o.tenant, o.status * 2, -1, 0)::delta ORDER BY o.id), array_agg(o.id ORDER BY o.id) INTO gone, ids FROM o;
  UPDATE feedback f SET body = f.body - 'detail' FROM unnest(gone, ids) AS x(tenant, kind, count, bytes, id)
    WHERE f.tenant = x.tenant AND f.notification = x.id AND f.body ? 'detail';
  PERFORM add_deltas(my, coalesce(gone, '{}'));
  RETURN QUERY SELECT g.tenant, (g.kind / 2)::smallint, count(*) FROM unnest(gone) g GROUP BY 1, 2;
END $$;
