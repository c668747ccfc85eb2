-- Numbers under which servers of limits are registered begin at a random one, and each is greater by a random step than the
-- one before. A sequence gives the same numbers again in a schema that was made anew, and behind a backup that was restored:
-- what a server holds of before would count as known.

DROP SEQUENCE limiter_registration;
-- One row at most. It is written under the lock of the keeper, as the registrations are.
CREATE TABLE limiter_number (is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only), newest bigint NOT NULL);

CREATE FUNCTION next_limiter_number() RETURNS bigint LANGUAGE sql AS $$
  INSERT INTO limiter_number AS n (newest) VALUES (floor(random() * 2 ^ 52)::bigint)
    ON CONFLICT (is_only) DO UPDATE SET newest = n.newest + 1 + floor(random() * 2 ^ 24)::bigint RETURNING newest
$$;

-- All servers are unknown until they are registered again: a value in one of them has a generation that the record has not
-- given, so this record is an older one than that from which the values were filled. A number that nobody has settled has no
-- values, and stays.
CREATE FUNCTION renumber_servers() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(keeper_class(), 0);
  UPDATE limiter_server SET run_id = 'renumbered', replication_id = '', number = next_limiter_number(), is_settled = false
    WHERE is_settled;
END $$;

-- Both functions are as they were, and take their numbers from there.
CREATE OR REPLACE FUNCTION register_server(of_node text, run text, replication text)
RETURNS TABLE (number bigint, is_settled boolean) LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM limiter_server s WHERE (s.node, s.run_id, s.replication_id) = (of_node, run, replication)) THEN
    INSERT INTO limiter_server AS s (node, run_id, replication_id, number)
      VALUES (of_node, run, replication, next_limiter_number())
      ON CONFLICT (node) DO UPDATE SET run_id = run, replication_id = replication, number = excluded.number, is_settled = false;
  END IF;
  RETURN QUERY SELECT s.number, s.is_settled FROM limiter_server s WHERE s.node = of_node;
END $$;

CREATE OR REPLACE FUNCTION stand_in(my bigint) RETURNS json LANGUAGE plpgsql AS $$
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
