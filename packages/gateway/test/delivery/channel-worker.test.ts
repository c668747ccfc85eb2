import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AutomaticRedrive } from '../../src/delivery/automatic-redrive.ts'
import { createChannelWorker } from '../../src/delivery/channel-worker.ts'
import type { Lease } from '../../src/delivery/pools/lease.ts'
import type { Route } from '../../src/delivery/pools/route.ts'
import type { Notification } from '../../src/model.ts'
import type { Queue } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const second = 1_000

interface Setup {
  readonly waiting?: number
  readonly critical?: number
  /** Leases available from the route. */
  readonly leases?: number
}

function setUp({ waiting = 0, critical = 0, leases = 0 }: Setup = {}) {
  const clock = createVirtualClock(0)
  const heard: string[] = []
  const state = { waiting, leases, freeAt: undefined as number | undefined, reduced: false }
  let arrive: (count: number) => void = () => assert.fail()
  const take = (max: number): Notification[] => {
    const taken = Math.min(max, state.waiting)
    state.waiting -= taken
    return Array.from({ length: taken }, () => ({}) as Notification)
  }
  const worker = createChannelWorker({
    clock,
    route: {
      channel: 'email',
      shedAfterMs: 5 * second,
      isReduced: () => state.reduced,
      cause: () => 'shed',
      freeAt: () => state.freeAt,
      pulled: (notifications: readonly Notification[]) => heard.push(`pulled ${notifications.length}`),
      asked: (_: number, count: number) => heard.push(`asked ${count}`),
      lease(_: number, max: number, urgent: number) {
        const given = Math.min(max, state.leases)
        state.leases -= given
        heard.push(`lease ${given} of ${max}, ${urgent} critical`)
        return Array.from({ length: given }, () => ({ undo: () => heard.push('undo') }) as unknown as Lease)
      },
    } as unknown as Route,
    automaticRedrive: {
      note: () => undefined,
      wake: () => heard.push('wake'),
      changed: () => heard.push('changed'),
      stop: async () => {
        heard.push('comeback stops')
      },
    } as AutomaticRedrive,
    queue: {
      size: () => state.waiting,
      critical: () => critical,
      oldest: () => (state.waiting > 0 ? 0 : undefined),
      pull: (_: string, max: number) => take(max),
      takeOverdue: (_: string, __: number, max: number) => take(max),
      subscribe: (_: string, wake: (count: number) => void) => {
        arrive = wake
      },
    } as unknown as Queue,
    release: (_, pulled, given) => heard.push(`release ${pulled.length} with ${given.length}`),
    shed: (_, overdue, cause) => heard.push(`${cause} ${overdue.length}`),
  })
  return { clock, heard, state, worker, arrive: (count: number) => arrive(count) }
}

test('a worker takes as many notifications as there are leases, at most 128 at once, and wakes the redrive when the queue is empty', () => {
  const { heard, worker } = setUp({ waiting: 200, critical: 3, leases: 1_000 })
  worker.pump()
  assert.deepEqual(heard, [
    'lease 128 of 128, 3 critical',
    'pulled 128',
    'release 128 with 128',
    'lease 72 of 72, 3 critical',
    'pulled 72',
    'release 72 with 72',
    'wake',
  ])
})

test('a starting worker sends queued notifications, wakes the redrive, and counts arrivals as demand', () => {
  const { heard, state, worker, arrive } = setUp({ waiting: 1, leases: 2 })
  worker.start()
  assert.deepEqual(heard, ['lease 1 of 1, 0 critical', 'pulled 1', 'release 1 with 1', 'wake', 'wake'])
  const busy = setUp({ waiting: 1 })
  busy.worker.start()
  assert.deepEqual(
    busy.heard,
    ['lease 0 of 1, 0 critical', 'wake'],
    'critical dead letters wait for no other priority',
  )
  heard.length = 0
  state.waiting = 1
  arrive(1)
  assert.deepEqual(heard.slice(0, 2), ['asked 1', 'lease 1 of 1, 0 critical'])
})

test('a worker without a lease looks again when an account is free, and at once when a call ends', async () => {
  const { clock, heard, state, worker } = setUp({ waiting: 1 })
  state.freeAt = 300
  worker.pump()
  await clock.runUntil(299)
  assert.equal(heard.length, 1)
  state.freeAt = 10 * second
  await clock.runUntil(300)
  assert.equal(heard.length, 2)
  state.freeAt = 600
  worker.changed()
  state.leases = 1
  await clock.runUntil(600)
  assert.equal(heard.at(-2), 'release 1 with 1')
})

test('a worker pumps once for calls that end in the same tick', async () => {
  const { clock, heard, worker } = setUp({ waiting: 1 })
  worker.freed()
  worker.freed()
  assert.equal(heard.length, 0)
  await clock.settle()
  assert.equal(heard.length, 1)
  worker.freed()
  await clock.settle()
  assert.equal(heard.length, 2)
})

test('queued notifications are shed in time during an outage, noticed by pump or by changed', async () => {
  for (const say of ['pump', 'changed'] as const) {
    const { clock, heard, state, worker } = setUp({ waiting: 3 })
    state.reduced = true
    worker[say]()
    await clock.runUntil(5 * second)
    assert.equal(heard.at(-1), 'shed 3')
  }
})

test('account changes are passed to the automatic redrive when the queue is empty', () => {
  const { heard, state, worker } = setUp()
  worker.changed()
  assert.deepEqual(heard, ['changed'])
  state.waiting = 1
  worker.changed()
  assert.deepEqual(heard, ['changed'])
})

test('a stopped worker takes nothing and leaves no timer', async () => {
  const { clock, heard, state, worker, arrive } = setUp({ waiting: 1 })
  worker.start()
  state.freeAt = 10 * second
  state.reduced = true
  worker.changed()
  heard.length = 0
  await worker.stop()
  assert.deepEqual([heard, clock.next()], [['comeback stops'], undefined])
  state.leases = 1
  worker.pump()
  arrive(1)
  assert.deepEqual(heard, ['comeback stops', 'asked 1'])
})
