/** The suites of every store, and of a store that several processes share, on a real PostgreSQL. */
import { after, describe } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
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
})
