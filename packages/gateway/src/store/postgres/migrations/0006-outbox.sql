-- Changes of state that the delivery log has not got yet: a row a group, written only where a log is configured. The
-- numbers are not in the order of the commits, so rows are removed by number and not up to one.
CREATE TABLE outbox (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  entries bigint NOT NULL,
  body    text NOT NULL                       -- JSON: a list of records
);

-- As commit_group, and keeps the changes of state of what was applied.
CREATE FUNCTION commit_logged(my bigint, my_epoch int, claimed bigint, g json) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE found conflict[] := commit_group(my, my_epoch, claimed, g);
BEGIN
  INSERT INTO outbox (entries, body)
    SELECT sum(entries), '[' || string_agg(body, ',' ORDER BY c) || ']'
    FROM json_to_recordset(g->'log') AS x(c int, entries int, body text)
    WHERE c <> ALL (SELECT f.c FROM unnest(found) f) HAVING count(*) > 0;
  RETURN found;
END $$;
