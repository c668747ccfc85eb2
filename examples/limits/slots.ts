/**
 * The rate of a provider's accounts, kept exactly by many processes: each leases tokens of the slot at hand for all its
 * accounts in one call, and uses them without asking again until the slot is over. Over Redis it is the same with
 * `redisSlots(client)`; the clock is our own here, so that the output is the same every time.
 */
import { createSlotLeases, memorySlots } from '@sluice/limits'

let now = Date.UTC(2026, 10, 21, 12)
const store = memorySlots({ now: () => now })
const [here, there] = [createSlotLeases({ store, slotMs: 20 }), createSlotLeases({ store, slotMs: 20 })]

// Two processes want more than the accounts may send: together they get what there is.
const asks = [
  { account: 'sms-1', windows: '10/s', want: 8 },
  { account: 'mail-1', windows: ['100/s', '50000/h'], want: 60 },
]
for (const process of [here, there]) {
  const leases = await process.lease(asks)
  console.log(
    leases.map(({ account, granted, endsInMs }) => `${account}: ${granted} for ${endsInMs} ms`).join(', '),
  )
}

// The provider said 429, Retry-After: 5. Nobody sends on that account, and nobody need be told.
const [lease] = await here.lease([{ account: 'mail-2', windows: '100/s', want: 2 }])
await here.block('mail-2', now + 5_000)
const [theirs] = await there.lease([{ account: 'mail-2', windows: '100/s', want: 2 }])
console.log(
  'mine:',
  lease.use(),
  '· theirs:',
  theirs.granted,
  '· until',
  new Date(theirs.blockedUntil ?? 0).toISOString(),
)

// It fails too often: out for a second, and then one process of all may try it with one call.
await here.block('mail-2', now + 1_000, { halfOpen: true })
now += 1_000
const probes = await Promise.all(
  [here, there].map((one) => one.probe({ account: 'mail-2', windows: '100/s' })),
)
console.log('probes:', probes.map(({ granted }) => granted).join(' and '))
await here.unblock('mail-2') // it succeeded; else block it again, for longer
const [healthy] = await there.lease([{ account: 'mail-2', windows: '100/s', want: 2 }])
console.log('healthy:', healthy.granted)

/* prints
sms-1: 8 for 20 ms, mail-1: 60 for 20 ms
sms-1: 2 for 20 ms, mail-1: 40 for 20 ms
mine: false · theirs: 0 · until 2026-11-21T12:00:05.000Z
probes: 1 and 0
healthy: 2
*/
