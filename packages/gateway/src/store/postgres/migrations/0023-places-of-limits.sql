-- The keys that count the limits stand in one place: the database of one Redis, or one cluster, under one prefix. The keyspace is the
-- database and the prefix; null is that of an earlier version of the program.
ALTER TABLE limiter_server ADD COLUMN keyspace text;
-- Null until the member has registered a server.
ALTER TABLE member ADD COLUMN keyspace text;

-- Registers a server for a member. A member that registers its first one, and finds neither a server of its own place on record
-- nor the one that is registered under another name, has come to another place: while another member counts there, it is
-- answered that one as `elsewhere`, and no number; else the record forgets the servers of the former place, whose values lack
-- from now on what is sent, so that whoever comes back there finds all of them unknown. `masters` are the nodes of its own place.
CREATE FUNCTION register_server_in(my bigint, of_keyspace text, masters text[], of_node text, run text, replication text)
RETURNS TABLE (number bigint, is_settled boolean, elsewhere text) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(keeper_class(), 0);
  IF EXISTS (SELECT FROM member m WHERE m.id = my AND m.keyspace IS NULL) AND EXISTS (SELECT FROM limiter_server)
    AND NOT EXISTS (SELECT FROM limiter_server s WHERE coalesce(s.keyspace, of_keyspace) = of_keyspace
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
