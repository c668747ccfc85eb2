/** The suite of what is left to a broker, for the stores of one process. */

import { exerciseLeftToBroker } from '../../../src/conformance/left-to-broker.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import { createLocalLeft } from '../../../src/scheduler/outgoing/local-left.ts'
import { createMemoryStore } from '../../../src/store/memory/memory.ts'
import { createSqliteStore } from '../../../src/store/sqlite/sqlite.ts'

for (const [name, open] of [
  ['What is left to a broker, with a store in Maps', () => createMemoryStore()],
  [
    'What is left to a broker, with SQLite',
    () => createSqliteStore({ clock: stillClock(epoch), path: ':memory:' }),
  ],
] as const)
  exerciseLeftToBroker(name, async () => {
    const store = open()
    return {
      join: async () => ({ id: '1', store, left: createLocalLeft(store) }),
      close: async () => void (await store.close()),
    }
  })
