import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryRoom } from '../../src/adapters/state/memory-room.ts'
import { SluiceError } from '../../src/errors.ts'
import { createLedger } from '../../src/ledger/ledger.ts'
import { advance, type Notification } from '../../src/model.ts'
import type { TenantBounds } from '../../src/ports/tenants.ts'
import type { Store } from '../../src/ports.ts'
import { createVirtualClock, type VirtualClock } from '../../src/simulation/clock.ts'
import type { Begun, Happening, Ledger, Room } from '../../src/stages.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'
import { overriding } from '../overriding.ts'
import { queuedAt } from '../queued.ts'

const start = 1_000_000
let serial = 0

function queued(patch: Partial<Notification> = {}): Notification {
  serial += 1
  return queuedAt(start, `n${serial}`, patch)
}

interface Setup extends Partial<TenantBounds> {
  readonly store?: Store
  readonly clock?: VirtualClock
  readonly timeCommit?: () => () => void
}

function ledgerOf({ store, clock, timeCommit, ...bounds }: Setup = {}): Promise<Ledger> {
  return createLedger({
    store: store ?? createMemoryStore(),
    clock: clock ?? createVirtualClock(start),
    room: createMemoryRoom(),
    boundsFor: () => ({ queueMax: 10, waitingMax: 5, bytesMax: 1_000, ...bounds }),
    ...(timeCommit === undefined ? {} : { timeCommit }),
  })
}

const room = (more: Partial<Room>): Room => ({ queue: 0, critical: 0, waiting: 0, ...more })
const full = { code: 'QUEUE_FULL' }

test('notifications waiting at process start count in the bounds of their tenant', async () => {
  const store = createMemoryStore()
  const decision = { outcome: 'delay', reason: 'tenant_limit', policyVersion: 'p', rules: [] } as const
  const dead = queued()
  const over = queued()
  await store.commit({
    accept: [
      queued(),
      queued(),
      dead,
      over,
      queued({ status: 'scheduled', decision }),
      queued({ status: 'scheduled' }),
      queued({ tenant: 'other' }),
    ],
  })
  await store.commit({
    moves: [
      advance(dead, [{ at: start, status: 'dead', reason: 'shed' }]),
      advance(over, [{ at: start, status: 'cancelled' }]),
    ],
  })
  const ledger = await ledgerOf({ store })
  assert.deepEqual(ledger.occupancy('acme'), { queue: 4, waiting: 1, bytes: 0 })
  assert.deepEqual([ledger.counts().queued, ledger.counts().dead], [3, 1])
  // Also where the operator has lowered the bounds meanwhile: only the bound that is exceeded refuses.
  const lower = await ledgerOf({ store, queueMax: 1 })
  lower.takeRoom('acme', room({ waiting: 1 }))
  assert.throws(() => lower.takeRoom('acme', room({ critical: 1 })), full)
  const none = await ledgerOf({ store, waitingMax: 0 })
  none.takeRoom('acme', room({ queue: 1 }))
  assert.throws(() => none.takeRoom('acme', room({ waiting: 1 })), full)
})

test('each change is counted and published only after it is committed', async () => {
  let timed = 0
  const timeCommit = () => () => {
    timed += 1
  }
  const ledger = await ledgerOf({ timeCommit })
  const told: string[] = []
  const hear = ({ notification, events }: Happening): void => {
    const path = events.map(({ status }) => status).join(' ')
    told.push(`${notification.id} ${path}: ${ledger.counts().queued} queued`)
  }
  const forget = ledger.subscribe(hear)
  const one = queued()
  await ledger.commit({ accept: [one] })
  const move = advance(one, [{ at: start, status: 'cancelled' }])
  await ledger.commit({ moves: [move] })
  const conflict = await ledger.commit({ moves: [move] })
  assert.equal(conflict.applied, false)
  assert.deepEqual(told, [`${one.id} accepted queued: 1 queued`, `${one.id} cancelled: 0 queued`])
  assert.deepEqual([ledger.counts().queued, ledger.counts().cancelled], [0, 1])
  assert.deepEqual(ledger.occupancy('acme'), { queue: 0, waiting: 0, bytes: 0 })
  assert.equal(timed, 3)
  forget()
  await ledger.commit({ accept: [queued()] })
  assert.equal(told.length, 2)
})

test('only the version held last is current', async () => {
  const ledger = await ledgerOf()
  const old = queued()
  ledger.hold(old)
  const fresh = { ...old, attempts: 1 }
  ledger.hold(fresh)
  assert.deepEqual([ledger.isCurrent(old), ledger.isCurrent(fresh)], [false, true])
  ledger.release(old)
  assert.equal(ledger.isCurrent(fresh), true)
  assert.equal(ledger.mark(old, 'sending'), false)
  assert.equal(ledger.mark(fresh, 'sending'), true)
  assert.equal(ledger.mark(fresh, 'sending'), true)
  assert.deepEqual(ledger.live(old.id)?.events, [{ at: start, status: 'sending' }])
  ledger.release(fresh)
  assert.equal(ledger.live(old.id), undefined)
})

test('begin gives the right to send to current notifications at once, and a right given back leaves no trace', async () => {
  const store = createMemoryStore()
  const ledger = await ledgerOf({ store })
  const [current, old, unknown] = [queued(), queued(), queued()]
  await store.commit({ accept: [current, old] })
  ledger.hold(current)
  ledger.hold(old)
  ledger.hold({ ...old, attempts: 1 })
  const begun = ledger.begin([current, old, unknown].map((notification) => ({ notification })))
  assert.ok(!(begun instanceof Promise), 'no other process is asked')
  assert.deepEqual([...begun.refused], [old.id, unknown.id])
  assert.equal(begun.until, Number.POSITIVE_INFINITY)
  assert.deepEqual(
    [ledger.live(current.id)?.status, ledger.live(current.id)?.events, ledger.live(old.id)?.status],
    ['sending', [], 'queued'],
  )
  ledger.mark(current, 'queued')
  assert.deepEqual([ledger.live(current.id)?.status, ledger.live(current.id)?.events], ['queued', []])
  ledger.begin([{ notification: current }])
  ledger.mark(current, 'sending')
  assert.deepEqual(ledger.live(current.id)?.events, [{ at: start, status: 'sending' }])
})

test('each bound admits up to its maximum, and a full one is named in the error and does not close the other', async () => {
  const ledger = await ledgerOf()
  ledger.takeRoom('acme', room({ queue: 10 }))
  const refusedBy = (wanted: Partial<Room>, text: RegExp) =>
    assert.throws(() => ledger.takeRoom('acme', room(wanted)), { ...full, message: text })
  refusedBy(
    { queue: 1 },
    /^Notification queue is at capacity. Retry after existing notifications are processed.$/,
  )
  ledger.takeRoom('acme', room({ waiting: 4 }))
  ledger.takeRoom('acme', room({ waiting: 1 }))
  refusedBy({ waiting: 1 }, /has 5 of at most 5 notifications waiting/)
  ledger.takeRoom('acme', room({ critical: 1 }))
  refusedBy({ critical: 1 }, /is at capacity/)
  // With both bounds full, a request that needs neither passes.
  ledger.takeRoom('acme', room({}))
  assert.deepEqual(ledger.occupancy('acme'), { queue: 11, waiting: 5, bytes: 0 })
  ledger.takeRoom('other', room({ queue: 10 }))
})

test('critical notifications above the queue bound take no room from the waiting bound', async () => {
  const ledger = await ledgerOf()
  ledger.takeRoom('acme', room({ critical: 11 }))
  ledger.takeRoom('acme', room({ waiting: 5 }))
  assert.throws(() => ledger.takeRoom('acme', room({ queue: 1 })), full)
})

test('room is given back once, in both bounds', async () => {
  const ledger = await ledgerOf()
  ledger.takeRoom('acme', room({ queue: 1, waiting: 1 }))
  const { giveBack } = await ledger.takeRoom('acme', room({ queue: 2, critical: 1, waiting: 2 }))
  assert.deepEqual(ledger.occupancy('acme'), { queue: 4, waiting: 3, bytes: 0 })
  giveBack()
  giveBack()
  assert.deepEqual(ledger.occupancy('acme'), { queue: 1, waiting: 1, bytes: 0 })
})

test('pruned notifications are not counted any more', async () => {
  const ledger = await ledgerOf()
  const one = queued()
  const two = queued()
  await ledger.commit({ accept: [one, two] })
  await ledger.commit({ moves: [advance(one, [{ at: start, status: 'cancelled' }])] })
  assert.equal(ledger.oldestAt(), undefined)
  assert.equal(await ledger.prune({ answers: 0, notifications: Number.MAX_SAFE_INTEGER }), 1)
  assert.equal(ledger.counts().cancelled, 0)
  assert.deepEqual([ledger.counts().queued, ledger.pruned(), ledger.oldestAt()], [1, 1, two.createdAt])
})

test('waiting content is counted, shared content once, and a tenant with nothing waiting has no entry', async () => {
  const ledger = await ledgerOf()
  const shared = { id: 'c1', bytes: 400 }
  const content = { ...shared, tenant: 'acme', content: { text: 'said to all' } }
  const [one, two, own] = [queued({ shared }), queued({ shared }), queued({ bytes: 300 })]
  const refusedBy = (bytes: number, more = {}) =>
    assert.throws(() => ledger.takeRoom('acme', room({ queue: 1, bytes, ...more })), {
      ...full,
      message: /has 700 of at most 1000 bytes of content waiting/,
    })
  await ledger.commit({ contents: [content], accept: [one, two, own] })
  assert.deepEqual(ledger.occupancy('acme'), { queue: 3, waiting: 0, bytes: 700 })
  refusedBy(301)
  ;(await ledger.takeRoom('acme', room({ queue: 1, bytes: 300 }))).giveBack()
  ;(await ledger.takeRoom('acme', room({ critical: 1, bytes: 400 }))).giveBack()
  refusedBy(401, { queue: 0, critical: 1 })
  const ends = (each: Notification) => advance(each, [{ at: start, status: 'cancelled' }])
  await ledger.commit({ moves: [ends(one), ends(own)] })
  assert.deepEqual(ledger.occupancy('acme'), { queue: 1, waiting: 0, bytes: 400 })
  await ledger.commit({ moves: [advance(two, [{ at: start, status: 'dead', reason: 'shed' }])] })
  assert.equal(ledger.occupancy('acme').bytes, 400, 'a dead letter waits too')
  await ledger.commit({ moves: [ends(advance(two, [{ at: start, status: 'dead', reason: 'shed' }]).after)] })
  assert.deepEqual(ledger.occupancy('acme'), { queue: 0, waiting: 0, bytes: 0 })
})

/** A store whose commits are answered when `answer` is called for them, in order. */
function answeringLate(memory: Store): { readonly store: Store; readonly answer: () => void } {
  const answers: (() => void)[] = []
  const commit: Store['commit'] = async (change) => {
    const result = await memory.commit(change)
    await new Promise<void>((resolve) => answers.push(resolve))
    return result
  }
  return { store: overriding(memory, { commit }), answer: () => answers.shift()!() }
}

test('gives no right to send to a version that a change under way replaces', async () => {
  const memory = createMemoryStore()
  const { store, answer } = answeringLate(memory)
  const ledger = await ledgerOf({ store })
  const [notification, other] = [queued(), queued()]
  await memory.commit({ accept: [notification, other] })
  ledger.hold(notification)
  ledger.hold(other)
  const moving = ledger.commit({
    moves: [advance(notification, [{ at: start, status: 'scheduled' }], { dueAt: start + 1 })],
  })
  const { refused } = await ledger.begin([{ notification }, { notification: other }])
  assert.deepEqual([...refused], [notification.id])
  await new Promise((resolve) => setImmediate(resolve))
  answer()
  await moving
})

test('a version that a change under way replaces is not held, whoever brings it', async () => {
  const memory = createMemoryStore()
  const { store, answer } = answeringLate(memory)
  const ledger = await ledgerOf({ store })
  const notification = queued()
  await memory.commit({ accept: [notification] })
  const cancelling = ledger.commit({
    moves: [advance(notification, [{ at: start, status: 'cancelled' }], { dueAt: start })],
  })
  ledger.hold(notification)
  assert.equal(ledger.isCurrent(notification), false, 'it is being cancelled')
  await new Promise((resolve) => setImmediate(resolve))
  answer()
  await cancelling
  const other = queued()
  ledger.hold(other)
  assert.equal(ledger.isCurrent(other), true)
})

test('a watched notification tells whether it has moved since', async () => {
  const store = createMemoryStore()
  const ledger = await ledgerOf({ store })
  const notification = queued()
  await ledger.commit({ accept: [notification] })
  const [still, moved] = [ledger.watch(notification.id), ledger.watch(notification.id)]
  assert.equal(still(), false)
  await ledger.commit({ moves: [advance(notification, [{ at: start, status: 'cancelled' }])] })
  assert.equal(moved(), true)
  assert.equal(ledger.watch(notification.id)(), false, 'a new watch begins anew')
})

test('a commit whose answer was lost is looked up until the store answers, and counts as what it is', async () => {
  for (const isWritten of [true, false]) {
    const clock = createVirtualClock(start)
    const memory = createMemoryStore()
    const waiting = queued()
    await memory.commit({ accept: [waiting] })
    let refusals = 3
    const store = overriding(memory, {
      async commit(change) {
        if (isWritten) await memory.commit(change)
        throw new SluiceError('STORE_UNAVAILABLE', 'The connection was lost.', { isUncertain: true })
      },
      async isApplied(change) {
        refusals -= 1
        if (refusals >= 0) throw new SluiceError('STORE_UNAVAILABLE', 'It is away.')
        return memory.isApplied(change)
      },
    })
    const bounds = { queueMax: 10, waitingMax: 5, bytesMax: 1_000 }
    const ledger = await createLedger({ store, room: createMemoryRoom(), clock, boundsFor: () => bounds })
    ledger.hold(waiting)
    const heard: string[] = []
    ledger.subscribe(({ notification: { id, status } }) => heard.push(`${id} ${status}`))
    const accepted = queued()
    const committed = ledger
      .commit({ accept: [accepted], moves: [advance(waiting, [{ at: start, status: 'cancelled' }])] })
      .then(
        (result) => result.applied,
        (error: SluiceError) => error.code,
      )
    await clock.runUntil(start + 349)
    assert.deepEqual([heard, ledger.counts().queued], [[], 1], 'nothing is known yet')
    const { refused } = ledger.begin([{ notification: waiting }]) as Begun
    assert.deepEqual([...refused], [waiting.id], 'it may be cancelled')
    await clock.runUntil(start + 350)
    assert.equal(await committed, isWritten ? true : 'STORE_UNAVAILABLE')
    assert.deepEqual(heard, isWritten ? [`${accepted.id} queued`, `${waiting.id} cancelled`] : [])
    assert.equal(ledger.counts().queued, 1)
    assert.equal(ledger.isCurrent(waiting), !isWritten)
  }
})

/** A store across a network: its rights end after 250 ms, and it answers when the test says so. */
function askedForRights(answer: () => Promise<ReadonlySet<string>>): Store {
  const store = createMemoryStore()
  return Object.assign(store, { begin: async () => ({ refused: await answer(), forMs: 250 }) })
}

test('a right of a store across a network ends by the time of its asking, and what another process took is dropped', async () => {
  const clock = createVirtualClock(start)
  const { promise, resolve } = Promise.withResolvers<ReadonlySet<string>>()
  const ledger = await ledgerOf({ store: askedForRights(() => promise), clock })
  const [own, taken, stale] = [queued(), queued(), queued()]
  for (const each of [own, taken]) ledger.hold(each)
  const asking = ledger.begin([own, taken, stale].map((notification) => ({ notification })))
  // While it asks, this process itself neither cancels nor expires them.
  assert.deepEqual([ledger.live(own.id)?.status, ledger.live(taken.id)?.status], ['sending', 'sending'])
  await clock.runUntil(start + 200)
  resolve(new Set([taken.id]))
  const { refused, until } = await asking
  assert.deepEqual(refused, new Set([taken.id, stale.id]))
  assert.equal(until, start + 250)
  assert.equal(ledger.isCurrent(own), true)
  assert.equal(ledger.live(taken.id), undefined)
})

test('a right ends by the time at which the store sent its question, where it was behind others', async () => {
  const clock = createVirtualClock(start)
  const begin = async () => ({ refused: new Set<string>(), forMs: 250, askedAt: clock.monotonic() - 30 })
  const ledger = await ledgerOf({ store: Object.assign(createMemoryStore(), { begin }), clock })
  const own = queued()
  ledger.hold(own)
  await clock.runUntil(start + 100)
  const { until } = await ledger.begin([{ notification: own }])
  assert.equal(until, clock.monotonic() - 30 + 250)
})

test('a store that does not answer gives no right: the notifications are held as before', async () => {
  const ledger = await ledgerOf({ store: askedForRights(() => Promise.reject(new Error('away'))) })
  const [one, other] = [queued(), queued({ status: 'scheduled' })]
  for (const each of [one, other]) ledger.hold(each)
  await assert.rejects(async () => ledger.begin([{ notification: one }, { notification: other }]), /away/)
  assert.deepEqual([ledger.live(one.id)?.status, ledger.live(other.id)?.status], ['queued', 'scheduled'])
  assert.ok(ledger.isCurrent(one) && ledger.isCurrent(other))
})
