/** Nobody on record is taken for a stranger, wherever the record has them; and nearly all strangers are known as such. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, it } from 'node:test'
import { epoch, someNotification, stillClock } from '../../../../src/conformance/store/sample.ts'
import type { Change } from '../../../../src/ports.ts'
import { type ChangeLog, changeLogOf, writesOf } from '../../../../src/store/sqlite/codec/change-log.ts'
import { createBloomFilter } from '../../../../src/store/sqlite/indexes/bloom-filter.ts'
import { createSqliteStore } from '../../../../src/store/sqlite/sqlite.ts'
import type { EngineClient } from '../../../../src/store/sqlite/worker/engine-client.ts'
import { openInProcess } from '../../../../src/store/sqlite/worker/in-process.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-strangers-'))
after(() => rmSync(folder, { recursive: true }))

const tenant = 'acme'
const open = (name: string): EngineClient =>
  openInProcess({ path: join(folder, name), now: epoch, onFault: ({ message }) => assert.fail(message) })

const logOf = (change: Change): ChangeLog => changeLogOf([writesOf(change)])

async function loadedFrom(link: EngineClient) {
  const bloomFilter = createBloomFilter(link.hashKey)
  await bloomFilter.load((cursor) => link.ask('known', cursor))
  return bloomFilter
}

it('knows all recipients on record after reopening, flushed to the index or not', async () => {
  // More than a generation of the index, so that some are in its table, in several pages, and some only noted.
  const ids = Array.from({ length: 60_000 }, (_, n) => `person-${n}`)
  const preferring = Array.from({ length: 12_000 }, (_, n) => `preferring-${n}`)
  const written = open('many.db')
  for (let from = 0; from < ids.length; from += 1_000) {
    const accept = ids.slice(from, from + 1_000).map((id) => someNotification({ tenant, to: { id } }))
    await written.write(logOf({ accept }))
  }
  await written.write(logOf({ recipients: preferring.map((id) => ({ tenant, id })) }))
  await written.close(true)

  const opened = open('many.db')
  const bloomFilter = await loadedFrom(opened)
  await opened.close(true)
  for (const id of ids) assert.equal(bloomFilter.has('notifications', tenant, id), false, id)
  for (const id of preferring) assert.equal(bloomFilter.has('preferences', tenant, id), false, id)
  const others = Array.from({ length: 10_000 }, (_, n) => `other-${n}`)
  const recognised = others.filter((id) => bloomFilter.has('notifications', tenant, id)).length
  assert.ok(recognised > 9_900, `${recognised} of ${others.length} strangers are known as such`)
})

it('takes no recipient for new before the scan has ended, nor one that was just added', async () => {
  const link = open('few.db')
  const bloomFilter = createBloomFilter(link.hashKey)
  assert.equal(bloomFilter.has('notifications', tenant, 'ann'), false)
  await bloomFilter.load((cursor) => link.ask('known', cursor))
  assert.equal(bloomFilter.has('notifications', tenant, 'ann'), true)
  bloomFilter.meet('notifications', tenant, 'ann')
  assert.equal(bloomFilter.has('notifications', tenant, 'ann'), false)
  await link.close(true)
})

it('finds a notification just written for a recipient that was new', async () => {
  const store = createSqliteStore({ clock: stillClock(epoch), path: join(folder, 'met.db') })
  // By then the store has read who is on record.
  for (let turn = 0; turn < 20; turn += 1) await store.ping()
  const query = { tenant, recipient: 'ann', since: 0, limit: 10 }
  assert.deepEqual(await store.admissions(query), [])
  assert.equal(await store.recipient(tenant, 'ann'), undefined)
  await store.commit({ accept: [someNotification({ tenant, to: { id: 'ann' } })] })
  assert.equal((await store.admissions(query)).length, 1)
  await store.commit({ recipients: [{ tenant, id: 'bob', locale: 'de' }] })
  assert.equal((await store.recipient(tenant, 'bob'))?.locale, 'de')
  await store.close()
})
