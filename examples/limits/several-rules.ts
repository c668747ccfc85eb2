/**
 * All or nothing over several streams of one person: marketing, each author, everything. What one limit refuses takes
 * nothing from the others.
 */
import { createLimits, limit, memoryStore, onStream } from '@sluice/limits'

let now = Date.UTC(2026, 10, 21, 12)
const limits = createLimits({ store: memoryStore({ now: () => now }) })
const marketing = limit('marketing', '2/day, 5/week')
const perAuthor = limit('author', '1/day')
const everything = limit('everything', '100/30min', { minGap: '300ms' })

async function notify(author: string): Promise<void> {
  const rules = [marketing, onStream(perAuthor, `author:${author}`), everything]
  const decision = await limits.take('user:42', rules)
  const why = decision.allowed ? 'goes' : `waits for ${decision.refusedBy.join(' and ')}`
  console.log(`${author}: ${why}; everything has ${decision.rules.at(-2)?.remaining} left`)
  now += 1_000
}

await notify('ada')
await notify('ada')
await notify('bob')
await notify('cleo')

/* prints
ada: goes; everything has 99 left
ada: waits for author; everything has 99 left
bob: goes; everything has 98 left
cleo: waits for marketing; everything has 98 left
*/
