-- The state of limits that is filled from the record: its generations, the servers that hold it, and the process that keeps
-- the limits in its memory while their server answers none of them (`share` of the policy).

-- The state of limits has a generation for each tenant: what was decided in a state that was lost since is refused, because the
-- fill did not count it.
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

-- The changes that were decided in a generation that has ended. 64 stripes of tenants, in order: one lock a tenant would
-- overflow the table of locks with large groups.
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

-- The newest life of each server. A number is never used twice. The keys that count the limits stand in one place: the
-- database of one Redis, or one cluster, under one prefix. The keyspace is the database and the prefix. In place of a run id
-- stands 'left' where the name may lead elsewhere by now, 'kept' while a member keeps the limits (its id is the replication
-- id), and 'renumbered' where the record is older than the values of the server: none of them is the id of a life.
CREATE TABLE limiter_server (
  node           text COLLATE "C" PRIMARY KEY,
  run_id         text NOT NULL,
  replication_id text NOT NULL,
  number         bigint NOT NULL,
  is_settled     boolean NOT NULL DEFAULT false,    -- calls under rights of the life before have ended
  keyspace       text
);

-- One row at most. It is written under the lock of the keeper, as the registrations are.
CREATE TABLE limiter_number (is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only), newest bigint NOT NULL);

-- The member that keeps the limits: one row at most. It counts as long as its member lives.
CREATE TABLE limits_keeper (is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only), member bigint NOT NULL, number bigint NOT NULL);

CREATE FUNCTION keeper_class() RETURNS int LANGUAGE sql STABLE AS $$ SELECT hashtext('sluice keeper ' || current_schema()) $$;

CREATE FUNCTION living_keeper() RETURNS SETOF limits_keeper LANGUAGE sql STABLE AS $$
  SELECT k.* FROM limits_keeper k JOIN member m ON m.id = k.member WHERE m.state IN (1, 2)
$$;

-- Numbers under which servers of limits are registered begin at a random one, and each is greater by a random step than the
-- one before. A sequence gives the same numbers again in a schema that was made anew, and behind a backup that was restored:
-- what a server holds of before would count as known.
CREATE FUNCTION next_limiter_number() RETURNS bigint LANGUAGE sql AS $$
  INSERT INTO limiter_number AS n (newest) VALUES (floor(random() * 2 ^ 52)::bigint)
    ON CONFLICT (is_only) DO UPDATE SET newest = n.newest + 1 + floor(random() * 2 ^ 24)::bigint RETURNING newest
$$;

-- One life of a server has one number, under whatever names processes ask it: with a number for each name every process
-- would find unknown what the others have counted. Where a name leads to another life than before, the other names that led
-- there have to be registered again: they may lead elsewhere by now, and who asks by them hears of it.
CREATE FUNCTION register_server(of_node text, run text, replication text)
RETURNS TABLE (number bigint, is_settled boolean) LANGUAGE plpgsql AS $$
DECLARE own limiter_server; named limiter_server;
BEGIN
  SELECT * INTO own FROM limiter_server s WHERE s.node = of_node;
  IF (own.run_id, own.replication_id) IS DISTINCT FROM (run, replication) THEN
    UPDATE limiter_server s SET run_id = 'left', replication_id = '', number = next_limiter_number(), is_settled = false
      WHERE s.node <> of_node AND (s.run_id, s.replication_id) = (own.run_id, own.replication_id)
        AND own.run_id NOT IN ('left', 'kept', 'renumbered');
    SELECT * INTO named FROM limiter_server s WHERE (s.run_id, s.replication_id) = (run, replication) LIMIT 1;
    -- The numbers of a name only grow: a process refuses one that is less than it has heard.
    IF named.number IS NULL OR named.number < own.number THEN
      named.number := next_limiter_number();
      named.is_settled := false;
      UPDATE limiter_server s SET number = named.number, is_settled = false
        WHERE (s.run_id, s.replication_id) = (run, replication);
    END IF;
    INSERT INTO limiter_server AS s (node, run_id, replication_id, number, is_settled)
      VALUES (of_node, run, replication, named.number, named.is_settled)
      ON CONFLICT (node) DO UPDATE SET run_id = run, replication_id = replication, number = excluded.number,
        is_settled = excluded.is_settled;
  END IF;
  RETURN QUERY SELECT s.number, s.is_settled FROM limiter_server s WHERE s.node = of_node;
END $$;

-- All servers are unknown until they are registered again: a value in one of them has a generation that the record has not
-- given, so this record is an older one than that from which the values were filled. A number that nobody has settled has no
-- values, and stays.
CREATE FUNCTION renumber_servers() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(keeper_class(), 0);
  UPDATE limiter_server SET run_id = 'renumbered', replication_id = '', number = next_limiter_number(), is_settled = false
    WHERE is_settled;
END $$;

-- Registers a server for a member, which ends its pledge; answers no number while another member keeps the limits.
CREATE FUNCTION register_server_for(my bigint, of_node text, run text, replication text)
RETURNS TABLE (number bigint, is_settled boolean) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(keeper_class(), 0);
  UPDATE member SET asks_no_server = false WHERE id = my AND asks_no_server;
  IF EXISTS (SELECT FROM living_keeper() k WHERE k.member <> my) THEN RETURN; END IF;
  DELETE FROM limits_keeper;
  RETURN QUERY SELECT * FROM register_server(of_node, run, replication);
END $$;

-- Registers a server for a member. A member that registers its first one, and finds neither a server of its own place on record
-- nor the one that is registered under another name, has come to another place: while another member counts there, it is
-- answered that one as `elsewhere`, and no number; else the record forgets the servers of the former place, whose values lack
-- from now on what is sent, so that whoever comes back there finds all of them unknown. `masters` are the nodes of its own place.
CREATE FUNCTION register_server_in(my bigint, of_keyspace text, masters text[], of_node text, run text, replication text)
RETURNS TABLE (number bigint, is_settled boolean, elsewhere text) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(keeper_class(), 0);
  IF EXISTS (SELECT FROM member m WHERE m.id = my AND m.keyspace IS NULL) AND EXISTS (SELECT FROM limiter_server)
    AND NOT EXISTS (SELECT FROM limiter_server s WHERE s.keyspace = of_keyspace
      AND (s.node = ANY(masters) OR (s.run_id, s.replication_id) = (run, replication)))
  THEN
    IF EXISTS (SELECT FROM member m WHERE m.id <> my AND m.state IN (1, 2) AND m.keyspace IS NOT NULL) THEN
      RETURN QUERY SELECT NULL::bigint, NULL::boolean, s.keyspace || ' of ' || s.node FROM limiter_server s ORDER BY s.number DESC LIMIT 1;
      RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM living_keeper() k WHERE k.member <> my) THEN DELETE FROM limiter_server; END IF;
  END IF;
  RETURN QUERY SELECT r.number, r.is_settled, NULL::text FROM register_server_for(my, of_node, run, replication) r;
  IF FOUND THEN
    UPDATE limiter_server s SET keyspace = of_keyspace WHERE s.node = of_node AND s.keyspace IS DISTINCT FROM of_keyspace;
    UPDATE member SET keyspace = of_keyspace WHERE id = my AND keyspace IS NULL;
  END IF;
END $$;

-- Notes the pledge of a member. Where every living one has pledged and none keeps the limits, this one keeps them from now
-- on: the newest registration of every server is its own, so that a server is registered anew before it counts again.
CREATE FUNCTION stand_in(my bigint) RETURNS json LANGUAGE plpgsql AS $$
DECLARE keeper limits_keeper; living boolean; others boolean;
BEGIN
  PERFORM pg_advisory_xact_lock(keeper_class(), 0);
  UPDATE member SET asks_no_server = true WHERE id = my AND state IN (1, 2);
  living := EXISTS (SELECT FROM member WHERE id = my AND state = 1);
  others := EXISTS (SELECT FROM member WHERE state IN (1, 2) AND id <> my AND NOT asks_no_server);
  SELECT * INTO keeper FROM living_keeper();
  IF NOT FOUND AND living AND NOT others THEN
    INSERT INTO limits_keeper AS k (member, number) VALUES (my, next_limiter_number())
      ON CONFLICT (is_only) DO UPDATE SET member = my, number = excluded.number RETURNING k.* INTO keeper;
    UPDATE limiter_server SET run_id = 'kept', replication_id = my::text, number = keeper.number, is_settled = false;
  END IF;
  RETURN json_build_object('keeper', keeper.member::text, 'number', CASE WHEN keeper.member = my THEN keeper.number END,
    'isReachable', others);
END $$;

CREATE FUNCTION step_down(my bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(keeper_class(), 0);
  DELETE FROM limits_keeper WHERE member = my;
END $$;
