/** Check and count in one call: two windows and a clock of our own, so that the output is the same every time. */
import { createLimits, limit, memoryStore } from '@sluice/limits'

let now = Date.UTC(2026, 10, 21, 12)
const limits = createLimits({ store: memoryStore({ now: () => now }) })
const rules = [limit('login', '3/min, 5/h')]

for (let call = 1; call <= 5; call += 1) {
  const { allowed, retryAfterMs, rules: rows } = await limits.take('user:42', rules)
  const left = rows.map(({ window, remaining }) => `${remaining} of ${window}`).join(', ')
  console.log(allowed ? `admitted, ${left} left` : `refused for ${retryAfterMs / 1_000} s, ${left} left`)
  now += 10_000
}

/* prints
admitted, 2 of 3/min, 4 of 5/h left
admitted, 1 of 3/min, 3 of 5/h left
admitted, 0 of 3/min, 2 of 5/h left
refused for 30 s, 0 of 3/min, 2 of 5/h left
refused for 20 s, 0 of 3/min, 2 of 5/h left
*/
