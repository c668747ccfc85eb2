-- How far the clock of this server is ahead of each member's own time, ms, how wrong that may be, and how often the member has
-- told it. A member whose machine stood still finds that it has fallen behind the others.
ALTER TABLE member ADD COLUMN ahead_ms double precision, ADD COLUMN ahead_error_ms double precision,
  ADD COLUMN told integer NOT NULL DEFAULT 0;

-- Tells it for a member, and answers what the other living members have told last.
CREATE FUNCTION tell_clock(my bigint, ahead double precision, error double precision) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
  -- A telling that a crash of the server loses comes again with the next beat.
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE member SET ahead_ms = ahead, ahead_error_ms = error, told = told + 1 WHERE id = my AND state = 1;
  RETURN (SELECT coalesce(json_agg(json_build_object('id', id::text, 'aheadMs', ahead_ms, 'errorMs', ahead_error_ms,
    'told', told)), '[]') FROM member WHERE id <> my AND state = 1 AND ahead_ms IS NOT NULL);
END $$;
