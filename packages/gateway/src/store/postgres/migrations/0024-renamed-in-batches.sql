-- A step of a batch is compared with the erasures that have renamed one of its recipients, too: a process that has read
-- the batch before would accept a message to somebody who is erased. Processes of an earlier version do not name them.
-- All else is as it was.
CREATE OR REPLACE FUNCTION commit_parts(my bigint, my_epoch int, claimed bigint, accept json, ids json, moves json, versions json,
  digests json, rest json, generations json, texts text[]) RETURNS conflict[] LANGUAGE plpgsql
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
      WHERE (SELECT n.seq FROM notification n WHERE n.id = a.id) IS NOT NULL;
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
        FROM json_to_recordset(jobs) AS x(c int, id text, b_status text, b_taken int, b_renamed int)
        LEFT JOIN job j ON j.id = x.id
        WHERE (j.status, j.taken) IS DISTINCT FROM (x.b_status, x.b_taken)
          OR x.b_renamed <> coalesce((j.body->>'renamed')::int, 0);
    END IF;
    IF recipients IS NOT NULL THEN
      PERFORM FROM recipient r JOIN json_to_recordset(recipients) AS x(tenant text, id text, pseudonym text)
        ON r.tenant = x.tenant AND r.id IN (x.id, x.pseudonym) ORDER BY r.tenant, r.id FOR UPDATE OF r;
      SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(recipients) AS x(c int, tenant text, id text, version bigint, pseudonym text)
        WHERE x.version IS NOT NULL AND x.version <> coalesce(
          (SELECT r.version FROM recipient r WHERE r.tenant = x.tenant AND r.id = x.id),
          (SELECT r.version FROM recipient r WHERE r.tenant = x.tenant AND r.id = x.pseudonym), 0);
    END IF;
    IF decided IS NOT NULL THEN
      SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.recipient)::conflict), '{}') INTO found
        FROM json_to_recordset(decided) AS x(c int, tenant text, recipient text, version bigint)
        WHERE x.version IS NOT NULL AND x.version <>
          coalesce((SELECT r.version FROM recipient r WHERE r.tenant = x.tenant AND r.id = x.recipient), 0);
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
  IF accept IS NOT NULL THEN deltas := deltas || write_accepted(my, claimed, accept, bad, texts); END IF;
  IF moves IS NOT NULL THEN deltas := deltas || write_moved(my, claimed, moves, bad, texts); END IF;
  IF jobs IS NOT NULL THEN deltas := deltas || job_deltas(jobs, bad); END IF;
  IF cardinality(deltas) > 0 THEN PERFORM add_deltas(my, deltas); END IF;
  RETURN found;
END $$;
