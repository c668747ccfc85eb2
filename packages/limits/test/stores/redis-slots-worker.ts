/**
 * One of several processes that lease the same accounts and use every token, at once or a little later in its slot. It
 * prints when each was granted and when it was used, in microseconds of the machine's monotonic clock, which all
 * processes share. What a busy machine wakes it too late for is not used.
 */
import process from 'node:process'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createSlotLeases, redisSlots, type SlotLease } from '../../src/index.ts'
import { type SlotLog, slotAccounts } from './redis-slots-accounts.ts'

const [url, prefix, runMs] = [process.argv[2]!, process.argv[3]!, Number(process.argv[4])]
const client = new Redis(url)
const leases = createSlotLeases({ store: redisSlots(client, { prefix, deadlineMs: 5_000 }) })
const logs = new Map<string, SlotLog>(slotAccounts.map(({ account }) => [account, { granted: [], used: [] }]))
const micros = () => Number(process.hrtime.bigint() / 1_000n)

/** The instant is read before the lease is asked, and is within the slot where the lease says yes. */
function use(lease: SlotLease, count: number): void {
  const { used } = logs.get(lease.account)!
  for (let token = 0; token < count; token += 1) {
    const at = micros()
    if (!lease.use()) return
    used.push(at)
  }
}

const endMs = performance.now() + runMs
for (let round = 0; performance.now() < endMs; round += 1) {
  const all = await leases.lease(slotAccounts)
  for (const lease of all) {
    if (lease.granted > 0) logs.get(lease.account)!.granted.push([micros(), lease.granted])
    // Every eighth round keeps a quarter of its tokens for the second half of the slot.
    use(lease, round % 8 === 0 ? Math.ceil((3 * lease.granted) / 4) : lease.granted)
  }
  if (round % 8 === 0) {
    await wait(all[0].endsInMs / 2)
    for (const lease of all) use(lease, lease.left)
  }
  await wait(all[0].endsInMs)
}
process.stdout.write(JSON.stringify(Object.fromEntries(logs)))
client.disconnect()
