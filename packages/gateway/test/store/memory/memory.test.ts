/** The suite of every store, on the one without a disk. */

import { exerciseStore } from '../../../src/conformance/store.ts'
import { createMemoryStore } from '../../../src/store/memory/memory.ts'

exerciseStore('Maps', async () => createMemoryStore(), { durable: false, checksRights: true })
