/** A server whose settings would lose commits in a crash: the sessions of the gateway set theirs, and the operator hears of the rest. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { needs } from '../../../../../scripts/services/needs.ts'
import { crashPostgres, startPostgres } from '../../../../../scripts/services/postgres.ts'
import type { Service } from '../../../../../scripts/services/service.ts'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { connect, createReadPool } from '../../../src/store/postgres/connection.ts'
import { createSite } from '../../child.ts'
import { addressOf, openAt } from './database.ts'
import { sluice } from './sluice.ts'

describe('a PostgreSQL that would lose commits in a crash', needs('postgres'), () => {
  let server: Service
  before(async () => {
    server = await startPostgres()
  })
  after(() => server.stop())

  /** Runs statements as the superuser, each in a transaction of its own. */
  async function administer(...statements: readonly string[]): Promise<void> {
    const client = new pg.Client({ connectionString: server.url })
    await client.connect()
    for (const statement of statements) await client.query(statement)
    await client.end()
  }

  for (const [set, expected] of [
    ['off', 'on'],
    ['local', 'local'],
    ['remote_apply', 'remote_apply'],
  ] as const)
    test(`a role with synchronous_commit = ${set} commits with ${expected}`, async () => {
      await administer(`ALTER ROLE postgres SET synchronous_commit = ${set}`)
      const address = addressOf(`${server.url}?schema=levels`)
      const [connection, pool] = [await connect(address), createReadPool(address)]
      for (const db of [connection, pool])
        assert.deepEqual(await db.query('SHOW synchronous_commit'), [{ synchronous_commit: expected }])
      await Promise.all([connection.close(), pool.close()])
    })

  test('what was accepted is on record after a crash of the server, whatever its role has set', async () => {
    await administer('ALTER ROLE postgres SET synchronous_commit = off')
    // Its background writer would flush within a fifth of a second.
    await administer("ALTER SYSTEM SET wal_writer_delay = '10s'", 'SELECT pg_reload_conf()')
    const url = `${server.url}?schema=crashed`
    const store = await openAt(url, stillClock(epoch))
    const accepted = Array.from({ length: 20 }, () => someNotification())
    for (const notification of accepted) await store.commit({ accept: [notification] })
    const { folder } = server
    const port = Number(new URL(server.url).port)
    await crashPostgres(server)
    await store.close().catch(() => {})
    server = await startPostgres({ folder, port })
    const again = await openAt(url, stillClock(epoch))
    const found = await Promise.all(accepted.map(({ tenant, id }) => again.notification(tenant, id)))
    await again.close()
    assert.equal(found.filter((each) => each !== undefined).length, accepted.length)
  })

  test('fsync = off is told by check and at the start, with the way out', async (t) => {
    const store = `${server.url}?schema=told`
    const says = /runs with fsync = off: .+ Set fsync = on/
    const good = sluice(['check'], { SLUICE_STORE: store })
    assert.deepEqual([good.status, says.test(good.out)], [0, false], good.err)
    await administer('ALTER SYSTEM SET fsync = off', 'SELECT pg_reload_conf()')
    const { status, out, err } = sluice(['check'], { SLUICE_STORE: store })
    assert.equal(status, 0, err)
    assert.match(out, /# Store: .+\. Warning: PostgreSQL at/)
    assert.match(out, says)
    const site = await createSite(t, { config: { store, log: { level: 'warn' } } })
    await site.start()
    assert.match(site.log(), /"event":"store\.not_durable"/)
    assert.match(site.log(), says)
    assert.equal((await site.terminate()).code, 0)
  })
})
