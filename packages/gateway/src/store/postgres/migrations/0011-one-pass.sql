-- Reads the JSON of a group in one pass: each `->` reads all of it, and each list of rows that is asked for its ids alone
-- is read whole. What a group does not have costs no statement. The parts `ids` and `versions` name the records that are
-- compared; where they are absent, the rows themselves do.

CREATE FUNCTION commit_parts(my bigint, my_epoch int, claimed bigint, accept json, ids json, moves json, versions json,
  digests json, rest json, generations json) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  found conflict[] := '{}'; bad int[] := '{}'; matched text[]; deltas delta[] := '{}';
  recipients json; decided json; jobs json; contents json; answers json; accounts json; holds json;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  IF generations IS NOT NULL THEN found := generation_conflicts(generations); END IF;
  IF accept IS NOT NULL THEN
    SELECT found || coalesce(array_agg(ROW(a.c, 'notification', a.id)::conflict), '{}') INTO found
      FROM json_to_recordset(coalesce(ids, accept)) AS a(c int, id text)
      WHERE EXISTS (SELECT FROM notification n WHERE n.id = a.id);
  END IF;
  IF moves IS NOT NULL THEN
    matched := lock_moved(my, coalesce(versions, moves));
    IF coalesce(cardinality(matched), 0) < json_array_length(coalesce(versions, moves)) THEN
      SELECT found || array_agg(ROW(m.c, 'notification', m.id)::conflict) INTO found
        FROM json_to_recordset(moves) AS m(c int, id text) WHERE m.id <> ALL(coalesce(matched, '{}'));
    END IF;
  END IF;
  IF digests IS NOT NULL THEN found := found || digest_conflicts(digests); END IF;
  IF rest IS NOT NULL THEN
    SELECT x.recipients, x.decided, x.jobs, x.contents, x.answers, x.accounts, x.holds
      INTO recipients, decided, jobs, contents, answers, accounts, holds
      FROM json_to_record(rest) AS x(recipients json, decided json, jobs json, contents json, answers json,
        accounts json, holds json);
    IF jobs IS NOT NULL THEN
      PERFORM FROM job WHERE id IN (SELECT id FROM json_to_recordset(jobs) AS x(id text)) ORDER BY id FOR UPDATE;
      SELECT found || coalesce(array_agg(ROW(x.c, 'job', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(jobs) AS x(c int, id text, b_status text, b_taken int)
        LEFT JOIN job j ON j.id = x.id
        WHERE (j.status, j.taken) IS DISTINCT FROM (x.b_status, x.b_taken);
    END IF;
    IF recipients IS NOT NULL THEN
      PERFORM FROM recipient r JOIN json_to_recordset(recipients) AS x(tenant text, id text)
        ON r.tenant = x.tenant AND r.id = x.id ORDER BY r.tenant, r.id FOR UPDATE OF r;
      SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(recipients) AS x(c int, tenant text, id text, version bigint)
        LEFT JOIN recipient r ON r.tenant = x.tenant AND r.id = x.id
        WHERE x.version IS NOT NULL AND x.version <> coalesce(r.version, 0);
    END IF;
    IF decided IS NOT NULL THEN
      SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.recipient)::conflict), '{}') INTO found
        FROM json_to_recordset(decided) AS x(c int, tenant text, recipient text, version bigint)
        LEFT JOIN recipient r ON r.tenant = x.tenant AND r.id = x.recipient
        WHERE x.version IS NOT NULL AND x.version <> coalesce(r.version, 0);
    END IF;
    IF contents IS NOT NULL THEN
      SELECT found || coalesce(array_agg(ROW(x.c, 'content', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(contents) AS x(c int, id text)
        WHERE EXISTS (SELECT FROM content k WHERE k.id = x.id);
    END IF;
    IF answers IS NOT NULL THEN
      SELECT found || coalesce(array_agg(ROW(x.c, 'answer', x.key)::conflict), '{}') INTO found
        FROM json_to_recordset(answers) AS x(c int, tenant text, module text, method text, path text, key text)
        WHERE EXISTS (SELECT FROM answer k WHERE (k.tenant, k.module, k.method, k.path, k.key) =
          (x.tenant, x.module, x.method, x.path, x.key));
    END IF;
  END IF;
  IF cardinality(found) > 0 THEN bad := ARRAY(SELECT DISTINCT f.c FROM unnest(found) f); END IF;
  IF digests IS NOT NULL THEN
    found := found || left_conflicts(json_build_object('digests', digests,
      'moves', coalesce(moves, '[]'), 'accept', coalesce(accept, '[]')), bad);
    bad := ARRAY(SELECT DISTINCT f.c FROM unnest(found) f);
    PERFORM write_digests(digests, bad);
  END IF;
  IF coalesce(recipients, jobs, contents, answers, accounts, holds) IS NOT NULL THEN
    PERFORM write_rest(rest, bad);
  END IF;
  IF accept IS NOT NULL THEN deltas := deltas || write_accepted(my, claimed, accept, bad); END IF;
  IF moves IS NOT NULL THEN deltas := deltas || write_moved(my, claimed, moves, bad); END IF;
  IF jobs IS NOT NULL THEN deltas := deltas || job_deltas(jobs, bad); END IF;
  IF cardinality(deltas) > 0 THEN PERFORM add_deltas(my, deltas); END IF;
  RETURN found;
END $$;

CREATE OR REPLACE FUNCTION commit_group(my bigint, my_epoch int, claimed bigint, g json) RETURNS conflict[] LANGUAGE sql AS $$
  SELECT commit_parts(my, my_epoch, claimed, x.accept, x.ids, x.moves, x.versions, x.digests, x.rest, x.generations)
    FROM json_to_record(g) AS x(accept json, ids json, moves json, versions json, digests json, rest json, generations json)
$$;

-- Keeps the changes of state of what was applied.
CREATE FUNCTION keep_log(log json, found conflict[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox (entries, body)
    SELECT sum(entries), '[' || string_agg(body, ',' ORDER BY c) || ']'
    FROM json_to_recordset(log) AS x(c int, entries int, body text)
    WHERE c <> ALL (SELECT f.c FROM unnest(found) f) HAVING count(*) > 0
$$;

-- As commit_group, and keeps the changes of state of what was applied.
CREATE OR REPLACE FUNCTION commit_logged(my bigint, my_epoch int, claimed bigint, g json) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE p record; found conflict[];
BEGIN
  SELECT * INTO p FROM json_to_record(g) AS x(accept json, ids json, moves json, versions json, digests json, rest json,
    generations json, log json);
  found := commit_parts(my, my_epoch, claimed, p.accept, p.ids, p.moves, p.versions, p.digests, p.rest, p.generations);
  IF p.log IS NOT NULL THEN PERFORM keep_log(p.log, found); END IF;
  RETURN found;
END $$;

-- As commit_logged, and counts what was delivered by what was applied.
CREATE OR REPLACE FUNCTION commit_and_count(my bigint, my_epoch int, claimed bigint, g json) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE p record; found conflict[];
BEGIN
  SELECT * INTO p FROM json_to_record(g) AS x(accept json, ids json, moves json, versions json, digests json, rest json,
    generations json, log json, delivered json);
  found := commit_parts(my, my_epoch, claimed, p.accept, p.ids, p.moves, p.versions, p.digests, p.rest, p.generations);
  IF p.log IS NOT NULL THEN PERFORM keep_log(p.log, found); END IF;
  IF p.delivered IS NOT NULL THEN
    INSERT INTO delivery_total AS t (category, tenant, slot, delivered, complained)
      SELECT category, tenant, my & 63, sum(count), 0
        FROM json_to_recordset(p.delivered) AS x(c int, tenant text, category text, count bigint)
        WHERE c NOT IN (SELECT f.c FROM unnest(found) f)
        GROUP BY category, tenant ORDER BY category, tenant
      ON CONFLICT (category, tenant, slot) DO UPDATE SET delivered = t.delivered + excluded.delivered;
  END IF;
  RETURN found;
END $$;
