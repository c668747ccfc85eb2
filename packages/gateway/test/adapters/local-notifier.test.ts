import { createLocalHints } from '../../src/adapters/local-notifier.ts'
import { exerciseNotifier } from '../../src/conformance/notifier.ts'

exerciseNotifier(
  'Processes in one process',
  () => ({ ...createLocalHints(), close: async () => {} }),
  async (condition) => {
    for (let turns = 0; !condition() && turns < 100; turns += 1)
      await new Promise<void>((resolve) => setImmediate(resolve))
  },
)
