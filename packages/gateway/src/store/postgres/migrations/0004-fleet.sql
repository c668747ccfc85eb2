-- Several processes over one record: beats by which they know each other alive, chores that one does for all, the
-- generations of limiter state that is filled from the record, and the numbers of the servers that hold it.

-- A chore is its holder's as long as that member is alive.
CREATE TABLE role (name text PRIMARY KEY, holder bigint NOT NULL);

-- Beats for a member, gives it the wanted chores that no living member has, and answers the other members as they are.
-- No clock of the server decides who lives: a looker counts how often it has seen the same beat.
CREATE FUNCTION beat(my bigint, wanted text[]) RETURNS json LANGUAGE plpgsql SET jit = off AS $$
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
    'members', (SELECT coalesce(json_agg(json_build_object('id', id::text, 'beat', beat, 'state', state)), '[]')
      FROM member WHERE id <> my AND state <> 4));
END $$;

-- A process that stops keeps what it holds until it closes its store, and does no chore any more.
CREATE FUNCTION leave(my bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE member SET state = 2 WHERE id = my AND state = 1
$$;

-- Declares a member dead that has not beaten since; false where it has. The exclusive lock waits for the last statement
-- that it has under way; what comes later is refused.
CREATE FUNCTION declare_silent_dead(gone bigint, seen bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(lock_class(), hashtext(gone::text));
  UPDATE member SET state = 3 WHERE id = gone AND beat = seen AND state IN (1, 2);
  RETURN FOUND;
END $$;

-- Folds the counts of a dead member once nothing on record is held by it; false while something is.
CREATE FUNCTION settle_dead(gone bigint) RETURNS boolean LANGUAGE plpgsql SET jit = off SET enable_seqscan = off AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(lock_class(), hashtext(gone::text));
  IF NOT EXISTS (SELECT FROM member WHERE id = gone AND state = 3)
    OR EXISTS (SELECT FROM live WHERE owner > 0 AND owner + 0 = gone) THEN RETURN false; END IF;
  INSERT INTO tally (tenant, member, kind, count, bytes)
    SELECT tenant, 0, kind, count, bytes FROM tally WHERE member = gone ORDER BY tenant, kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes;
  DELETE FROM tally WHERE member = gone;
  UPDATE member SET state = 4 WHERE id = gone;
  RETURN true;
END $$;

-- The state of limits that is filled from the record has a generation for each tenant: what was decided in a state that
-- was lost since is refused, because the fill did not count it.
CREATE TABLE generation (
  tenant text COLLATE "C", state text, number bigint NOT NULL, PRIMARY KEY (tenant, state)
) WITH (fillfactor = 50);

CREATE FUNCTION generation_class() RETURNS int LANGUAGE sql STABLE AS $$
  SELECT hashtext('sluice generation ' || current_schema())
$$;

-- Begins the next generation of a tenant's state: waits for the changes of the one before that are under way, and
-- refuses the rest of them. It commits synchronously, so that no number comes back after a crash.
CREATE FUNCTION next_generation(of_tenant text, of_state text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE begun bigint;
BEGIN
  PERFORM pg_advisory_xact_lock(generation_class(), hashtext(of_tenant) & 63);
  INSERT INTO generation AS g (tenant, state, number) VALUES (of_tenant, of_state, 1)
    ON CONFLICT (tenant, state) DO UPDATE SET number = g.number + 1 RETURNING number INTO begun;
  RETURN begun;
END $$;

-- 64 stripes of tenants, in order: one lock a tenant would overflow the table of locks with large groups.
CREATE FUNCTION generation_conflicts(decided json) RETURNS conflict[] LANGUAGE plpgsql AS $$
DECLARE found conflict[];
BEGIN
  PERFORM pg_advisory_xact_lock_shared(generation_class(), s.stripe) FROM (
    SELECT DISTINCT hashtext(tenant) & 63 AS stripe FROM json_to_recordset(decided) AS x(tenant text)
      ORDER BY 1 OFFSET 0) s;
  SELECT coalesce(array_agg(ROW(x.c, 'generation', x.tenant)::conflict), '{}') INTO found
    FROM json_to_recordset(decided) AS x(c int, tenant text, state text, number bigint)
    LEFT JOIN generation g ON g.tenant = x.tenant AND g.state = x.state
    WHERE x.number <> coalesce(g.number, 0);
  RETURN found;
END $$;

-- Recipients that jobs have yet to accept count in the queue of their tenant, under the member that wrote the job:
-- kind 100.
CREATE FUNCTION job_deltas(jobs json, bad int[]) RETURNS delta[] LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(ROW(tenant, 100, pending, pending_bytes)::delta), '{}')
    FROM json_to_recordset(jobs) AS x(c int, tenant text, pending bigint, pending_bytes bigint)
    WHERE c <> ALL(bad) AND pending IS NOT NULL
$$;

-- The newest life of each server that holds limiter state. A number is never used twice.
CREATE SEQUENCE limiter_registration;
CREATE TABLE limiter_server (
  node           text COLLATE "C" PRIMARY KEY,
  run_id         text NOT NULL,
  replication_id text NOT NULL,
  number         bigint NOT NULL,
  is_settled     boolean NOT NULL DEFAULT false     -- calls under rights of the life before have ended
);

CREATE FUNCTION register_server(of_node text, run text, replication text)
RETURNS TABLE (number bigint, is_settled boolean) LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO limiter_server AS s (node, run_id, replication_id, number)
    VALUES (of_node, run, replication, nextval('limiter_registration'))
    ON CONFLICT (node) DO UPDATE SET run_id = run, replication_id = replication, number = excluded.number, is_settled = false
    WHERE (s.run_id, s.replication_id) <> (run, replication);
  RETURN QUERY SELECT s.number, s.is_settled FROM limiter_server s WHERE s.node = of_node;
END $$;

-- Applies a group of changes, each whole or not at all, and answers the conflicts of those that were not applied. The
-- changes of a group touch different records (group.ts): what is compared and then written is the same for all of them.
CREATE OR REPLACE FUNCTION commit_group(my bigint, my_epoch int, claimed bigint, g json) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  found conflict[] := '{}'; bad int[] := '{}'; matched text[]; deltas delta[] := '{}';
  accept json := g->'accept'; moves json := g->'moves'; digests json := g->'digests';
  rest json := g->'rest'; generations json := g->'generations';
BEGIN
  PERFORM check_epoch(my, my_epoch);
  IF generations IS NOT NULL THEN found := generation_conflicts(generations); END IF;
  IF accept IS NOT NULL THEN
    SELECT found || coalesce(array_agg(ROW(a.c, 'notification', a.id)::conflict), '{}') INTO found
      FROM json_to_recordset(accept) AS a(c int, id text) WHERE EXISTS (SELECT FROM notification n WHERE n.id = a.id);
  END IF;
  IF moves IS NOT NULL THEN
    matched := lock_moved(my, moves);
    IF coalesce(cardinality(matched), 0) < json_array_length(moves) THEN
      SELECT found || array_agg(ROW(m.c, 'notification', m.id)::conflict) INTO found
        FROM json_to_recordset(moves) AS m(c int, id text) WHERE m.id <> ALL(coalesce(matched, '{}'));
    END IF;
  END IF;
  IF digests IS NOT NULL THEN found := found || digest_conflicts(digests); END IF;
  IF rest IS NOT NULL THEN
    PERFORM FROM job WHERE id IN (SELECT id FROM json_to_recordset(rest->'jobs') AS x(id text)) ORDER BY id FOR UPDATE;
    SELECT found || coalesce(array_agg(ROW(x.c, 'job', x.id)::conflict), '{}') INTO found
      FROM json_to_recordset(rest->'jobs') AS x(c int, id text, b_status text, b_taken int)
      LEFT JOIN job j ON j.id = x.id
      WHERE (j.status, j.taken) IS DISTINCT FROM (x.b_status, x.b_taken);
    PERFORM FROM recipient r JOIN json_to_recordset(rest->'recipients') AS x(tenant text, id text)
      ON r.tenant = x.tenant AND r.id = x.id ORDER BY r.tenant, r.id FOR UPDATE OF r;
    SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.id)::conflict), '{}') INTO found
      FROM (SELECT c, tenant, id, version FROM json_to_recordset(rest->'recipients')
          AS w(c int, tenant text, id text, version bigint)
        UNION ALL SELECT c, tenant, recipient, version FROM json_to_recordset(rest->'decided')
          AS d(c int, tenant text, recipient text, version bigint)) x
      LEFT JOIN recipient r ON r.tenant = x.tenant AND r.id = x.id
      WHERE x.version IS NOT NULL AND x.version <> coalesce(r.version, 0);
    SELECT found || coalesce(array_agg(ROW(x.c, 'content', x.id)::conflict), '{}') INTO found
      FROM json_to_recordset(rest->'contents') AS x(c int, id text)
      WHERE EXISTS (SELECT FROM content k WHERE k.id = x.id);
    SELECT found || coalesce(array_agg(ROW(x.c, 'answer', x.key)::conflict), '{}') INTO found
      FROM json_to_recordset(rest->'answers') AS x(c int, tenant text, module text, method text, path text, key text)
      WHERE EXISTS (SELECT FROM answer k WHERE (k.tenant, k.module, k.method, k.path, k.key) =
        (x.tenant, x.module, x.method, x.path, x.key));
  END IF;
  bad := ARRAY(SELECT DISTINCT f.c FROM unnest(found) f);
  IF digests IS NOT NULL THEN
    found := found || left_conflicts(g, bad);
    bad := ARRAY(SELECT DISTINCT f.c FROM unnest(found) f);
    PERFORM write_digests(digests, bad);
  END IF;
  IF rest IS NOT NULL THEN PERFORM write_rest(rest, bad); END IF;
  IF accept IS NOT NULL THEN deltas := deltas || write_accepted(my, claimed, accept, bad); END IF;
  IF moves IS NOT NULL THEN deltas := deltas || write_moved(my, claimed, moves, bad); END IF;
  IF rest IS NOT NULL THEN deltas := deltas || job_deltas(rest->'jobs', bad); END IF;
  PERFORM add_deltas(my, deltas);
  RETURN found;
END $$;
