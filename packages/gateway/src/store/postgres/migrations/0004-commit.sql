-- The write of a process: a group of changes is one call in one transaction. The settings stand with the functions: the
-- planner knows nothing of the lists that they get, and may go by primary keys only; compiling (JIT) would cost 150 ms a call.
-- The statements go from each name to its row. A join is planned once for a session: made while a table was nearly empty, it
-- reads all of the table for each name from then on.

-- A record that has changed since a change was computed; `c` is the place of the change in its group.
CREATE TYPE conflict AS (c int, kind text, key text);
CREATE TYPE delta AS (tenant text, kind smallint, count bigint, bytes bigint);

CREATE FUNCTION lock_class() RETURNS int LANGUAGE sql STABLE AS $$ SELECT hashtext('sluice member ' || current_schema()) $$;

-- The lock that the beginning of an erasure has alone, and that changes share which were reported of the recipient: where
-- nothing is stored of a recipient there is no row that both could lock.
CREATE FUNCTION erasure_lock(tenant text, recipient text) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT hashtextextended(concat_ws(E'\n', 'sluice erasure', current_schema(), tenant, recipient), 0)
$$;

-- A living member's newest connection may write, and nothing else: a statement of a lost connection, and a member that
-- was declared dead, are refused for good once the exclusive lock was had.
CREATE FUNCTION check_epoch(my bigint, my_epoch int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(lock_class(), hashtext(my::text));
  IF NOT EXISTS (SELECT FROM member WHERE id = my AND epoch = my_epoch AND state IN (1, 2)) THEN
    RAISE EXCEPTION 'this connection may not write any more' USING ERRCODE = 'SL001';
  END IF;
END $$;

-- Begins a writing connection: waits for what the one before it has under way, and refuses the rest of it.
CREATE FUNCTION open_epoch(my bigint) RETURNS int LANGUAGE plpgsql AS $$
DECLARE opened int;
BEGIN
  PERFORM pg_advisory_xact_lock(lock_class(), hashtext(my::text));
  UPDATE member SET epoch = epoch + 1 WHERE id = my AND state IN (1, 2) RETURNING epoch INTO opened;
  IF opened IS NULL THEN RAISE EXCEPTION 'this member is dead' USING ERRCODE = 'SL001'; END IF;
  RETURN opened;
END $$;

-- The functions of a small group are PL/pgSQL: a session keeps their plans, where functions in SQL are planned by each
-- statement that calls them.
CREATE FUNCTION add_deltas(my bigint, deltas delta[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO tally (tenant, member, kind, count, bytes)
    SELECT d.tenant, my, d.kind, sum(d.count), sum(d.bytes) FROM unnest(deltas) d GROUP BY d.tenant, d.kind
    HAVING sum(d.count) <> 0 OR sum(d.bytes) <> 0 ORDER BY d.tenant, d.kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes;
END $$;

-- Recipients that jobs have yet to accept count in the queue of their tenant, under the member that wrote the job:
-- kind 100.
CREATE FUNCTION job_deltas(jobs json, bad int[]) RETURNS delta[] LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(ROW(tenant, 100, pending, pending_bytes)::delta), '{}')
    FROM json_to_recordset(jobs) AS x(c int, tenant text, pending bigint, pending_bytes bigint)
    WHERE c <> ALL(bad) AND pending IS NOT NULL
$$;

-- Digests are written one by one: a change may close one and open the next of the same group.
CREATE FUNCTION digest_conflicts(g json) RETURNS conflict[] LANGUAGE plpgsql AS $$
DECLARE
  found conflict[] := '{}'; w record; last_c int := -1; last_group text := ''; collecting text;
BEGIN
  PERFORM FROM digest WHERE id IN (SELECT id FROM json_to_recordset(g) AS x(id text)) ORDER BY id FOR UPDATE;
  FOR w IN SELECT * FROM json_to_recordset(g) AS x(c int, kind text, id text, tenant text, recipient text,
      channel text, category text, name text) LOOP
    IF w.c <> last_c OR last_group <> concat_ws(E'\n', w.tenant, w.recipient, w.channel, w.category, w.name) THEN
      SELECT d.id INTO collecting FROM digest d WHERE d.tenant = w.tenant AND d.recipient = w.recipient
        AND d.channel = w.channel AND d.category = w.category AND d.name = w.name FOR UPDATE;
      last_c := w.c;
      last_group := concat_ws(E'\n', w.tenant, w.recipient, w.channel, w.category, w.name);
    END IF;
    -- A closed digest may have become a notification, and is not opened again.
    IF NOT (w.kind = 'open' AND collecting IS NULL AND NOT EXISTS (SELECT FROM notification n WHERE n.id = w.id))
      AND collecting IS DISTINCT FROM w.id THEN
      found := found || ROW(w.c, 'digest', w.id)::conflict;
    END IF;
    collecting := CASE WHEN w.kind = 'close' THEN NULL ELSE w.id END;
  END LOOP;
  RETURN found;
END $$;

-- A digest is closed or postponed only while it collects `left` items once the change is written.
CREATE FUNCTION left_conflicts(g json, bad int[]) RETURNS conflict[] LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(ROW(w.c, 'digest', w.id)::conflict), '{}')
  FROM json_to_recordset(g->'digests') AS w(c int, id text, "left" int)
  WHERE w.left IS NOT NULL AND w.c <> ALL(bad) AND w.left <>
    (SELECT count(*) FROM live l WHERE l.digest = w.id
      AND l.id NOT IN (SELECT id FROM json_to_recordset(g->'moves') AS m(c int, id text) WHERE m.c = w.c))
    + (SELECT count(*) FROM json_to_recordset(g->'moves') AS m(c int, digest text) WHERE m.c = w.c AND m.digest = w.id)
    + (SELECT count(*) FROM json_to_recordset(g->'accept') AS a(c int, digest text) WHERE a.c = w.c AND a.digest = w.id)
$$;

CREATE FUNCTION write_digests(g json, bad int[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE w record;
BEGIN
  FOR w IN SELECT * FROM json_to_recordset(g) AS x(c int, kind text, id text, tenant text, recipient text,
      channel text, category text, name text, opened_at bigint, closes_at bigint, held_as json) WHERE c <> ALL(bad) LOOP
    IF w.kind = 'close' THEN
      DELETE FROM digest WHERE id = w.id;
    ELSIF w.kind = 'postpone' THEN
      UPDATE digest SET closes_at = w.closes_at, held_as = w.held_as WHERE id = w.id;
    ELSE
      INSERT INTO digest (id, tenant, recipient, channel, category, name, opened_at, closes_at, held_as)
        VALUES (w.id, w.tenant, w.recipient, w.channel, w.category, w.name, w.opened_at, w.closes_at, w.held_as)
        ON CONFLICT (id) DO UPDATE SET closes_at = least(digest.closes_at, excluded.closes_at);
    END IF;
  END LOOP;
END $$;

-- Writes the rare parts of a group. Contents stand in `texts`: one has some megabytes, and would be read as often as its list.
CREATE FUNCTION write_rest(recipients json, answers json, jobs json, accounts json, holds json, contents json, bad int[],
  texts text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF recipients IS NOT NULL THEN
    -- One that must be new violates the key where another process was faster, and the group is tried again.
    INSERT INTO recipient (tenant, id, version, body)
      SELECT tenant, id, nextval('recipient_version'), body
      FROM json_to_recordset(recipients) AS x(c int, tenant text, id text, version bigint, body json)
      WHERE c <> ALL(bad) AND version = 0 ORDER BY tenant, id;
    INSERT INTO recipient (tenant, id, version, body)
      SELECT tenant, id, nextval('recipient_version'), body
      FROM json_to_recordset(recipients) AS x(c int, tenant text, id text, version bigint, body json)
      WHERE c <> ALL(bad) AND version IS DISTINCT FROM 0 ORDER BY tenant, id
      ON CONFLICT (tenant, id) DO UPDATE SET version = excluded.version, body = excluded.body;
  END IF;
  IF answers IS NOT NULL THEN
    INSERT INTO answer (tenant, module, method, path, key, hash, status, body, created_at)
      SELECT tenant, module, method, path, key, hash, status, body, created_at
      FROM json_to_recordset(answers) AS x(c int, tenant text, module text, method text, path text, key text,
        hash text, status int, body text, created_at bigint)
      WHERE c <> ALL(bad) ORDER BY tenant, module, method, path, key;
  END IF;
  IF jobs IS NOT NULL THEN
    INSERT INTO job (id, tenant, created_at, status, taken, shared, body)
      SELECT id, tenant, created_at, status, taken, shared, body FROM json_to_recordset(jobs) AS x(c int, id text,
        tenant text, created_at bigint, status text, taken int, shared text, body json)
      WHERE c <> ALL(bad) ORDER BY id
      ON CONFLICT (id) DO UPDATE SET status = excluded.status, taken = excluded.taken, body = excluded.body;
    INSERT INTO job_work (id, body)
      SELECT id, work FROM json_to_recordset(jobs) AS x(c int, id text, status text, work json)
      WHERE c <> ALL(bad) AND status = 'running' AND work IS NOT NULL;
    DELETE FROM job_work WHERE id IN (SELECT id FROM json_to_recordset(jobs) AS x(c int, id text, status text)
      WHERE c <> ALL(bad) AND status <> 'running');
  END IF;
  IF accounts IS NOT NULL THEN
    INSERT INTO account (channel, provider, account, body)
      SELECT channel, provider, account, body FROM json_to_recordset(accounts) AS x(c int, channel text,
        provider text, account text, body json) WHERE c <> ALL(bad) AND body IS NOT NULL
      ON CONFLICT (channel, provider, account) DO UPDATE SET body = excluded.body;
    DELETE FROM account a USING json_to_recordset(accounts) AS x(c int, channel text, provider text, account text,
        body json)
      WHERE c <> ALL(bad) AND x.body IS NULL
        AND (a.channel, a.provider, a.account) = (x.channel, x.provider, x.account);
  END IF;
  IF holds IS NOT NULL THEN
    INSERT INTO hold (name, body)
      SELECT name, body FROM json_to_recordset(holds) AS x(c int, name text, body json)
      WHERE c <> ALL(bad) AND body IS NOT NULL
      ON CONFLICT (name) DO UPDATE SET body = excluded.body;
    -- With `until` it ends only where it is the hold that ends then: another process may have put a newer one in force.
    DELETE FROM hold h USING json_to_recordset(holds) AS x(c int, name text, until numeric, body json)
      WHERE c <> ALL(bad) AND x.body IS NULL AND h.name = x.name
        AND (x.until IS NULL OR (h.body->>'until')::numeric = x.until);
  END IF;
  IF contents IS NOT NULL THEN
    INSERT INTO content (id, tenant, bytes, body, has_text)
      SELECT id, tenant, bytes, texts[t]::json, has_text
      FROM json_to_recordset(contents) AS x(c int, id text, tenant text, bytes bigint, has_text boolean, t int)
      WHERE c <> ALL(bad);
  END IF;
END $$;

-- The moves whose version is on record, locked in the order of their ids. What another member may be sending is its own.
CREATE FUNCTION lock_moved(my bigint, moves json) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE matched text[];
BEGIN
  SELECT array_agg(l.id) INTO matched FROM (SELECT * FROM json_to_recordset(moves) AS x(id text, b_status smallint,
      b_rev int, b_due_at bigint, b_attempts int) ORDER BY id OFFSET 0) m
    CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.b_status AND l.rev = m.b_rev
      AND l.due_at = m.b_due_at AND l.attempts = m.b_attempts AND (l.begun_at IS NULL OR l.owner + 0 = my) FOR UPDATE) l;
  RETURN matched;
END $$;

-- The JSON values of a group that are only kept (body, first, state) come beside its rows, one a line of `texts`; `t` of a
-- row is the number of its first line. Within the JSON of the group each of them was read four times; so it is read once,
-- when it becomes JSON. A notification that ends with the decision that it had before is written without it.
CREATE FUNCTION write_accepted(my bigint, claimed bigint, accept json, bad int[], texts text[]) RETURNS delta[] LANGUAGE plpgsql AS $$
DECLARE deltas delta[];
BEGIN
  WITH a AS MATERIALIZED (
    SELECT nextval('acceptance') AS seq, x.* FROM json_to_recordset(accept) AS x(c int, id text, tenant text,
      recipient text, category text, job text, shared text, created_at bigint, channel text,
      priority text, bytes bigint, status smallint, kind smallint, rev int, due_at bigint, attempts int, fired_at bigint,
      turned_at bigint, suspects bigint[], digest text, cause text, at bigint, waits text, policy text, t int)
    WHERE c <> ALL(bad)
  ), n AS (
    INSERT INTO notification (id, seq, tenant, recipient, category, job, shared, created_at, body, first)
      SELECT id, seq, tenant, recipient, category, job, shared, created_at, texts[t]::json, texts[t + 1]::json
      FROM a
  ), l AS (
    INSERT INTO live (id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts,
        fired_at, turned_at, suspects, digest, cause, waits, policy, owner, writer)
      SELECT id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts,
        fired_at, turned_at, suspects, digest, cause, waits, policy,
        CASE WHEN status = 2 THEN -1 WHEN due_at <= claimed THEN my END, my
      FROM a WHERE status <= 5
  ), o AS (
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, writer)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, my FROM a WHERE status > 5
  )
  SELECT array_agg(ROW(tenant, kind, 1, CASE WHEN status <= 5 THEN bytes ELSE 0 END)::delta) INTO deltas FROM a;
  RETURN deltas;
END $$;

-- Writes the rows that were read, by their place: all of them are locked (lock_moved), so that none has moved since. By their
-- ids they would be looked for once more; and where `live` was nearly empty when that was planned, all of it is read for each
-- group, and each of its rows is compared with each of the group.
CREATE FUNCTION write_moved(my bigint, claimed bigint, moves json, bad int[], texts text[]) RETURNS delta[] LANGUAGE plpgsql AS $$
DECLARE deltas delta[];
BEGIN
  WITH m AS MATERIALIZED (
    SELECT x.*, texts[t]::json AS state FROM json_to_recordset(moves) AS x(c int, id text, channel text,
      status smallint, kind smallint, rev int, due_at bigint, attempts int, fired_at bigint, turned_at bigint,
      suspects bigint[], digest text, cause text, at bigint, waits text, policy text, t int)
    WHERE c <> ALL(bad)
  ), old AS MATERIALIZED (
    SELECT m.*, l.place, l.tenant, l.old_kind, l.bytes, l.old_due_at, l.owner, l.old_state FROM m CROSS JOIN LATERAL (
      SELECT live.ctid AS place, tenant, live.kind AS old_kind, bytes, live.due_at AS old_due_at, owner, live.state AS old_state
        FROM live WHERE live.id = m.id OFFSET 0) l -- Kept apart: joined, it may be read whole, once for each group.
  ), gone AS (
    DELETE FROM live USING (SELECT place FROM old WHERE status > 5) e WHERE live.ctid = e.place
  ), ended AS (
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, state, writer)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects,
        -- `whole` adds the decision of the acceptance; one that a move has written since is added here.
        CASE WHEN old_state IS NULL OR state->'decision' IS NOT NULL THEN state
          ELSE ('{"decision":' || (old_state->'decision')::text || ',' || substr(state::text, 2))::json END, my
      FROM old WHERE status > 5
  ), stays AS (
    UPDATE live SET channel = s.channel, status = s.status, kind = s.kind, rev = s.rev, due_at = s.due_at,
      attempts = s.attempts, fired_at = s.fired_at, turned_at = s.turned_at, suspects = s.suspects, digest = s.digest,
      cause = s.cause, waits = s.waits, policy = s.policy, begun_at = NULL, state = s.state, writer = my,
      -- A free row that keeps its instant stays free; else the writer holds what is due by `claimed`, and nothing later.
      owner = CASE WHEN s.status = 2 THEN -1
        WHEN s.old_due_at = s.due_at AND s.owner IS NULL THEN NULL
        WHEN s.due_at <= claimed THEN my END
    FROM (SELECT * FROM old WHERE status <= 5) s WHERE live.ctid = s.place
  )
  SELECT array_agg(d) INTO deltas FROM old CROSS JOIN LATERAL (VALUES
    (ROW(tenant, old_kind, -1, -bytes)::delta),
    (ROW(tenant, kind, 1, CASE WHEN status <= 5 THEN bytes ELSE 0 END)::delta)) v(d);
  RETURN deltas;
END $$;

-- Applies a group of changes, each whole or not at all, and answers the conflicts of those that were not applied. The
-- changes of a group touch different records (group.ts): what is compared and then written is the same for all of them.
-- The JSON of a group is read in one pass: each `->` reads all of it, and each list of rows that is asked for its ids alone
-- is read whole. So `ids` and `versions` name the records that are compared; where they are absent, the rows themselves do.
-- What a group does not have costs no statement.
-- A recipient that nobody has saved may have opt-outs that an erasure has left under the pseudonym: a write of the recipient
-- is compared with them, too, or it would hide those that its writer has not read. A step of a batch is compared with the
-- erasures that have renamed one of its recipients, too: a process that has read the batch before would accept a message to
-- somebody who is erased. What was reported of a notification changes its recipient only while that stands under the
-- recipient's name, and no erasure is under way: behind it the address of the report would be on record again.
CREATE FUNCTION commit_parts(my bigint, my_epoch int, claimed bigint, accept json, ids json, moves json, versions json,
  digests json, rest json, generations json, texts text[]) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  found conflict[] := '{}'; bad int[] := '{}'; matched text[]; deltas delta[] := '{}';
  recipients json; decided json; reported json; jobs json; contents json; answers json; accounts json; holds json;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  IF generations IS NOT NULL THEN found := generation_conflicts(generations); END IF;
  IF accept IS NOT NULL THEN
    SELECT found || coalesce(array_agg(ROW(a.c, 'notification', a.id)::conflict), '{}') INTO found
      FROM json_to_recordset(ids) AS a(c int, id text)
      WHERE (SELECT n.seq FROM notification n WHERE n.id = a.id) IS NOT NULL;
  END IF;
  IF moves IS NOT NULL THEN
    matched := lock_moved(my, versions);
    IF coalesce(cardinality(matched), 0) < json_array_length(versions) THEN
      SELECT found || array_agg(ROW(m.c, 'notification', m.id)::conflict) INTO found
        FROM json_to_recordset(moves) AS m(c int, id text) WHERE m.id <> ALL(coalesce(matched, '{}'));
    END IF;
  END IF;
  IF digests IS NOT NULL THEN found := found || digest_conflicts(digests); END IF;
  IF rest IS NOT NULL THEN
    SELECT x.recipients, x.decided, x.reported, x.jobs, x.contents, x.answers, x.accounts, x.holds
      INTO recipients, decided, reported, jobs, contents, answers, accounts, holds
      FROM json_to_record(rest) AS x(recipients json, decided json, reported json, jobs json, contents json, answers json,
        accounts json, holds json);
    IF jobs IS NOT NULL THEN
      PERFORM FROM job WHERE id IN (SELECT id FROM json_to_recordset(jobs) AS x(id text)) ORDER BY id FOR UPDATE;
      SELECT found || coalesce(array_agg(ROW(x.c, 'job', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(jobs) AS x(c int, id text, b_status text, b_taken int, b_renamed int)
        LEFT JOIN job j ON j.id = x.id
        WHERE (j.status, j.taken) IS DISTINCT FROM (x.b_status, x.b_taken)
          OR x.b_renamed <> coalesce((j.body->>'renamed')::int, 0);
    END IF;
    IF reported IS NOT NULL THEN
      PERFORM pg_advisory_xact_lock_shared(erasure_lock(x.tenant, x.recipient))
        FROM json_to_recordset(reported) AS x(tenant text, recipient text);
      SELECT found || coalesce(array_agg(ROW(x.c, 'erased', x.recipient)::conflict), '{}') INTO found
        FROM json_to_recordset(reported) AS x(c int, id text, tenant text, recipient text)
        WHERE NOT EXISTS (SELECT FROM notification n WHERE n.id = x.id AND n.tenant = x.tenant AND n.recipient = x.recipient)
          OR EXISTS (SELECT FROM erasure e WHERE e.tenant = x.tenant AND e.recipient = x.recipient);
    END IF;
    IF recipients IS NOT NULL THEN
      PERFORM FROM recipient r JOIN json_to_recordset(recipients) AS x(tenant text, id text, pseudonym text)
        ON r.tenant = x.tenant AND r.id IN (x.id, x.pseudonym) ORDER BY r.tenant, r.id FOR UPDATE OF r;
      SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(recipients) AS x(c int, tenant text, id text, version bigint, pseudonym text)
        WHERE x.version IS NOT NULL AND x.version <> coalesce(
          (SELECT r.version FROM recipient r WHERE r.tenant = x.tenant AND r.id = x.id),
          (SELECT r.version FROM recipient r WHERE r.tenant = x.tenant AND r.id = x.pseudonym), 0);
    END IF;
    IF decided IS NOT NULL THEN
      SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.recipient)::conflict), '{}') INTO found
        FROM json_to_recordset(decided) AS x(c int, tenant text, recipient text, version bigint)
        WHERE x.version IS NOT NULL AND x.version <>
          coalesce((SELECT r.version FROM recipient r WHERE r.tenant = x.tenant AND r.id = x.recipient), 0);
    END IF;
    IF contents IS NOT NULL THEN
      SELECT found || coalesce(array_agg(ROW(x.c, 'content', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(contents) AS x(c int, id text)
        WHERE EXISTS (SELECT FROM content k WHERE k.id = x.id);
    END IF;
    IF answers IS NOT NULL THEN
      SELECT found || coalesce(array_agg(ROW(x.c, 'answer', x.key)::conflict), '{}') INTO found
        FROM json_to_recordset(answers) AS x(c int, tenant text, module text, method text, path text, key text)
        WHERE EXISTS (SELECT FROM answer k WHERE (k.tenant, k.module, k.method, k.path, k.key) =
          (x.tenant, x.module, x.method, x.path, x.key));
    END IF;
  END IF;
  IF cardinality(found) > 0 THEN bad := ARRAY(SELECT DISTINCT f.c FROM unnest(found) f); END IF;
  IF digests IS NOT NULL THEN
    found := found || left_conflicts(json_build_object('digests', digests,
      'moves', coalesce(moves, '[]'), 'accept', coalesce(accept, '[]')), bad);
    bad := ARRAY(SELECT DISTINCT f.c FROM unnest(found) f);
    PERFORM write_digests(digests, bad);
  END IF;
  IF coalesce(recipients, jobs, contents, answers, accounts, holds) IS NOT NULL THEN
    PERFORM write_rest(recipients, answers, jobs, accounts, holds, contents, bad, texts);
  END IF;
  IF accept IS NOT NULL THEN deltas := deltas || write_accepted(my, claimed, accept, bad, texts); END IF;
  IF moves IS NOT NULL THEN deltas := deltas || write_moved(my, claimed, moves, bad, texts); END IF;
  IF jobs IS NOT NULL THEN deltas := deltas || job_deltas(jobs, bad); END IF;
  IF cardinality(deltas) > 0 THEN PERFORM add_deltas(my, deltas); END IF;
  RETURN found;
END $$;

-- Applies a group that has changes alone.
CREATE FUNCTION commit_group(my bigint, my_epoch int, claimed bigint, g json, texts text) RETURNS conflict[] LANGUAGE sql AS $$
  SELECT commit_parts(my, my_epoch, claimed, x.accept, x.ids, x.moves, x.versions, x.digests, x.rest, x.generations,
      string_to_array(texts, E'\n'))
    FROM json_to_record(g) AS x(accept json, ids json, moves json, versions json, digests json, rest json, generations json)
$$;

-- Keeps the changes of state of what was applied.
CREATE FUNCTION keep_log(log json, found conflict[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO outbox (entries, body)
    SELECT sum(entries), '[' || string_agg(body, ',' ORDER BY c) || ']'
    FROM json_to_recordset(log) AS x(c int, entries int, body text)
    WHERE c <> ALL (SELECT f.c FROM unnest(found) f) HAVING count(*) > 0
$$;

-- Does what commit_group does, and keeps the changes of state of what was applied.
CREATE FUNCTION commit_logged(my bigint, my_epoch int, claimed bigint, g json, texts text) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE p record; found conflict[];
BEGIN
  SELECT * INTO p FROM json_to_record(g) AS x(accept json, ids json, moves json, versions json, digests json, rest json,
    generations json, log json);
  found := commit_parts(my, my_epoch, claimed, p.accept, p.ids, p.moves, p.versions, p.digests, p.rest, p.generations,
    string_to_array(texts, E'\n'));
  IF p.log IS NOT NULL THEN PERFORM keep_log(p.log, found); END IF;
  RETURN found;
END $$;

-- Does what commit_logged does, and counts what was delivered by what was applied.
CREATE FUNCTION commit_and_count(my bigint, my_epoch int, claimed bigint, g json, texts text) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE p record; found conflict[];
BEGIN
  SELECT * INTO p FROM json_to_record(g) AS x(accept json, ids json, moves json, versions json, digests json, rest json,
    generations json, log json, delivered json);
  found := commit_parts(my, my_epoch, claimed, p.accept, p.ids, p.moves, p.versions, p.digests, p.rest, p.generations,
    string_to_array(texts, E'\n'));
  IF p.log IS NOT NULL THEN PERFORM keep_log(p.log, found); END IF;
  IF p.delivered IS NOT NULL THEN
    INSERT INTO delivery_total AS t (category, tenant, slot, delivered, complained)
      SELECT category, tenant, my & 63, sum(count), 0
        FROM json_to_recordset(p.delivered) AS x(c int, tenant text, category text, count bigint)
        WHERE c NOT IN (SELECT f.c FROM unnest(found) f)
        GROUP BY category, tenant ORDER BY category, tenant
      ON CONFLICT (category, tenant, slot) DO UPDATE SET delivered = t.delivered + excluded.delivered;
  END IF;
  RETURN found;
END $$;
