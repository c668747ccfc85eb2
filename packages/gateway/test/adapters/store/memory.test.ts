/** The suite of every store, on the one without a disk. */
import { createMemoryStore } from '../../../src/adapters/store/memory.ts'
import { exerciseStore } from '../../../src/conformance/store.ts'

exerciseStore('Maps', async () => createMemoryStore(), { durable: false })
