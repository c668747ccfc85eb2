-- Limits that one process keeps in its memory while their server answers none of them (`share` of the policy): who keeps
-- them, and who has pledged to ask no server.

-- A process that has pledged asks no server of limits before it has registered one again, which ends the pledge.
ALTER TABLE member ADD COLUMN asks_no_server boolean NOT NULL DEFAULT false;
-- One row at most. It counts as long as its member lives.
CREATE TABLE limits_keeper (is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only), member bigint NOT NULL, number bigint NOT NULL);

CREATE FUNCTION keeper_class() RETURNS int LANGUAGE sql STABLE AS $$ SELECT hashtext('sluice keeper ' || current_schema()) $$;

CREATE FUNCTION living_keeper() RETURNS SETOF limits_keeper LANGUAGE sql STABLE AS $$
  SELECT k.* FROM limits_keeper k JOIN member m ON m.id = k.member WHERE m.state IN (1, 2)
$$;

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
    INSERT INTO limits_keeper AS k (member, number) VALUES (my, nextval('limiter_registration'))
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
