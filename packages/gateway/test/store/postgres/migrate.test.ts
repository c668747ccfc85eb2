/** The schema and who may complete it: an owner, and a role that only runs gateways, on a real PostgreSQL. */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { needs } from '../../../../../scripts/services/needs.ts'
import { readPostgresAddress } from '../../../src/config/postgres-address.ts'
import { connect, lockMs } from '../../../src/store/postgres/connection.ts'
import { grantsFor, inspect, migrate } from '../../../src/store/postgres/migrate.ts'
import { createSite } from '../../child.ts'
import { ask, dropSchemas, schemaUrl } from './database.ts'
import { sluice } from './sluice.ts'

const role = `runs_${process.pid}`

const addressOf = (url: string) =>
  readPostgresAddress(url, () => {
    throw new Error('no files here')
  })
/** The address of the same schema for the role that only runs. */
function asRole(url: string): string {
  const changed = new URL(url)
  changed.username = role
  return changed.href
}

/** Runs a statement as the superuser of the tests. */
async function asAdministrator(text: string): Promise<void> {
  const client = new pg.Client({ connectionString: process.env.SLUICE_TEST_POSTGRES! })
  await client.connect()
  await client.query(text).finally(() => client.end())
}

/** Rows of the catalogue that a definition would add to or change. */
const definitions = (url: string) =>
  ask(
    url,
    `SELECT c.oid, c.relname, c.xmin::text FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
      UNION ALL SELECT p.oid, p.proname, p.xmin::text FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace
      ORDER BY 1`,
  )

test('the steps are numbered one after the other, so that two of them never have one number', () => {
  const names = readdirSync(new URL('../../../src/store/postgres/migrations/', import.meta.url)).toSorted()
  assert.deepEqual(
    names.map((name) => Number(name.slice(0, 4))),
    names.map((_, index) => index + 1),
  )
})

describe('the schema on PostgreSQL', needs('postgres'), () => {
  before(() => asAdministrator(`CREATE ROLE ${role} LOGIN`))
  after(async () => {
    await dropSchemas()
    await asAdministrator(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })

  test('a schema may have the name of a word that SQL keeps for itself', async (t) => {
    const address = addressOf(`${process.env.SLUICE_TEST_POSTGRES}?schema=user`)
    t.after(() => asAdministrator('DROP SCHEMA IF EXISTS "user" CASCADE'))
    const connection = await connect(address)
    t.after(() => connection.close())
    await migrate(connection, address)
    for (const statement of grantsFor(address, role)) await connection.query(statement)
    const [found] = await connection.query<{ schema: string }>('SELECT current_schema() AS schema')
    assert.equal(found!.schema, 'user')
  })

  test('a dry run names the steps and the statements, and changes nothing', async () => {
    const url = schemaUrl('dry')
    const { status, out, err } = sluice(['migrate', '--dry-run', '--grant', role], { SLUICE_STORE: url })
    assert.equal(status, 0, err)
    assert.match(out, /0 of \d+ steps\nto do: 0001-notifications\.sql\nto do: 0002-other-records\.sql/)
    assert.match(out, new RegExp(`to do: GRANT USAGE ON SCHEMA "t_\\w+" TO "${role}";`))
    assert.match(out, /Nothing was changed\.$/m)
    assert.deepEqual(await ask(url, 'SELECT current_schema() AS name'), [{ name: null }])
  })

  test('a role that only runs gateways serves a complete schema, and defines nothing', async (t) => {
    const url = schemaUrl('runs')
    const done = sluice(['migrate', '--grant', role, '--json'], { SLUICE_STORE: url })
    assert.equal(done.status, 0, done.err)
    const { applied, known } = JSON.parse(done.out) as { applied: string[]; known: number }
    assert.equal(applied.length, known)
    const before = await definitions(url)
    const site = await createSite(t, { config: { store: asRole(url) } })
    await site.start()
    const answer = await site.call('POST', '/api/v1/notifications', {
      recipient: { id: 'ada', email: 'ada@example.com' },
      channel: 'email',
      content: { subject: 'Hello', text: 'Hello' },
    })
    assert.equal(answer.status, 202, answer.text)
    assert.equal((await site.terminate()).code, 0)
    assert.deepEqual(await definitions(url), before)
    const again = sluice(['migrate'], { SLUICE_STORE: asRole(url) })
    assert.deepEqual([again.status, again.err], [0, ''])
    assert.match(again.out, /The schema is up to date\./)
    const checked = sluice(['check'], { SLUICE_STORE: asRole(url) })
    assert.match(checked.out, /is up to date/)
  })

  test('a role without rights is told what its owner runs, at the start and by check', async () => {
    const url = schemaUrl('rights')
    assert.equal(sluice(['migrate'], { SLUICE_STORE: url }).status, 0)
    for (const command of ['serve', 'check', 'migrate']) {
      const { status, err } = sluice([command], { SLUICE_STORE: asRole(url), SLUICE_HTTP_PORT: '0' })
      assert.equal(status, 2, command)
      assert.match(err, new RegExp(`permission denied for schema .+ sluice migrate --grant ${role}\\.`))
    }
    await ask(url, `GRANT USAGE ON SCHEMA ${new URL(url).searchParams.get('schema')} TO ${role}`)
    await ask(url, `GRANT SELECT ON migration, notification TO ${role}`)
    for (const command of ['serve', 'check']) {
      const { status, err } = sluice([command], { SLUICE_STORE: asRole(url), SLUICE_HTTP_PORT: '0' })
      assert.equal(status, 2, command)
      assert.match(err, new RegExp(`permission denied for table .+ sluice migrate --grant ${role}\\.`))
    }
  })

  test('an owner who grants the rights to itself keeps the right to complete the schema', async (t) => {
    const owner = `owns_${process.pid}`
    await asAdministrator(`CREATE ROLE ${owner} LOGIN`)
    const url = schemaUrl('owned')
    const schema = new URL(url).searchParams.get('schema')!
    await asAdministrator(`CREATE SCHEMA ${schema} AUTHORIZATION ${owner}`)
    t.after(() => asAdministrator(`DROP OWNED BY ${owner}; DROP ROLE ${owner}`))
    const asOwner = new URL(url)
    asOwner.username = owner
    for (const args of [
      ['migrate', '--grant', owner, '--dry-run'],
      ['migrate', '--grant', owner],
    ]) {
      const { status, out, err } = sluice(args, { SLUICE_STORE: asOwner.href })
      assert.equal(status, 0, err)
      assert.match(out, new RegExp(`The role "${owner}" owns the schema, and has every right\\.`))
      assert.doesNotMatch(out, /GRANT|REVOKE/)
    }
    // As a later version would: it notes the step that it has added.
    const connection = await connect(addressOf(asOwner.href))
    t.after(() => connection.close())
    await connection.query('INSERT INTO migration VALUES (9999)')
  })

  test('check names a view, a sequence or a function on which a right is missing', async () => {
    const url = schemaUrl('kinds')
    assert.equal(sluice(['migrate', '--grant', role], { SLUICE_STORE: url }).status, 0)
    for (const [take, give, says] of [
      [`SELECT ON whole FROM ${role}`, `SELECT ON whole TO ${role}`, 'view whole'],
      [
        `ALL ON SEQUENCE acceptance FROM ${role}`,
        `USAGE ON SEQUENCE acceptance TO ${role}`,
        'sequence acceptance',
      ],
      [
        `EXECUTE ON FUNCTION declare_dead FROM PUBLIC, ${role}`,
        `EXECUTE ON FUNCTION declare_dead TO ${role}`,
        'function declare_dead',
      ],
    ] as const) {
      await ask(url, `REVOKE ${take}`)
      const { status, err } = sluice(['check'], { SLUICE_STORE: asRole(url) })
      assert.equal(status, 2, says)
      assert.match(err, new RegExp(`permission denied for ${says}\\. .+ sluice migrate --grant ${role}\\.`))
      await ask(url, `GRANT ${give}`)
    }
    assert.equal(sluice(['check'], { SLUICE_STORE: asRole(url) }).status, 0)
  })

  test('a role that may not create a schema that is missing is told so', () => {
    const url = schemaUrl('missing')
    for (const command of ['serve', 'check', 'migrate']) {
      const { status, err } = sluice([command], { SLUICE_STORE: asRole(url), SLUICE_HTTP_PORT: '0' })
      assert.equal(status, 2, command)
      assert.match(
        err,
        /There is no schema "t_\w+_missing" at .+ yet, .+: CREATE SCHEMA "t_\w+_missing" AUTHORIZATION/,
      )
      assert.doesNotMatch(err, /The owner of the schema/)
    }
  })

  test('a role that may not complete the schema names its owner and the command', async () => {
    const url = schemaUrl('behind')
    assert.equal(sluice(['migrate', '--grant', role], { SLUICE_STORE: url }).status, 0)
    // The last step counts as not made: a gateway of a newer version would find that.
    await ask(url, 'DELETE FROM migration WHERE version = (SELECT max(version) FROM migration)')
    for (const command of ['serve', 'check', 'migrate']) {
      const { status, err } = sluice([command], { SLUICE_STORE: asRole(url), SLUICE_HTTP_PORT: '0' })
      assert.equal(status, 2, command)
      assert.match(
        err,
        new RegExp(`has \\d+ of \\d+ steps, .+Run "sluice migrate --grant ${role}" as "postgres"`),
      )
    }
  })

  test('steps of a later version are usable by the role without another grant', async () => {
    const url = schemaUrl('later')
    const address = addressOf(url)
    const connection = await connect(address)
    await migrate(connection, address)
    for (const statement of grantsFor(address, role)) await connection.query(statement)
    await connection.query('CREATE TABLE of_later (id int)')
    await connection.query(
      'CREATE FUNCTION of_later() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM of_later $$',
    )
    await connection.close()
    const other = await connect(addressOf(asRole(url)))
    await other.query('INSERT INTO of_later VALUES (1)')
    assert.deepEqual(await other.query('SELECT of_later() AS n'), [{ n: 1 }])
    await assert.rejects(other.query('INSERT INTO migration VALUES (99)'), /permission denied/)
    await assert.rejects(other.query('CREATE TABLE mine (id int)'), /permission denied/)
    await other.close()
  })

  test('two processes that complete a schema at once apply each step once', async () => {
    const address = addressOf(schemaUrl('race'))
    const connections = await Promise.all([connect(address), connect(address), connect(address)])
    const applied = await Promise.all(connections.map((each) => migrate(each, address)))
    const { missing, known } = await inspect(connections[0]!, address)
    assert.deepEqual(missing, [])
    assert.equal(applied.flat().length, known)
    for (const each of connections) await each.close()
  })

  test('a process waits for another one that completes the schema for longer than statements wait for a lock', async () => {
    const address = addressOf(schemaUrl('slow'))
    const [slow, next] = await Promise.all([connect(address), connect(address)])
    await slow.query('BEGIN')
    await slow.query("SELECT pg_advisory_xact_lock(hashtext('sluice migrations'), hashtext($1))", [
      address.schema,
    ])
    const migrated = migrate(next, address)
    migrated.catch(() => {})
    await sleep(lockMs + 500)
    await slow.query('COMMIT')
    assert.notEqual((await migrated).length, 0)
    for (const each of [slow, next]) await each.close()
  })

  test('a process that waited refuses a schema that a newer version has completed meanwhile', async (t) => {
    const url = schemaUrl('overtaken')
    const address = addressOf(url)
    const [newer, older] = await Promise.all([connect(address), connect(address)])
    t.after(() => Promise.all([newer.close(), older.close()]))
    await migrate(newer, address)
    await newer.query('DELETE FROM migration WHERE version = (SELECT max(version) FROM migration)')
    await newer.query('BEGIN')
    await newer.query("SELECT pg_advisory_xact_lock(hashtext('sluice migrations'), hashtext($1))", [
      address.schema,
    ])
    const migrated = migrate(older, address)
    migrated.catch(() => {})
    const waits = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    while ((await ask(url, waits)).length === 0) await sleep(20)
    await newer.query('INSERT INTO migration VALUES (9998), (9999)')
    await newer.query('COMMIT')
    await assert.rejects(migrated, { code: 'INVALID_CONFIG', message: /newer version of Sluice \(9999,/ })
  })

  test('a database that cannot hold all characters is refused at the start and by check', async (t) => {
    const name = `latin_${process.pid}`
    await asAdministrator(
      `CREATE DATABASE ${name} ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`,
    )
    t.after(() => asAdministrator(`DROP DATABASE ${name} WITH (FORCE)`))
    const url = new URL(schemaUrl('latin'))
    url.pathname = `/${name}`
    for (const command of ['serve', 'check', 'migrate']) {
      const { status, err } = sluice([command], { SLUICE_STORE: url.href, SLUICE_HTTP_PORT: '0' })
      assert.equal(status, 2, `${command}: ${err}`)
      assert.match(err, /has the encoding LATIN1, .+ createdb --encoding=UTF8 --template=template0 --owner=/)
    }
  })

  test('a server that takes no writes of the user is refused at the start and by check, which say so', async (t) => {
    const url = schemaUrl('reads')
    assert.equal(sluice(['migrate', '--grant', role], { SLUICE_STORE: url }).status, 0)
    await asAdministrator(`ALTER ROLE ${role} SET default_transaction_read_only = on`)
    t.after(() => asAdministrator(`ALTER ROLE ${role} RESET default_transaction_read_only`))
    for (const command of ['serve', 'check']) {
      const { status, err } = sluice([command], { SLUICE_STORE: asRole(url), SLUICE_HTTP_PORT: '0' })
      assert.equal(status, 2, `${command}: ${err}`)
      assert.match(err, /takes no writes: default_transaction_read_only is on .+ALTER ROLE "runs_\d+"/)
    }
  })

  test('a start that waits for another transaction in its schema says so, and what to do', async (t) => {
    const url = schemaUrl('held')
    const address = addressOf(url)
    const holder = await connect(address)
    t.after(() => holder.close())
    await holder.query(`CREATE SCHEMA ${address.schema}`)
    // The first step makes this table, and waits until it is known whether this transaction has made it.
    await holder.query('BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; CREATE TABLE meta ()')
    for (const command of ['serve', 'migrate']) {
      const { status, err } = sluice([command], { SLUICE_STORE: url, SLUICE_HTTP_PORT: '0' })
      assert.equal(status, 2, `${command}: ${err}`)
      assert.match(
        err,
        /Another transaction holds what is needed in the schema "t_\w+_held".+ End it, or wait/,
      )
    }
  })

  test('a file has nothing to migrate', () => {
    const { status, out } = sluice(['migrate'], { SLUICE_STORE: 'sqlite:./data/sluice.db' })
    assert.equal(status, 0)
    assert.match(out, /is a file: each start completes it/)
  })

  test('a role that does not exist is refused before anything is done', async () => {
    const url = schemaUrl('nobody')
    const { status, err } = sluice(['migrate', '--grant', 'nobody-here'], { SLUICE_STORE: url })
    assert.equal(status, 2)
    assert.match(err, /There is no role "nobody-here".+createuser --pwprompt nobody-here/)
    assert.deepEqual(await ask(url, 'SELECT current_schema() AS name'), [{ name: null }])
  })
})
