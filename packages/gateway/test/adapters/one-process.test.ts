import assert from 'node:assert/strict'
import { createLocalHints, createMemoryOnce, createOneMember } from '../../src/adapters/one-process.ts'
import { createRandom } from '../../src/adapters/random.ts'
import { exerciseMembers } from '../../src/conformance/members.ts'
import { exerciseNotifier } from '../../src/conformance/notifier.ts'
import { exerciseOnce } from '../../src/conformance/once.ts'

const clock = { now: () => 1_000_000 }

exerciseMembers(
  'One process',
  () => createOneMember(createRandom(), clock),
  async (condition) => assert.ok(condition(), 'at once'),
)

exerciseNotifier(
  'Processes in one process',
  () => ({ ...createLocalHints(), close: async () => {} }),
  async (condition) => {
    for (let turns = 0; !condition() && turns < 100; turns += 1)
      await new Promise<void>((resolve) => setImmediate(resolve))
  },
)

exerciseOnce('requests in progress in memory', createMemoryOnce)
