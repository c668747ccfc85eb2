-- The channels for which a member has a pool, written at its start; null where an earlier version of the program did not say. A
-- member leaves to the others what it does not serve itself.
ALTER TABLE member ADD COLUMN channels text[];

-- Beats for a member, gives it the wanted chores that no living member has, and answers the other members as they are,
-- with the channels that each serves. No clock of the server decides who lives: a looker counts how often it has seen the
-- same beat.
CREATE OR REPLACE FUNCTION beat(my bigint, wanted text[]) RETURNS json LANGUAGE plpgsql SET jit = off AS $$
DECLARE living boolean; free text[];
BEGIN
  free := ARRAY(SELECT n FROM unnest(wanted) n WHERE NOT EXISTS
    (SELECT FROM role r JOIN member m ON m.id = r.holder WHERE r.name = n AND m.state = 1) ORDER BY n);
  -- A beat that a crash of the server loses is as good as one that came late.
  IF cardinality(free) = 0 THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  UPDATE member SET beat = beat + 1 WHERE id = my AND state = 1;
  living := FOUND;
  IF living AND cardinality(free) > 0 THEN
    INSERT INTO role AS r (name, holder) SELECT n, my FROM unnest(free) n
      ON CONFLICT (name) DO UPDATE SET holder = my
      WHERE NOT EXISTS (SELECT FROM member m WHERE m.id = r.holder AND m.state = 1);
  END IF;
  RETURN json_build_object('living', living,
    'roles', (SELECT coalesce(json_agg(name), '[]') FROM role WHERE holder = my),
    'members', (SELECT coalesce(json_agg(json_build_object('id', id::text, 'beat', beat, 'state', state,
      'channels', channels)), '[]')
      FROM member WHERE id <> my AND state <> 4));
END $$;

-- Claims free rows that are due, earliest first. Where one tenant would take more than half of a full page, or tenants
-- are passed over, each tenant gets the same share, beginning behind the tenant `after`. Rows of the channels `passed` stay
-- free for a process that serves them. `upto` of the first row is the instant up to which nothing else is free; null where
-- the shares decided. It commits asynchronously: a claim that a crash loses is free again.
CREATE FUNCTION claim_due(my bigint, my_epoch int, number bigint, until bigint, max int, without text[], after text, passed text[])
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
      FROM (SELECT id, tenant, due_at FROM live WHERE owner IS NULL AND due_at <= until
        AND channel <> ALL(passed) ORDER BY due_at, seq LIMIT max
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

-- An earlier version of the program names no channels.
CREATE OR REPLACE FUNCTION claim_due(my bigint, my_epoch int, number bigint, until bigint, max int, without text[], after text)
RETURNS TABLE (upto bigint, claimed json) LANGUAGE sql AS $$
  SELECT * FROM claim_due(my, my_epoch, number, until, max, without, after, '{}')
$$;
