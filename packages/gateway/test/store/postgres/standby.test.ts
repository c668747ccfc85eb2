/** A fail-over in which the name of the server leads to a standby for a while: nothing is read from that one behind it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { needs } from '../../../../../scripts/services/needs.ts'
import { crashPostgres, startPostgres } from '../../../../../scripts/services/postgres.ts'
import type { Service } from '../../../../../scripts/services/service.ts'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { temporaryFolder } from '../../config/folder.ts'
import { joinAt, openAt } from './database.ts'
import { startProxy } from './proxy.ts'
import { sluice } from './sluice.ts'

const schema = '?schema=standby'

describe('a standby of PostgreSQL', needs('postgres'), () => {
  let primary: Service
  let standby: Service
  const cleanups: (() => void)[] = []

  before(async () => {
    primary = await startPostgres()
    await (await openAt(`${primary.url}${schema}`, stillClock(epoch))).close()
    const port = Number(new URL(primary.url).port)
    await crashPostgres(primary)
    const folder = temporaryFolder({ after: (run) => void cleanups.push(run as () => void) })
    spawnSync('cp', ['-a', join(primary.folder, 'data'), folder])
    writeFileSync(join(folder, 'data', 'standby.signal'), '')
    primary = await startPostgres({ folder: primary.folder, port })
    standby = await startPostgres({ folder })
  })
  after(async () => {
    await Promise.all([primary, standby].map((each) => each.stop()))
    for (const run of cleanups) run()
  })

  /** Runs one question at the primary. */
  async function askPrimary(text: string): Promise<pg.QueryResultRow[]> {
    const client = new pg.Client({ connectionString: primary.url })
    await client.connect()
    return await client
      .query(text)
      .then(({ rows }) => rows)
      .finally(() => client.end())
  }

  test('is refused at the start and by check', () => {
    for (const command of ['serve', 'check', 'migrate']) {
      const url = `${standby.url}${schema}`
      const { status, err } = sluice([command], { SLUICE_STORE: url, SLUICE_HTTP_PORT: '0' })
      assert.equal(status, 2, `${command}: ${err}`)
      assert.match(err, /is a standby, which only reads: name the primary in "store"/)
    }
  })

  test('keeps no connection of a gateway whose name of the server led to it during a fail-over', async (t) => {
    const proxy = await startProxy(`${primary.url}${schema}`)
    const faults: string[] = []
    const { members, store } = await joinAt(proxy.url, stillClock(epoch), {
      onError: (_, error) => void faults.push((error as Error).message),
    })
    const reading = setInterval(() => void store.notification('acme', 'any').catch(() => {}), 10)
    t.after(async () => {
      clearInterval(reading)
      await members.close()
      await store.close()
      proxy.close()
    })
    proxy.leadTo(standby.url)
    proxy.cutAll()
    while (!faults.some((message) => /standby|read-only/.test(message))) await sleep(20)
    const fault = { code: 'STORE_UNAVAILABLE', message: /only reads: it is a standby/ }
    await assert.rejects(store.notification('acme', 'any'), fault)
    proxy.leadTo(primary.url)

    const accepted = someNotification()
    assert.deepEqual(await store.commit({ accept: [accepted] }), { applied: true })
    assert.deepEqual(await store.notification(accepted.tenant, accepted.id), accepted)
    const beat = async () => Number((await askPrimary('SELECT beat FROM standby.member'))[0]!.beat)
    const before = await beat()
    for (const end = Date.now() + 10_000; (await beat()) === before; await sleep(20))
      assert.ok(Date.now() < end, 'it beats no more, and the others declare it dead')
  })
})
