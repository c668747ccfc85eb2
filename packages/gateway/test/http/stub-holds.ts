/** Stands for pools and the holds of operators, for the forms of requests and answers. */
import type { HoldRecord } from '../../src/ports.ts'
import type { OperatorHolds } from '../../src/stages.ts'

/** Holds in memory that do not end by themselves. */
export function stubHolds(now: () => number): OperatorHolds {
  const holds = new Map<string, HoldRecord>()
  return {
    list: () => [...holds.values()],
    async put(request) {
      const hold = { ...request, since: holds.get(request.name)?.since ?? now() }
      holds.set(hold.name, hold)
      return hold
    },
    end: async (name) => holds.delete(name),
  }
}

/** No pool at all. */
export const noPools = {
  pools: () => [],
  poolsView: { details: () => [], past: () => undefined },
}
