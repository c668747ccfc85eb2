-- The writes of a process. Each is one call in one transaction. The settings stand with the functions: the planner
-- knows nothing of the lists that they get, and may go by primary keys only; compiling (JIT) would cost 150 ms a call.

-- A record that has changed since a change was computed; `c` is the place of the change in its group.
CREATE TYPE conflict AS (c int, kind text, key text);
CREATE TYPE delta AS (tenant text, kind smallint, count bigint, bytes bigint);

CREATE FUNCTION lock_class() RETURNS int LANGUAGE sql STABLE AS $$ SELECT hashtext('sluice member ' || current_schema()) $$;

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

CREATE FUNCTION add_deltas(my bigint, deltas delta[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO tally (tenant, member, kind, count, bytes)
    SELECT tenant, my, kind, sum(count), sum(bytes) FROM unnest(deltas) GROUP BY tenant, kind
    HAVING sum(count) <> 0 OR sum(bytes) <> 0 ORDER BY tenant, kind
    ON CONFLICT (tenant, member, kind) DO UPDATE
      SET count = tally.count + excluded.count, bytes = tally.bytes + excluded.bytes
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
      channel text, category text, name text, opened_at bigint, closes_at bigint) WHERE c <> ALL(bad) LOOP
    IF w.kind = 'close' THEN
      DELETE FROM digest WHERE id = w.id;
    ELSIF w.kind = 'postpone' THEN
      UPDATE digest SET closes_at = w.closes_at WHERE id = w.id;
    ELSE
      INSERT INTO digest (id, tenant, recipient, channel, category, name, opened_at, closes_at)
        VALUES (w.id, w.tenant, w.recipient, w.channel, w.category, w.name, w.opened_at, w.closes_at)
        ON CONFLICT (id) DO UPDATE SET closes_at = least(digest.closes_at, excluded.closes_at);
    END IF;
  END LOOP;
END $$;

-- Writes recipients, answers, jobs, contents, accounts and holds: the rare parts of a group.
CREATE FUNCTION write_rest(g json, bad int[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  -- One that must be new violates the key where another process was faster, and the group is tried again.
  INSERT INTO recipient (tenant, id, version, body)
    SELECT tenant, id, nextval('recipient_version'), body
    FROM json_to_recordset(g->'recipients') AS x(c int, tenant text, id text, version bigint, body json)
    WHERE c <> ALL(bad) AND version = 0 ORDER BY tenant, id;
  INSERT INTO recipient (tenant, id, version, body)
    SELECT tenant, id, nextval('recipient_version'), body
    FROM json_to_recordset(g->'recipients') AS x(c int, tenant text, id text, version bigint, body json)
    WHERE c <> ALL(bad) AND version IS DISTINCT FROM 0 ORDER BY tenant, id
    ON CONFLICT (tenant, id) DO UPDATE SET version = excluded.version, body = excluded.body;
  INSERT INTO answer (tenant, module, method, path, key, hash, status, body, created_at)
    SELECT tenant, module, method, path, key, hash, status, body, created_at
    FROM json_to_recordset(g->'answers') AS x(c int, tenant text, module text, method text, path text, key text,
      hash text, status int, body text, created_at bigint)
    WHERE c <> ALL(bad) ORDER BY tenant, module, method, path, key;
  INSERT INTO job (id, tenant, created_at, status, taken, shared, body)
    SELECT id, tenant, created_at, status, taken, shared, body FROM json_to_recordset(g->'jobs') AS x(c int, id text,
      tenant text, created_at bigint, status text, taken int, shared text, body json)
    WHERE c <> ALL(bad) ORDER BY id
    ON CONFLICT (id) DO UPDATE SET status = excluded.status, taken = excluded.taken, body = excluded.body;
  INSERT INTO job_work (id, body)
    SELECT id, work FROM json_to_recordset(g->'jobs') AS x(c int, id text, status text, work json)
    WHERE c <> ALL(bad) AND status = 'running' AND work IS NOT NULL;
  DELETE FROM job_work WHERE id IN (SELECT id FROM json_to_recordset(g->'jobs') AS x(c int, id text, status text)
    WHERE c <> ALL(bad) AND status <> 'running');
  INSERT INTO account (channel, provider, account, body)
    SELECT channel, provider, account, body FROM json_to_recordset(g->'accounts') AS x(c int, channel text,
      provider text, account text, body json) WHERE c <> ALL(bad) AND body IS NOT NULL
    ON CONFLICT (channel, provider, account) DO UPDATE SET body = excluded.body;
  DELETE FROM account a USING json_to_recordset(g->'accounts') AS x(c int, channel text, provider text, account text,
      body json)
    WHERE c <> ALL(bad) AND x.body IS NULL
      AND (a.channel, a.provider, a.account) = (x.channel, x.provider, x.account);
  INSERT INTO hold (name, body)
    SELECT name, body FROM json_to_recordset(g->'holds') AS x(c int, name text, body json)
    WHERE c <> ALL(bad) AND body IS NOT NULL
    ON CONFLICT (name) DO UPDATE SET body = excluded.body;
  DELETE FROM hold WHERE name IN (SELECT name FROM json_to_recordset(g->'holds') AS x(c int, name text, body json)
    WHERE c <> ALL(bad) AND body IS NULL);
  INSERT INTO content (id, tenant, bytes, body)
    SELECT id, tenant, bytes, body FROM json_to_recordset(g->'contents') AS x(c int, id text, tenant text, bytes bigint,
      body json) WHERE c <> ALL(bad);
END $$;

CREATE FUNCTION write_accepted(my bigint, claimed bigint, accept json, bad int[]) RETURNS delta[] LANGUAGE plpgsql AS $$
DECLARE deltas delta[];
BEGIN
  WITH a AS MATERIALIZED (
    SELECT nextval('acceptance') AS seq, x.* FROM json_to_recordset(accept) AS x(c int, id text, tenant text,
      recipient text, category text, job text, shared text, created_at bigint, body json, first json, channel text,
      priority text, bytes bigint, status smallint, kind smallint, rev int, due_at bigint, attempts int, fired_at bigint,
      turned_at bigint, suspects bigint[], digest text, cause text, at bigint)
    WHERE c <> ALL(bad)
  ), n AS (
    INSERT INTO notification (id, seq, tenant, recipient, category, job, shared, created_at, body, first)
      SELECT id, seq, tenant, recipient, category, job, shared, created_at, body, first FROM a
  ), l AS (
    INSERT INTO live (id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts,
        fired_at, turned_at, suspects, digest, cause, owner)
      SELECT id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts,
        fired_at, turned_at, suspects, digest, cause,
        CASE WHEN status = 2 THEN -1 WHEN due_at <= claimed THEN my END
      FROM a WHERE status <= 5
  ), o AS (
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects FROM a WHERE status > 5
  )
  SELECT array_agg(ROW(tenant, kind, 1, CASE WHEN status <= 5 THEN bytes ELSE 0 END)::delta) INTO deltas FROM a;
  RETURN deltas;
END $$;

-- The moves whose version is on record, locked in the order of their ids. What another member may be sending is its own.
CREATE FUNCTION lock_moved(my bigint, moves json) RETURNS text[] LANGUAGE sql AS $$
  SELECT array_agg(l.id) FROM (SELECT * FROM json_to_recordset(moves) AS x(id text, b_status smallint, b_rev int,
      b_due_at bigint, b_attempts int) ORDER BY id OFFSET 0) m
    CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.b_status AND l.rev = m.b_rev
      AND l.due_at = m.b_due_at AND l.attempts = m.b_attempts AND (l.begun_at IS NULL OR l.owner + 0 = my) FOR UPDATE) l
$$;

CREATE FUNCTION write_moved(my bigint, claimed bigint, moves json, bad int[]) RETURNS delta[] LANGUAGE plpgsql AS $$
DECLARE deltas delta[];
BEGIN
  WITH m AS MATERIALIZED (
    SELECT * FROM json_to_recordset(moves) AS x(c int, id text, channel text, status smallint, kind smallint, rev int,
      due_at bigint, attempts int, fired_at bigint, turned_at bigint, suspects bigint[], digest text, cause text,
      at bigint, state json)
    WHERE c <> ALL(bad)
  ), old AS MATERIALIZED (
    SELECT m.*, l.tenant, l.old_kind, l.bytes, l.old_due_at, l.owner FROM m CROSS JOIN LATERAL (
      SELECT tenant, live.kind AS old_kind, bytes, live.due_at AS old_due_at, owner FROM live WHERE live.id = m.id) l
  ), gone AS (
    DELETE FROM live USING (SELECT id FROM old WHERE status > 5) e WHERE live.id = e.id
  ), ended AS (
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, state)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, state
      FROM old WHERE status > 5
  ), stays AS (
    UPDATE live SET channel = s.channel, status = s.status, kind = s.kind, rev = s.rev, due_at = s.due_at,
      attempts = s.attempts, fired_at = s.fired_at, turned_at = s.turned_at, suspects = s.suspects, digest = s.digest,
      cause = s.cause, begun_at = NULL, state = s.state,
      -- A free row that keeps its instant stays free; else the writer holds what is due by `claimed`, and nothing later.
      owner = CASE WHEN s.status = 2 THEN -1
        WHEN s.old_due_at = s.due_at AND s.owner IS NULL THEN NULL
        WHEN s.due_at <= claimed THEN my END
    FROM (SELECT * FROM old WHERE status <= 5) s WHERE live.id = s.id
  )
  SELECT array_agg(d) INTO deltas FROM old CROSS JOIN LATERAL (VALUES
    (ROW(tenant, old_kind, -1, -bytes)::delta),
    (ROW(tenant, kind, 1, CASE WHEN status <= 5 THEN bytes ELSE 0 END)::delta)) v(d);
  RETURN deltas;
END $$;

-- Applies a group of changes, each whole or not at all, and answers the conflicts of those that were not applied. The
-- changes of a group touch different records (group.ts): what is compared and then written is the same for all of them.
CREATE FUNCTION commit_group(my bigint, my_epoch int, claimed bigint, g json) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  found conflict[] := '{}'; bad int[] := '{}'; matched text[]; deltas delta[] := '{}';
  accept json := g->'accept'; moves json := g->'moves'; digests json := g->'digests';
  rest json := g->'rest';
BEGIN
  PERFORM check_epoch(my, my_epoch);
  IF accept IS NOT NULL THEN
    SELECT found || coalesce(array_agg(ROW(a.c, 'notification', a.id)::conflict), '{}') INTO found
      FROM json_to_recordset(accept) AS a(c int, id text) WHERE EXISTS (SELECT FROM notification n WHERE n.id = a.id);
  END IF;
  IF moves IS NOT NULL THEN
    matched := lock_moved(my, moves);
    IF coalesce(cardinality(matched), 0) < json_array_length(moves) THEN
      SELECT found || array_agg(ROW(m.c, 'notification', m.id)::conflict) INTO found
        FROM json_to_recordset(moves) AS m(c int, id text) WHERE m.id <> ALL(coalesce(matched, '{}'));
    END IF;
  END IF;
  IF digests IS NOT NULL THEN found := found || digest_conflicts(digests); END IF;
  IF rest IS NOT NULL THEN
    PERFORM FROM job WHERE id IN (SELECT id FROM json_to_recordset(rest->'jobs') AS x(id text)) ORDER BY id FOR UPDATE;
    SELECT found || coalesce(array_agg(ROW(x.c, 'job', x.id)::conflict), '{}') INTO found
      FROM json_to_recordset(rest->'jobs') AS x(c int, id text, b_status text, b_taken int)
      LEFT JOIN job j ON j.id = x.id
      WHERE (j.status, j.taken) IS DISTINCT FROM (x.b_status, x.b_taken);
    PERFORM FROM recipient r JOIN json_to_recordset(rest->'recipients') AS x(tenant text, id text)
      ON r.tenant = x.tenant AND r.id = x.id ORDER BY r.tenant, r.id FOR UPDATE OF r;
    SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.id)::conflict), '{}') INTO found
      FROM (SELECT c, tenant, id, version FROM json_to_recordset(rest->'recipients')
          AS w(c int, tenant text, id text, version bigint)
        UNION ALL SELECT c, tenant, recipient, version FROM json_to_recordset(rest->'decided')
          AS d(c int, tenant text, recipient text, version bigint)) x
      LEFT JOIN recipient r ON r.tenant = x.tenant AND r.id = x.id
      WHERE x.version IS NOT NULL AND x.version <> coalesce(r.version, 0);
    SELECT found || coalesce(array_agg(ROW(x.c, 'content', x.id)::conflict), '{}') INTO found
      FROM json_to_recordset(rest->'contents') AS x(c int, id text)
      WHERE EXISTS (SELECT FROM content k WHERE k.id = x.id);
    SELECT found || coalesce(array_agg(ROW(x.c, 'answer', x.key)::conflict), '{}') INTO found
      FROM json_to_recordset(rest->'answers') AS x(c int, tenant text, module text, method text, path text, key text)
      WHERE EXISTS (SELECT FROM answer k WHERE (k.tenant, k.module, k.method, k.path, k.key) =
        (x.tenant, x.module, x.method, x.path, x.key));
  END IF;
  bad := ARRAY(SELECT DISTINCT f.c FROM unnest(found) f);
  IF digests IS NOT NULL THEN
    found := found || left_conflicts(g, bad);
    bad := ARRAY(SELECT DISTINCT f.c FROM unnest(found) f);
    PERFORM write_digests(digests, bad);
  END IF;
  IF rest IS NOT NULL THEN PERFORM write_rest(rest, bad); END IF;
  IF accept IS NOT NULL THEN deltas := deltas || write_accepted(my, claimed, accept, bad); END IF;
  IF moves IS NOT NULL THEN deltas := deltas || write_moved(my, claimed, moves, bad); END IF;
  PERFORM add_deltas(my, deltas);
  RETURN found;
END $$;

-- Gives the right to send to the versions that are on record and that no other member holds, and answers the versions
-- of their recipients (0: none on record). It commits synchronously: after a crash whatever may have been called is on
-- record as begun. No lock guards the reading of a recipient: whoever forbids calls waits until such a right has ended.
CREATE FUNCTION begin_sending(my bigint, my_epoch int, at bigint, asked json) RETURNS json LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE begun json;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  WITH mine AS MATERIALIZED (
    SELECT l.id FROM (SELECT * FROM json_to_recordset(asked) AS x(id text, status smallint, rev int, due_at bigint,
        attempts int) ORDER BY id OFFSET 0) m
      CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.status AND l.rev = m.rev
        AND l.due_at = m.due_at AND l.attempts = m.attempts AND (l.owner IS NULL OR l.owner + 0 = my) FOR UPDATE) l
  ), done AS (
    UPDATE live SET begun_at = at, owner = my FROM mine WHERE live.id = mine.id
      RETURNING live.id, live.tenant, live.recipient
  )
  SELECT json_agg(json_build_array(d.id, coalesce(r.version, 0))) INTO begun
    FROM done d LEFT JOIN recipient r ON r.tenant = d.tenant AND r.id = d.recipient;
  RETURN coalesce(begun, '[]');
END $$;
