/** Gateways behind deliveries that recipients complain about: what the tests of the complaint guard share. */
import { someNotification } from '../../src/conformance/store/sample.ts'
import { advance } from '../../src/model.ts'
import type { Change, Store } from '../../src/ports.ts'
import { createVirtualClock, type VirtualClock } from '../../src/simulation/clock.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { createHarness, type Harness, minute } from '../harness.ts'

export const start = Date.UTC(2026, 10, 21, 12)
export const marketing = { category: 'marketing' } as const
export const byDefault = {
  warnAt: '0.05%',
  pauseAt: '0.1%',
  window: '7d',
  minimumDelivered: 1000,
  categories: ['marketing'],
}
/** Rules that few notifications reach: a hundred deliveries take what the default policy takes of thousands. */
export const small = { ...byDefault, warnAt: '5%', pauseAt: '10%', window: '1d', minimumDelivered: 50 }
export const policyOf = (complaints: object) => ({ version: 1, limits: [], complaints })

/** Writes marketing notifications that were delivered in the last half hour. */
async function deliver(store: Store, count: number, clock: VirtualClock): Promise<string[]> {
  const ids: string[] = []
  const now = clock.now()
  const commit = (change: Change) => Promise.all([store.commit(change), clock.settle()])
  for (let done = 0; done < count; done += 500) {
    const accept = Array.from({ length: Math.min(500, count - done) }, (_, index) => {
      const createdAt = now - 30 * minute + done + index
      return someNotification({ tenant: 'default', ...marketing, createdAt })
    })
    ids.push(...accept.map(({ id }) => id))
    await commit({ accept })
    const moves = accept.map((each) => {
      const { createdAt: firedAt } = each
      const events = [
        { at: firedAt, status: 'sending' },
        { at: firedAt, status: 'delivered' },
      ] as const
      return advance(each, events, { firedAt, attempts: 1, dueAt: firedAt })
    })
    await commit({ moves })
  }
  return ids
}

/** A gateway behind so many deliveries. */
export async function gatewayBehind(delivered: number, complaints: object, file = ':memory:') {
  const clock = createVirtualClock(start)
  const store = createSqliteStore({ path: file, clock, thread: false })
  const ids = await deliver(store, delivered, clock)
  const harness = await createHarness({ clock, policy: policyOf(complaints), wrap: () => store })
  pleasing.set(harness, ids)
  return harness
}

/** The delivered notifications of a gateway that nobody has complained about. */
const pleasing = new WeakMap<Harness, string[]>()

/** Reports complaints as a caller does. */
export async function complain(harness: Harness, count: number): Promise<void> {
  const { gateway, clock } = harness
  await harness.done(gateway.complaints.filled())
  const ids = pleasing.get(harness)!.splice(0, count)
  const reports = ids.map(
    (notificationId) => ({ type: 'complaint', at: clock.now(), notificationId }) as const,
  )
  await harness.done(gateway.feedback.report(reports, { tenant: 'default' }))
}

export const reportOf = (harness: Harness) =>
  harness.gateway.complaints
    .report()
    .find(({ tenant, category }) => tenant === 'default' && category === 'marketing')!
