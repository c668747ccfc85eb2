/** A server that answers, and refuses its role for a while: every call says that the store is away, and nothing is lost. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, settled, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { createCompleter } from '../../../src/delivery/completer.ts'
import { InFlightCounter } from '../../../src/delivery/in-flight-counter.ts'
import { concernsAll, SluiceError } from '../../../src/errors.ts'
import type { Clock, Store } from '../../../src/ports.ts'
import { grantsFor } from '../../../src/store/postgres/migrate.ts'
import { unreachable } from '../../../src/store/postgres/postgres-errors.ts'
import { addressOf, ask, dropSchemas, openAt, schemaUrl } from './database.ts'

const role = `refused_${process.pid}`
const clock = stillClock(epoch)

/** A store that serves a complete schema with a role of its own. */
async function openAsRole(name: string): Promise<{ readonly url: string; readonly store: Store }> {
  const url = schemaUrl(name)
  await (await openAt(url, clock)).close()
  for (const statement of grantsFor(addressOf(url), role)) await ask(url, statement)
  const own = new URL(url)
  own.username = role
  return { url, store: await openAt(own.href, clock) }
}

/** The server refuses the role from now on, and ends its connections. */
const shutOut = (url: string): Promise<unknown> =>
  ask(
    url,
    `ALTER ROLE ${role} NOLOGIN; SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = '${role}'`,
  )
const letIn = (url: string): Promise<unknown> => ask(url, `ALTER ROLE ${role} LOGIN`)

const isAway = (error: unknown): boolean => concernsAll(error) && (error as SluiceError).status === 503

/** Calls of every path of the store: the writing connection, its tasks, the pool of questions. */
const callsOf = (store: Store): Readonly<Record<string, () => Promise<unknown>>> => ({
  commit: () => store.commit({ accept: [someNotification()] }),
  begin: async () => store.begin([{ notification: someNotification() }]),
  claim: () => store.claimDue(epoch, 10),
  read: () => store.notification('acme', 'n'),
  ping: () => store.ping(),
})

describe('PostgreSQL that refuses the role of a store', needs('postgres'), () => {
  before(() => ask(schemaUrl('role'), `CREATE ROLE ${role} LOGIN`))
  after(async () => {
    await dropSchemas()
    await ask(schemaUrl('role'), `DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })

  test('is away for every call while the role may not log in, and serves again after', async (t) => {
    const { url, store } = await openAsRole('login')
    t.after(() => letIn(url).then(() => store.close()))
    await shutOut(url)
    // The first call of each connection may find that it has been cut.
    for (const call of Object.values(callsOf(store))) await call().catch(() => {})
    for (const [name, call] of Object.entries(callsOf(store))) await assert.rejects(call(), isAway, name)
    await assert.rejects(store.commit({ accept: [someNotification()] }), { isUncertain: false })
    await letIn(url)
    for (const call of Object.values(callsOf(store))) await call()
  })

  test('is away for every call while a right on a table is missing', async (t) => {
    const { url, store } = await openAsRole('rights')
    t.after(() => store.close())
    await ask(url, `REVOKE ALL ON ALL TABLES IN SCHEMA ${addressOf(url).schema} FROM ${role}`)
    for (const [name, call] of Object.entries(callsOf(store)))
      await assert.rejects(call(), { code: 'STORE_UNAVAILABLE', message: /with the code 42501/ }, name)
    await ask(url, `GRANT ALL ON ALL TABLES IN SCHEMA ${addressOf(url).schema} TO ${role}`)
    for (const call of Object.values(callsOf(store))) await call()
  })

  test('is not ready while nothing can be accepted, though a row that is there is written', async (t) => {
    const { url, store } = await openAsRole('room')
    t.after(() => store.close())
    await store.ping()
    const { schema } = addressOf(url)
    // As on a full disk: rows are changed in the room that they have, and none can be added.
    await ask(url, `REVOKE INSERT ON ALL TABLES IN SCHEMA ${schema} FROM ${role}`)
    await store.ping()
    await assert.rejects(store.commit({ accept: [someNotification()] }), { code: 'STORE_UNAVAILABLE' })
    await assert.rejects(store.ping(), { code: 'STORE_UNAVAILABLE', message: /with the code 42501/ })
    await ask(url, `GRANT INSERT ON ALL TABLES IN SCHEMA ${schema} TO ${role}`)
    await assert.rejects(store.ping(), isAway)
    await store.commit({ accept: [someNotification()] })
    await store.ping()
  })

  test('has the results of calls that ended meanwhile once it serves again', async (t) => {
    const { url, store } = await openAsRole('results')
    t.after(() => letIn(url).then(() => store.close()))
    const list = Array.from({ length: 5 }, () => someNotification())
    await store.commit({ accept: list })
    await store.begin(list.map((notification) => ({ notification })))
    await shutOut(url)
    await store.ping().catch(() => {})
    const told: unknown[] = []
    const waiting: Pick<Clock, 'now' | 'at'> = {
      now: Date.now,
      at(_, run) {
        const timer = setTimeout(run, 50)
        return () => clearTimeout(timer)
      },
    }
    const completer = createCompleter({
      ledger: { commit: (change) => store.commit(change), release: () => {} },
      scheduler: { place: () => {}, placeFirst: () => {}, recover: async () => {} },
      clock: waiting as Clock,
      releaseHolds: async () => {},
      inFlight: new InFlightCounter(),
      onError: (_, error) => told.push(error),
    })
    const written = Promise.all(list.map((notification) => completer.write(settled(notification, epoch + 1))))
    while (told.length < 3) await new Promise((resolve) => setTimeout(resolve, 20))
    await letIn(url)
    assert.deepEqual(
      await written,
      list.map(() => true),
    )
    assert.deepEqual(await ask(url, 'SELECT count(*)::int AS n FROM live'), [{ n: 0 }])
  })
})

test('a connection that cannot be made is away, whatever the server said', () => {
  for (const code of ['28P01', '3D000', '22023', '23505', '55P03', 'XX000']) {
    const said = Object.assign(new pg.DatabaseError('no', 2, 'error'), { code })
    const fault = unreachable({ shown: 'here' }, said)
    assert.ok(fault instanceof SluiceError && isAway(fault) && !fault.isUncertain, code)
  }
})
