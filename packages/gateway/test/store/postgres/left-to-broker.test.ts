/** The suites of what is left to a broker, on a real PostgreSQL. */
import { after, describe } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { exerciseLeftToBroker, exerciseSharedLeft } from '../../../src/conformance/left-to-broker.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import type { Store } from '../../../src/ports.ts'
import { clear, dropSchemas, openAt, schemaUrl } from './database.ts'

describe('what is left to a broker, on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)
  let members = 0
  const open = async () => {
    const url = schemaUrl('left')
    await clear(url)
    const stores: Store[] = []
    return {
      async join() {
        members += 1
        const id = String(members)
        const store = await openAt(url, stillClock(epoch), id)
        stores.push(store)
        return { id, store, left: store.leftToBroker! }
      },
      async close() {
        for (const store of stores) await store.close().catch(() => {})
      },
    }
  }
  exerciseLeftToBroker('PostgreSQL', open)
  exerciseSharedLeft('Several processes on PostgreSQL', open)
})
