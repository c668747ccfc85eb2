/** The suite of every store, on a real PostgreSQL. */
import { after, describe } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { exerciseStore } from '../../../src/conformance/store.ts'
import { dropSchemas, openAt, schemaUrl } from './database.ts'

describe('the store on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)
  exerciseStore('PostgreSQL', ({ clock, place }) => openAt(schemaUrl(place), clock), {
    durable: true,
    checksRights: true,
  })
})
