-- Deliveries and complaints by tenant and category since the beginning, which the complaint guard of several processes
-- reads. Only the growth of a total means anything: a total is the sum over its slots. A process writes in one slot, so
-- that processes hardly ever wait for each other, and rows are bounded; feedback writes in slot 64.
CREATE TABLE delivery_total (
  category   text COLLATE "C",
  tenant     text COLLATE "C",
  slot       smallint,
  delivered  bigint NOT NULL,
  complained bigint NOT NULL,
  PRIMARY KEY (category, tenant, slot)
) WITH (fillfactor = 50);

-- As commit_group, or commit_logged where the group has a log, and counts what was delivered by what was applied.
CREATE FUNCTION commit_and_count(my bigint, my_epoch int, claimed bigint, g json) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE found conflict[] := CASE WHEN g->'log' IS NULL THEN commit_group(my, my_epoch, claimed, g)
  ELSE commit_logged(my, my_epoch, claimed, g) END;
BEGIN
  IF g->'delivered' IS NOT NULL THEN
    INSERT INTO delivery_total AS t (category, tenant, slot, delivered, complained)
      SELECT category, tenant, my & 63, sum(count), 0
        FROM json_to_recordset(g->'delivered') AS x(c int, tenant text, category text, count bigint)
        WHERE c NOT IN (SELECT f.c FROM unnest(found) f)
        GROUP BY category, tenant ORDER BY category, tenant
      ON CONFLICT (category, tenant, slot) DO UPDATE SET delivered = t.delivered + excluded.delivered;
  END IF;
  RETURN found;
END $$;
