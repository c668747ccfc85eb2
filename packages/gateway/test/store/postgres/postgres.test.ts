/** The suites of every store, and of a store that several processes share, on a real PostgreSQL. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { exerciseStore } from '../../../src/conformance/store.ts'
import { exerciseStoreMembers } from '../../../src/conformance/store-members.ts'
import type { Store } from '../../../src/ports.ts'
import { ask, clear, dropSchemas, openAt, schemaUrl } from './database.ts'

describe('the store on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)
  let present = ''
  exerciseStore(
    'PostgreSQL',
    async ({ clock, place, isLogged }) => {
      const url = schemaUrl('alone')
      if (place !== present) await clear(url)
      present = place
      return openAt(url, clock, undefined, isLogged)
    },
    { durable: true, checksRights: true },
  )

  let members = 0
  exerciseStoreMembers('Several processes on PostgreSQL', async () => {
    const url = schemaUrl('fleet')
    await clear(url)
    const stores: Store[] = []
    return {
      async join() {
        members += 1
        const id = String(members)
        const store = await openAt(url, stillClock(epoch), id)
        stores.push(store)
        return { store, id, kill: async () => void (await ask(url, `SELECT declare_dead(${id})`)) }
      },
      async close() {
        for (const store of stores) await store.close().catch(() => {})
      },
    }
  })

  it('reads recipients on when a gateway of a newer version has completed the schema', async (t) => {
    const url = schemaUrl('newer')
    const store = await openAt(url, stillClock(epoch))
    t.after(() => store.close())
    await store.commit({ accept: [someNotification()] })
    const counted = () => store.counted({ tenant: 'acme', recipient: 'user-1', since: 0, limit: 1_000 })
    assert.equal((await counted()).items.length, 1)
    const [view] = await ask(url, "SELECT rtrim(pg_get_viewdef('whole'::regclass), ';') AS text")
    await ask(url, `CREATE OR REPLACE VIEW whole AS SELECT w.*, 1 AS later FROM (${view!.text}) w`)
    assert.equal((await counted()).items.length, 1)
  })
})
