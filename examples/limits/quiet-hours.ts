/** Quiet hours are intervals in which nothing may leave: `reserve` finds the first instant outside them all. */
import { createLimits, forbiddenIntervals, isQuiet, limit, memoryStore, nextAllowed } from '@sluice/limits'

const now = Date.UTC(2026, 10, 21, 22, 30) // 23:30 in Rome
const limits = createLimits({ store: memoryStore({ now: () => now }) })
const quiet = { from: '22:00', to: '08:00', timeZone: 'Europe/Rome' }

console.log(isQuiet(now, quiet), new Date(nextAllowed(now, quiet)).toISOString())

const rules = [limit('push', '2/h')]
const forbidden = forbiddenIntervals(quiet, now, now + 7 * 86_400_000)
for (const id of ['n-1', 'n-2', 'n-3']) {
  const { at, limit: by } = await limits.reserve('user:42', rules, { id, forbidden })
  console.log(id, new Date(at).toISOString(), by ?? 'quiet hours')
}

/* prints
true 2026-11-22T07:00:00.000Z
n-1 2026-11-22T07:00:00.000Z quiet hours
n-2 2026-11-22T07:00:00.000Z quiet hours
n-3 2026-11-22T08:00:00.000Z push
*/
