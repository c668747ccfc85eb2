/** Notifications per user, channel and category over the default table: marketing by email is 2 a day. */
import { limit as limitOf, memoryStore, NotificationRateLimiter } from '@sluice/limits'

const store = memoryStore({ now: () => Date.UTC(2026, 10, 21, 12) })
const limiter = new NotificationRateLimiter({
  store,
  everything: [limitOf('everything', '100/30min')], // above all rows, if you like
})

async function send(channel: string, category: string, actor = ''): Promise<void> {
  const { allowed, remaining, resetAt, rule, limit } = await limiter.checkAndConsume({
    userId: 'user-42',
    channel,
    category,
    actor,
  })
  const told = allowed
    ? `goes, ${remaining} more by ${limit}`
    : `waits until ${new Date(resetAt).toISOString()} for ${rule} of ${limit}`
  console.log(`${category} by ${channel}: ${told}`)
}

for (let count = 0; count < 3; count += 1) await send('email', 'marketing')
await send('email', 'security')
for (let count = 0; count < 4; count += 1) await send('push', 'activity', 'author-7')

/* prints
marketing by email: goes, 1 more by marketing-email
marketing by email: goes, 0 more by marketing-email
marketing by email: waits until 2026-11-22T12:00:00.000Z for 2/day of marketing-email
security by email: goes, 9 more by security-email
activity by push: goes, 2 more by activity-per-author
activity by push: goes, 1 more by activity-per-author
activity by push: goes, 0 more by activity-per-author
activity by push: waits until 2026-11-22T12:00:00.000Z for 3/day of activity-per-author
*/
