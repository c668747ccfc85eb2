-- Functions in SQL are parsed and planned by each statement that calls them: these are in PL/pgSQL, whose plans are kept
-- for the session.

CREATE OR REPLACE FUNCTION add_deltas(my bigint, deltas delta[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tally (tenant, member, kind, count, bytes)
    SELECT d.tenant, my, d.kind, sum(d.count), sum(d.bytes) FROM unnest(deltas) d GROUP BY d.tenant, d.kind
    HAVING sum(d.count) <> 0 OR sum(d.bytes) <> 0 ORDER BY d.tenant, d.kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes;
END $$;

-- The moves whose version is on record, locked in the order of their ids. What another member may be sending is its own.
CREATE OR REPLACE FUNCTION lock_moved(my bigint, moves json) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE matched text[];
BEGIN
  SELECT array_agg(l.id) INTO matched FROM (SELECT * FROM json_to_recordset(moves) AS x(id text, b_status smallint,
      b_rev int, b_due_at bigint, b_attempts int) ORDER BY id OFFSET 0) m
    CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.b_status AND l.rev = m.b_rev
      AND l.due_at = m.b_due_at AND l.attempts = m.b_attempts AND (l.begun_at IS NULL OR l.owner + 0 = my) FOR UPDATE) l;
  RETURN matched;
END $$;
