import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Route } from '../../src/delivery/pools/route.ts'
import { createQueueExpiry } from '../../src/delivery/queue-expiry.ts'
import type { DeadCause, Notification } from '../../src/model.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const second = 1_000

/** A queue with notifications queued at the given instants, and a route that is reduced or not. */
function setUp(shedAfterMs: number | 'never' = 5 * second) {
  const clock = createVirtualClock(0)
  const state: { reduced: boolean; cause: DeadCause; heldUntil?: number } = { reduced: false, cause: 'shed' }
  const since: number[] = []
  const shed: string[] = []
  let looks = 0
  const queueExpiry = createQueueExpiry({
    clock,
    route: {
      channel: 'email',
      shedAfterMs: shedAfterMs === 'never' ? undefined : shedAfterMs,
      isReduced: () => {
        looks += 1
        return state.reduced
      },
      hasUnused: () => false,
      cause: () => state.cause,
      heldUntil: () => state.heldUntil,
    } as unknown as Route,
    queue: {
      oldest: () => since[0],
      takeOverdue(_, until, max) {
        const taken: Notification[] = []
        while (taken.length < max && since[0] !== undefined && since[0] <= until)
          taken.push({ id: `${since.shift()}` } as Notification)
        return taken
      },
    },
    shed(overdue, why) {
      const text = 'cause' in why ? why.cause : `until-${why.heldUntil}`
      shed.push(`${clock.now()} ${text} ${overdue.map(({ id }) => id).join(' ')}`)
    },
  })
  const waits = (...instants: number[]): void => {
    since.push(...instants)
    queueExpiry.watch(clock.now())
  }
  const reduce = (reduced: boolean): void => {
    state.reduced = reduced
    queueExpiry.watch(clock.now())
  }
  return { clock, state, shed, queueExpiry, waits, reduce, looks: () => looks }
}

test('nothing is shed while all accounts are healthy, however long it waits', async () => {
  const { clock, shed, waits } = setUp()
  waits(0)
  await clock.runUntil(60 * second)
  assert.deepEqual(shed, [])
})

test('queue time counts from the outage for earlier notifications, and from arrival for later ones', async () => {
  const { clock, shed, waits, reduce } = setUp()
  waits(0)
  await clock.runUntil(10 * second)
  reduce(true)
  await clock.runUntil(12 * second)
  waits(12 * second)
  await clock.runUntil(15 * second - 1)
  assert.deepEqual(shed, [])
  await clock.runUntil(60 * second)
  assert.deepEqual(shed, ['15000 shed 0', '17000 shed 12000'])
})

test('watching again during an outage does not postpone expiry', async () => {
  const { clock, shed, waits, reduce } = setUp()
  reduce(true)
  waits(0)
  for (let now = 500; now <= 5 * second; now += 500) {
    await clock.runUntil(now)
    reduce(true)
  }
  assert.deepEqual(shed, ['5000 shed 0'])
})

test('recovered accounts stop queue expiry, and a new outage starts it again', async () => {
  const { clock, state, shed, waits, reduce } = setUp()
  reduce(true)
  waits(0)
  await clock.runUntil(4 * second)
  reduce(false)
  await clock.runUntil(8 * second)
  assert.deepEqual(shed, [])
  state.cause = 'pool_blocked'
  reduce(true)
  await clock.runUntil(13 * second - 1)
  assert.deepEqual(shed, [])
  await clock.runUntil(13 * second)
  assert.deepEqual(shed, ['13000 pool_blocked 0'])
})

test('where every account is held, notifications wait for the first of them instead of being shed', async () => {
  const { clock, state, shed, waits, reduce } = setUp()
  state.heldUntil = 60 * second
  reduce(true)
  waits(0)
  await clock.runUntil(6 * second)
  assert.deepEqual(shed, ['5000 until-60000 0'])
})

test('accounts that recovered without a notice are detected before anything is shed', async () => {
  const { clock, state, shed, waits, reduce } = setUp()
  reduce(true)
  waits(0)
  await clock.runUntil(second)
  state.reduced = false
  await clock.runUntil(60 * second)
  assert.deepEqual(shed, [])
  reduce(true)
  await clock.runUntil(64 * second)
  assert.deepEqual(shed, [], 'this is another incident')
})

test('thousands are shed in batches of five hundred at one instant', async () => {
  const { clock, shed, waits, reduce } = setUp()
  reduce(true)
  waits(...Array.from({ length: 1_200 }, () => 0))
  await clock.runUntil(5 * second)
  assert.deepEqual(
    shed.map((line) => line.split(' ').length - 2),
    [500, 500, 200],
  )
})

test('the queue is not examined when shedding is off or after a stop', async () => {
  const off = setUp('never')
  off.reduce(true)
  off.waits(0)
  await off.clock.runUntil(60 * second)
  assert.deepEqual([off.looks(), off.shed], [0, []])
  const { clock, shed, queueExpiry, waits, reduce } = setUp()
  reduce(true)
  waits(0)
  queueExpiry.stop()
  // A call that ends later takes another account out.
  reduce(true)
  assert.equal(clock.next(), undefined, 'no timer keeps the process alive')
  await clock.runUntil(60 * second)
  assert.deepEqual(shed, [])
})
