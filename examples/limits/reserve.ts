/**
 * A waiting notification gets its instant now, and holds it: `reserve` books the earliest instant that every limit
 * admits, `fire` checks once more when it leaves, `cancel` releases the slot.
 */
import { createLimits, limit, memoryStore } from '@sluice/limits'

let now = Date.UTC(2026, 10, 21, 12)
const limits = createLimits({ store: memoryStore({ now: () => now }) })
const rules = [limit('marketing', '2/day')]
const show = (at: number): string => new Date(at).toISOString()

for (const id of ['n-1', 'n-2', 'n-3', 'n-4']) {
  const { at } = await limits.reserve('user:42', rules, { id })
  console.log(id, show(at))
  now += 60_000
}
for (const id of ['n-1', 'n-2']) await limits.fire('user:42', id, rules)

await limits.cancel('user:42', 'n-4')
const fifth = await limits.reserve('user:42', rules, { id: 'n-5' })
console.log('n-5 takes the place of n-4:', show(fifth.at))

// The process slept, and leaves an hour late: fire tests against what really left.
now = Date.UTC(2026, 10, 22, 13)
const late = await limits.fire('user:42', 'n-3', rules)
console.log('n-3 fired:', late.fired, show(late.at))

/* prints
n-1 2026-11-21T12:00:00.000Z
n-2 2026-11-21T12:01:00.000Z
n-3 2026-11-22T12:00:00.000Z
n-4 2026-11-22T12:01:00.000Z
n-5 takes the place of n-4: 2026-11-22T12:04:00.000Z
n-3 fired: true 2026-11-22T13:00:00.000Z
*/
