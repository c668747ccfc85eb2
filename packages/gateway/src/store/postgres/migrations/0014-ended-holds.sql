-- Writes recipients, answers, jobs, contents, accounts and holds: the rare parts of a group.
CREATE OR REPLACE FUNCTION write_rest(g json, bad int[]) RETURNS void LANGUAGE plpgsql AS $$
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
  -- With `until` it ends only where it is the hold that ends then: another process may have put a newer one in force.
  DELETE FROM hold h USING json_to_recordset(g->'holds') AS x(c int, name text, until numeric, body json)
    WHERE c <> ALL(bad) AND x.body IS NULL AND h.name = x.name
      AND (x.until IS NULL OR (h.body->>'until')::numeric = x.until);
  INSERT INTO content (id, tenant, bytes, body)
    SELECT id, tenant, bytes, body FROM json_to_recordset(g->'contents') AS x(c int, id text, tenant text, bytes bigint,
      body json) WHERE c <> ALL(bad);
END $$;
