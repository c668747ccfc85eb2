-- Several processes over one record: beats by which they know each other alive, chores that one does for all, and what
-- becomes of a process that is dead.

-- A row a process. The id is 63 random bits and is never used twice; `epoch` numbers the process's writing connections,
-- so that a statement of a lost connection is refused if it arrives late. state: 1 alive, 2 leaving, 3 dead, 4 settled.
-- `ahead_ms` is how far the clock of this server is ahead of the member's own time, `ahead_error_ms` how wrong that may be, and
-- `told` how often the member has told it: a member whose machine stood still finds that it has fallen behind the others.
-- One that asks no server of limits (`asks_no_server`) has pledged so until it has registered one again.
CREATE TABLE member (
  id         bigint PRIMARY KEY,
  name       text NOT NULL,
  version    text NOT NULL,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  beat       bigint NOT NULL DEFAULT 0,
  epoch       int NOT NULL DEFAULT 0,
  state      smallint NOT NULL DEFAULT 1,
  asks_no_server boolean NOT NULL DEFAULT false,
  channels   text[],                          -- for which it has a pool; it leaves to the others what it does not serve itself
  ahead_ms   double precision,
  ahead_error_ms double precision,
  told       integer NOT NULL DEFAULT 0,
  keyspace   text,                            -- null until it has registered a server
  policies   text[] NOT NULL DEFAULT '{}',    -- versions as of its last beat: of the policy in force, and of one that comes into force
  templates  text[]                           -- it can render these, as <template>/<channel>; null: it may have any
) WITH (fillfactor = 50);

-- Policies that a member has left, because it has ended or has another one since, with a number that each departure changes.
-- A member with another policy may have sent what this one does not count: whose limits differ reads the record again.
CREATE SEQUENCE departure;
CREATE TABLE departed_policy (policy text PRIMARY KEY, number bigint NOT NULL);

-- Policies that were left so many departures ago are forgotten with one that changes the marks anyway.
CREATE FUNCTION note_departure() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE newest bigint := nextval('departure');
BEGIN
  INSERT INTO departed_policy SELECT DISTINCT left_one, newest FROM unnest(OLD.policies) left_one
    WHERE NEW.state IN (3, 4) OR left_one <> ALL (NEW.policies)
    ORDER BY left_one ON CONFLICT (policy) DO UPDATE SET number = excluded.number;
  DELETE FROM departed_policy WHERE number <= newest - 1000;
  RETURN NULL;
END $$;

-- At the end of the transaction: members that end together would wait for each other's row while each frees what it held.
CREATE CONSTRAINT TRIGGER note_departure AFTER UPDATE OF state, policies ON member DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (OLD.policies <> '{}' AND OLD.state IN (1, 2) AND (NEW.state IN (3, 4) OR NOT NEW.policies @> OLD.policies))
  EXECUTE FUNCTION note_departure();

-- A chore is its holder's as long as that member is alive.
CREATE TABLE role (name text PRIMARY KEY, holder bigint NOT NULL);

-- Beats for a member, gives it the wanted chores that no living member has, and answers the other members as they are,
-- with the channels that each serves, and a mark that each departure from another policy changes. No clock of the server
-- decides who lives: a looker counts how often it has seen the same beat.
CREATE FUNCTION beat(my bigint, wanted text[], my_policies text[]) RETURNS json LANGUAGE plpgsql SET jit = off AS $$
DECLARE living boolean; free text[];
BEGIN
  free := ARRAY(SELECT n FROM unnest(wanted) n WHERE NOT EXISTS
    (SELECT FROM role r JOIN member m ON m.id = r.holder WHERE r.name = n AND m.state = 1) ORDER BY n);
  -- A beat that a crash of the server loses is as good as one that came late, unless it tells of a policy before it is in force.
  IF cardinality(free) = 0 AND cardinality(my_policies) = 1 THEN PERFORM set_config('synchronous_commit', 'off', true); END IF;
  UPDATE member SET beat = beat + 1, policies = my_policies WHERE id = my AND state = 1;
  living := FOUND;
  IF living AND cardinality(free) > 0 THEN
    INSERT INTO role AS r (name, holder) SELECT n, my FROM unnest(free) n
      ON CONFLICT (name) DO UPDATE SET holder = my
      WHERE NOT EXISTS (SELECT FROM member m WHERE m.id = r.holder AND m.state = 1);
  END IF;
  RETURN json_build_object('living', living,
    'roles', (SELECT coalesce(json_agg(name), '[]') FROM role WHERE holder = my),
    'members', (SELECT coalesce(json_agg(json_build_object('id', id::text, 'beat', beat, 'state', state,
      'channels', channels)), '[]')
      FROM member WHERE id <> my AND state <> 4),
    'policiesLeft', (SELECT coalesce(sum(hashtextextended(policy, number))::text, '') FROM departed_policy
      WHERE policy <> my_policies[1]));
END $$;

-- A process that stops keeps what it holds until it closes its store, and does no chore any more.
CREATE FUNCTION leave(my bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE member SET state = 2 WHERE id = my AND state = 1
$$;

-- Declares a member dead. The exclusive lock waits for the last statement that it has under way; what comes later is
-- refused.
CREATE FUNCTION declare_dead(gone bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(lock_class(), hashtext(gone::text));
  UPDATE member SET state = 3 WHERE id = gone AND state <> 4;
END $$;

-- Declares a member dead that has not beaten since; false where it has. The exclusive lock waits for the last statement
-- that it has under way; what comes later is refused.
CREATE FUNCTION declare_silent_dead(gone bigint, seen bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(lock_class(), hashtext(gone::text));
  UPDATE member SET state = 3 WHERE id = gone AND beat = seen AND state IN (1, 2);
  RETURN FOUND;
END $$;

-- Adds the counts of a member that holds nothing to those of nobody, and ends it.
CREATE FUNCTION fold_member(gone bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tally (tenant, member, kind, count, bytes)
    SELECT tenant, 0, kind, count, bytes FROM tally WHERE member = gone ORDER BY tenant, kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes;
  DELETE FROM tally WHERE member = gone;
  UPDATE member SET state = 4 WHERE id = gone;
END $$;

-- Folds the counts of a dead member once nothing on record is held by it; false while something is.
CREATE FUNCTION settle_dead(gone bigint) RETURNS boolean LANGUAGE plpgsql SET jit = off SET enable_seqscan = off AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(lock_class(), hashtext(gone::text));
  IF NOT EXISTS (SELECT FROM member WHERE id = gone AND state = 3)
    OR EXISTS (SELECT FROM live WHERE owner > 0 AND owner + 0 = gone) THEN RETURN false; END IF;
  PERFORM fold_member(gone);
  RETURN true;
END $$;

-- Frees the rows of a member that is dead or ends, and folds its counts. What it had begun may have been sent: that
-- instant counts (suspects).
CREATE FUNCTION settle_member(gone bigint, at bigint) RETURNS void LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
BEGIN
  PERFORM declare_dead(gone);
  UPDATE live SET owner = NULL, begun_at = NULL,
    suspects = CASE WHEN begun_at IS NULL THEN suspects ELSE array_append(suspects, at) END
    WHERE owner > 0 AND owner + 0 = gone;
  PERFORM fold_member(gone);
END $$;

-- Notes how far the clock of this server is ahead of a member, and answers what the other living members have told last.
CREATE FUNCTION tell_clock(my bigint, ahead double precision, error double precision) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
  -- A telling that a crash of the server loses comes again with the next beat.
  PERFORM set_config('synchronous_commit', 'off', true);
  UPDATE member SET ahead_ms = ahead, ahead_error_ms = error, told = told + 1 WHERE id = my AND state = 1;
  RETURN (SELECT coalesce(json_agg(json_build_object('id', id::text, 'aheadMs', ahead_ms, 'errorMs', ahead_error_ms,
    'told', told)), '[]') FROM member WHERE id <> my AND state = 1 AND ahead_ms IS NOT NULL);
END $$;
