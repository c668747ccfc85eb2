-- One life of a server has one number, under whatever names processes ask it: with a number for each name every process would
-- find unknown what the others have counted.

-- As it was, and follows the names of a server. Where a name leads to another life than before, the other names that led there
-- have to be registered again: they may lead elsewhere by now, and who asks by them hears of it.
CREATE OR REPLACE FUNCTION register_server(of_node text, run text, replication text)
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
