import { createMemoryThrottle } from '../../../../src/adapters/state/throttle/memory-throttle.ts'
import { exerciseThrottle } from '../../../../src/conformance/throttle.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { createMemoryStore } from '../../../../src/store/memory/memory.ts'

exerciseThrottle('Throttle queues in memory', ({ marginMs, ...rates }) => {
  const clock = createVirtualClock(1_000_000)
  const state = createMemoryThrottle({
    store: createMemoryStore(),
    clock,
    marginMs,
    ratesOf: (tenant) => (tenant === 'acme' ? rates : { tenant: [], module: [] }),
  })
  return { state, now: clock.now, until: clock.runUntil }
})
