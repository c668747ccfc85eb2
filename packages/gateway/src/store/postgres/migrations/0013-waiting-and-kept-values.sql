-- What every look at those that wait asks of each stands in columns: of a million rows, no JSON is read for it. `waits` is
-- the part of the backlog's cell that has no column (backlog-cell.ts), `policy` the version of the policy under which it was
-- decided. Both are null where an earlier version wrote the row: then the JSON says it.
ALTER TABLE live ADD COLUMN waits text, ADD COLUMN policy text COLLATE "C";

-- A right to send is an update in place (HOT) where the page has room for it, and else an entry in each index. A group
-- gives rights to all rows of a page at once: there is room for a second version of each.
ALTER TABLE live SET (fillfactor = 45);

-- The decision of the acceptance is that of an end which names none.
CREATE OR REPLACE VIEW whole AS
  SELECT n.id, n.seq, n.tenant, n.recipient, n.category, n.job, n.created_at, n.body,
    coalesce(l.channel, o.channel) AS channel,
    coalesce(l.status, o.status) AS status,
    l.owner::text AS owner, l.begun_at,
    coalesce(l.due_at, o.due_at) AS due_at,
    coalesce(l.attempts, o.attempts) AS attempts,
    coalesce(l.fired_at, o.fired_at) AS fired_at,
    coalesce(l.turned_at, o.turned_at) AS turned_at,
    to_json(coalesce(l.suspects, o.suspects)) AS suspects,
    (coalesce(l.suspects, o.suspects))[cardinality(coalesce(l.suspects, o.suspects))] AS suspect_at,
    CASE WHEN o.state IS NULL THEN coalesce(l.state, n.first)
      WHEN o.state->'decision' IS NULL
        THEN ('{"decision":' || (n.first->'decision')::text || ',' || substr(o.state::text, 2))::json
      ELSE o.state END AS state
  FROM notification n LEFT JOIN live l ON l.id = n.id LEFT JOIN outcome o ON o.id = n.id;

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
        fired_at, turned_at, suspects, digest, cause, waits, policy, owner)
      SELECT id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts,
        fired_at, turned_at, suspects, digest, cause, waits, policy,
        CASE WHEN status = 2 THEN -1 WHEN due_at <= claimed THEN my END
      FROM a WHERE status <= 5
  ), o AS (
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects FROM a WHERE status > 5
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
    INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects, state)
      SELECT id, tenant, channel, status, at, due_at, attempts, fired_at, turned_at, suspects,
        -- `whole` adds the decision of the acceptance; one that a move has written since is added here.
        CASE WHEN old_state IS NULL OR state->'decision' IS NOT NULL THEN state
          ELSE ('{"decision":' || (old_state->'decision')::text || ',' || substr(state::text, 2))::json END
      FROM old WHERE status > 5
  ), stays AS (
    UPDATE live SET channel = s.channel, status = s.status, kind = s.kind, rev = s.rev, due_at = s.due_at,
      attempts = s.attempts, fired_at = s.fired_at, turned_at = s.turned_at, suspects = s.suspects, digest = s.digest,
      cause = s.cause, waits = s.waits, policy = s.policy, begun_at = NULL, state = s.state,
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

CREATE FUNCTION commit_parts(my bigint, my_epoch int, claimed bigint, accept json, ids json, moves json, versions json,
  digests json, rest json, generations json, texts text[]) RETURNS conflict[] LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  found conflict[] := '{}'; bad int[] := '{}'; matched text[]; deltas delta[] := '{}';
  recipients json; decided json; jobs json; contents json; answers json; accounts json; holds json;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  IF generations IS NOT NULL THEN found := generation_conflicts(generations); END IF;
  IF accept IS NOT NULL THEN
    SELECT found || coalesce(array_agg(ROW(a.c, 'notification', a.id)::conflict), '{}') INTO found
      FROM json_to_recordset(coalesce(ids, accept)) AS a(c int, id text)
      WHERE (SELECT n.seq FROM notification n WHERE n.id = a.id) IS NOT NULL;
  END IF;
  IF moves IS NOT NULL THEN
    matched := lock_moved(my, coalesce(versions, moves));
    IF coalesce(cardinality(matched), 0) < json_array_length(coalesce(versions, moves)) THEN
      SELECT found || array_agg(ROW(m.c, 'notification', m.id)::conflict) INTO found
        FROM json_to_recordset(moves) AS m(c int, id text) WHERE m.id <> ALL(coalesce(matched, '{}'));
    END IF;
  END IF;
  IF digests IS NOT NULL THEN found := found || digest_conflicts(digests); END IF;
  IF rest IS NOT NULL THEN
    SELECT x.recipients, x.decided, x.jobs, x.contents, x.answers, x.accounts, x.holds
      INTO recipients, decided, jobs, contents, answers, accounts, holds
      FROM json_to_record(rest) AS x(recipients json, decided json, jobs json, contents json, answers json,
        accounts json, holds json);
    IF jobs IS NOT NULL THEN
      PERFORM FROM job WHERE id IN (SELECT id FROM json_to_recordset(jobs) AS x(id text)) ORDER BY id FOR UPDATE;
      SELECT found || coalesce(array_agg(ROW(x.c, 'job', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(jobs) AS x(c int, id text, b_status text, b_taken int)
        LEFT JOIN job j ON j.id = x.id
        WHERE (j.status, j.taken) IS DISTINCT FROM (x.b_status, x.b_taken);
    END IF;
    IF recipients IS NOT NULL THEN
      PERFORM FROM recipient r JOIN json_to_recordset(recipients) AS x(tenant text, id text)
        ON r.tenant = x.tenant AND r.id = x.id ORDER BY r.tenant, r.id FOR UPDATE OF r;
      SELECT found || coalesce(array_agg(ROW(x.c, 'recipient', x.id)::conflict), '{}') INTO found
        FROM json_to_recordset(recipients) AS x(c int, tenant text, id text, version bigint)
        WHERE x.version IS NOT NULL AND x.version <>
          coalesce((SELECT r.version FROM recipient r WHERE r.tenant = x.tenant AND r.id = x.id), 0);
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
    PERFORM write_rest(rest, bad);
  END IF;
  IF accept IS NOT NULL THEN deltas := deltas || write_accepted(my, claimed, accept, bad, texts); END IF;
  IF moves IS NOT NULL THEN deltas := deltas || write_moved(my, claimed, moves, bad, texts); END IF;
  IF jobs IS NOT NULL THEN deltas := deltas || job_deltas(jobs, bad); END IF;
  IF cardinality(deltas) > 0 THEN PERFORM add_deltas(my, deltas); END IF;
  RETURN found;
END $$;

CREATE FUNCTION commit_group(my bigint, my_epoch int, claimed bigint, g json, texts text) RETURNS conflict[] LANGUAGE sql AS $$
  SELECT commit_parts(my, my_epoch, claimed, x.accept, x.ids, x.moves, x.versions, x.digests, x.rest, x.generations,
      string_to_array(texts, E'\n'))
    FROM json_to_record(g) AS x(accept json, ids json, moves json, versions json, digests json, rest json, generations json)
$$;

-- As commit_group, and keeps the changes of state of what was applied.
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

-- As commit_logged, and counts what was delivered by what was applied.
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

-- The functions of the versions before this one stay for their processes that still run. What these move has no columns for
-- those that wait, as what they accept.
CREATE OR REPLACE FUNCTION write_moved(my bigint, claimed bigint, moves json, bad int[]) RETURNS delta[] LANGUAGE plpgsql AS $$
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
      cause = s.cause, waits = NULL, policy = NULL, begun_at = NULL, state = s.state,
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

-- The statements below go from each name to its row. A join is planned once for a session: made while a table was nearly
-- empty, it reads all of the table for each name from then on.

-- Claims free rows that are due, earliest first. Where one tenant would take more than half of a full page, or tenants
-- are passed over, each tenant gets the same share, beginning behind the tenant `after`. `upto` of the first row is the
-- instant up to which nothing is free; null where the shares decided. It commits asynchronously: a claim that a crash loses is free again.
CREATE OR REPLACE FUNCTION claim_due(my bigint, my_epoch int, number bigint, until bigint, max int, without text[], after text)
RETURNS TABLE (upto bigint, claimed json) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE page text[]; share int; most int; all_ boolean; latest bigint;
BEGIN
  PERFORM check_epoch(my, my_epoch);
  PERFORM set_config('synchronous_commit', 'off', true);
  IF cardinality(without) = 0 THEN
    SELECT array_agg(p.id), max(p.due_at), (SELECT count(*)::int FROM unnest(array_agg(p.tenant)) t GROUP BY t ORDER BY 1 DESC LIMIT 1)
      INTO page, latest, most
      FROM (SELECT id, tenant, due_at FROM live WHERE owner IS NULL AND due_at <= until ORDER BY due_at, seq LIMIT max
        FOR UPDATE SKIP LOCKED) p;
    all_ := coalesce(cardinality(page), 0) < max;
  END IF;
  IF cardinality(without) > 0 OR NOT all_ AND most * 2 > max THEN
    WITH RECURSIVE t AS (
      (SELECT tenant FROM live WHERE owner IS NULL ORDER BY tenant LIMIT 1)
      UNION ALL
      SELECT (SELECT l.tenant FROM live l WHERE l.owner IS NULL AND l.tenant > t.tenant ORDER BY l.tenant LIMIT 1)
        FROM t WHERE t.tenant IS NOT NULL
    ), ready AS MATERIALIZED (
      SELECT tenant FROM t WHERE tenant <> ALL(without)
        AND (SELECT l.due_at FROM live l WHERE l.owner IS NULL AND l.tenant = t.tenant ORDER BY l.due_at LIMIT 1) <= until
        ORDER BY tenant <= after, tenant LIMIT max
    ), shares AS MATERIALIZED (
      SELECT greatest(1, ceil(max::numeric / greatest(1, count(*)))::int) AS share FROM ready
    ), found AS MATERIALIZED (
      SELECT l.id, r.tenant, l.due_at, l.seq FROM ready r CROSS JOIN LATERAL (
        SELECT id, due_at, seq FROM live WHERE owner IS NULL AND tenant = r.tenant AND due_at <= until
          ORDER BY due_at, seq LIMIT (SELECT s.share FROM shares s) FOR UPDATE SKIP LOCKED) l
    )
    SELECT array_agg(f.id), (SELECT s.share FROM shares s),
        (SELECT max(k.n)::int FROM (SELECT count(*) AS n FROM found GROUP BY tenant) k)
      INTO page, share, most FROM (SELECT * FROM found ORDER BY due_at, seq LIMIT max) f;
    all_ := coalesce(most, 0) < share AND coalesce(cardinality(page), 0) < max;
    latest := NULL;
  END IF;
  upto := CASE WHEN all_ THEN until ELSE latest - 1 END;
  UPDATE live SET owner = my, claim = number WHERE id = ANY(page);
  claimed := NULL;
  RETURN NEXT;
  RETURN QUERY SELECT NULL::bigint, row_to_json(w) FROM
    (SELECT r.* FROM unnest(page) p CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = p OFFSET 0) r
      ORDER BY r.due_at, r.seq) w;
END $$;

-- Gives rows of dead members to this one, earliest due first; or, by their ids, rows of its own. It commits
-- synchronously: the suspects of what may have left are on record before the answer.
CREATE OR REPLACE FUNCTION take_over(my bigint, my_epoch int, at bigint, max int, without text[], own text[])
RETURNS TABLE (may_have_left boolean, taken json) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE begun text[]; page text[]; dead bigint[] := ARRAY(SELECT id FROM member WHERE state = 3);
BEGIN
  PERFORM check_epoch(my, my_epoch);
  IF own IS NOT NULL THEN
    SELECT array_agg(p.id), array_agg(p.id) FILTER (WHERE p.begun_at IS NOT NULL) INTO page, begun FROM
      (SELECT id, begun_at FROM live WHERE id = ANY(own) AND owner + 0 = my ORDER BY id FOR UPDATE) p;
  ELSIF cardinality(dead) > 0 THEN
    SELECT array_agg(p.id), array_agg(p.id) FILTER (WHERE p.begun_at IS NOT NULL) INTO page, begun FROM
      (SELECT id, begun_at FROM live WHERE owner > 0 AND owner + 0 = ANY(dead) AND tenant <> ALL(without)
        ORDER BY due_at LIMIT max FOR UPDATE SKIP LOCKED) p;
  END IF;
  UPDATE live SET owner = my, begun_at = NULL,
    suspects = CASE WHEN begun_at IS NULL THEN suspects ELSE array_append(suspects, at) END WHERE id = ANY(page);
  RETURN QUERY SELECT w.id = ANY(coalesce(begun, '{}')), row_to_json(w) FROM
    (SELECT r.* FROM unnest(page) p CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = p OFFSET 0) r
      ORDER BY r.due_at, r.seq) w;
END $$;

-- Gives rows to this member that are left to the broker, that the member `held_by` holds which published the message, or
-- that this member holds itself, because the answer to an earlier take was lost, or that are free: whoever claims them
-- first has them. It commits synchronously: the message is removed from its queue behind the answer.
CREATE OR REPLACE FUNCTION take_left(my bigint, my_epoch int, asked json) RETURNS TABLE (taken json) LANGUAGE plpgsql
SET jit = off SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE page text[];
BEGIN
  PERFORM check_epoch(my, my_epoch);
  WITH found AS MATERIALIZED (
    SELECT l.id FROM (SELECT * FROM json_to_recordset(asked) AS x(id text, status smallint, rev int, due_at bigint,
        attempts int, held_by bigint) ORDER BY id OFFSET 0) m
      CROSS JOIN LATERAL (SELECT l.id FROM live l WHERE l.id = m.id AND l.status = m.status AND l.rev = m.rev
        AND l.due_at = m.due_at AND l.attempts = m.attempts AND l.begun_at IS NULL
        AND (l.owner IS NULL OR l.owner + 0 IN (0, my, m.held_by)) FOR UPDATE) l
  ), done AS (
    UPDATE live SET owner = my, claim = NULL FROM found WHERE live.id = found.id RETURNING live.id
  )
  SELECT array_agg(id) INTO page FROM done;
  RETURN QUERY SELECT row_to_json(w) FROM
    (SELECT r.* FROM unnest(page) p CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = p OFFSET 0) r
      ORDER BY r.due_at, r.seq) w;
END $$;

-- Gives the right to send to the versions that are on record and that no other member holds, and answers the versions
-- of their recipients (0: none on record). It commits synchronously: after a crash whatever may have been called is on
-- record as begun. No lock guards the reading of a recipient: whoever forbids calls waits until such a right has ended.
CREATE OR REPLACE FUNCTION begin_sending(my bigint, my_epoch int, at bigint, asked json) RETURNS json LANGUAGE plpgsql
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
  SELECT json_agg(json_build_array(d.id, coalesce(
      (SELECT r.version FROM recipient r WHERE r.tenant = d.tenant AND r.id = d.recipient), 0))) INTO begun FROM done d;
  RETURN coalesce(begun, '[]');
END $$;
