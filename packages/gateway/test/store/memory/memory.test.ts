/** The suite of every store, on the one without a disk. */

import { exerciseStore } from '../../../src/conformance/store.ts'
import { createLoggedMemoryStore, createMemoryStore } from '../../../src/store/memory/memory.ts'

exerciseStore(
  'Maps',
  async ({ clock, isLogged }) => (isLogged ? createLoggedMemoryStore(clock) : createMemoryStore()),
  { durable: false, checksRights: true },
)
