/** The suites of the store on the record in memory that several processes share. */
import { exerciseStore } from '../../../src/conformance/store.ts'
import { exerciseStoreMembers } from '../../../src/conformance/store-members.ts'
import { createMemoryRecord } from '../../../src/store/memory/memory.ts'

const rightMs = 250

exerciseStoreMembers('A record in memory', async () => {
  const record = createMemoryRecord(rightMs)
  let members = 0
  return {
    async join() {
      members += 1
      const id = `member-${members}`
      return { store: record.open(id), id, kill: async () => record.declareDead(id) }
    },
    close: async () => {},
  }
})

exerciseStore('One process on a shared record', async () => createMemoryRecord(rightMs).open('one'), {
  durable: false,
  checksRights: true,
})
