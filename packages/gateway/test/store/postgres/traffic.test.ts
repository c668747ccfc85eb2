/** The suite of sources of traffic on a real PostgreSQL, beside the process that writes. */
import { after, describe } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import { exerciseTraffic } from '../../../src/conformance/traffic.ts'
import { openPostgresTraffic } from '../../../src/store/postgres/traffic-source.ts'
import { addressOf, clear, dropSchemas, openAt, schemaUrl } from './database.ts'

describe('traffic on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)
  let isMade = false
  exerciseTraffic('Traffic of a schema', async () => {
    const url = schemaUrl('traffic')
    if (isMade) await clear(url)
    isMade = true
    const store = await openAt(url, stillClock(epoch))
    return { store, open: () => openPostgresTraffic(addressOf(url)), close: () => store.close() }
  })
})
