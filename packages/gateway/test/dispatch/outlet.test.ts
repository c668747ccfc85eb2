import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Comeback } from '../../src/dispatch/comeback.ts'
import type { Lease } from '../../src/dispatch/lease.ts'
import { createOutlet } from '../../src/dispatch/outlet.ts'
import type { Route } from '../../src/dispatch/route.ts'
import type { Notification } from '../../src/model.ts'
import type { Queue } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const second = 1_000

interface Setup {
  readonly waiting?: number
  readonly critical?: number
  /** Leases that the route has. */
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
  const outlet = createOutlet({
    clock,
    route: {
      channel: 'email',
      shedAfterMs: 5 * second,
      isReduced: () => state.reduced,
      cause: () => 'shed',
      freeAt: () => state.freeAt,
      pulled: (those: readonly Notification[]) => heard.push(`pulled ${those.length}`),
      asked: (_: number, count: number) => heard.push(`asked ${count}`),
      lease(_: number, max: number, urgent: number) {
        const given = Math.min(max, state.leases)
        state.leases -= given
        heard.push(`lease ${given} of ${max}, ${urgent} critical`)
        return Array.from({ length: given }, () => ({ undo: () => heard.push('undo') }) as unknown as Lease)
      },
    } as unknown as Route,
    comeback: {
      note: () => undefined,
      wake: () => heard.push('wake'),
      changed: () => heard.push('changed'),
      stop: async () => {
        heard.push('comeback stops')
      },
    } as Comeback,
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
  return { clock, heard, state, outlet, arrive: (count: number) => arrive(count) }
}

test('it takes as many as there are leases, at most 128 at once, and wakes who comes back when nobody waits', () => {
  const { heard, outlet } = setUp({ waiting: 200, critical: 3, leases: 1_000 })
  outlet.pump()
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

test('what waited when it starts leaves, what has died is looked for, and what arrives is asked for', () => {
  const { heard, state, outlet, arrive } = setUp({ waiting: 1, leases: 2 })
  outlet.start()
  assert.deepEqual(heard, ['lease 1 of 1, 0 critical', 'pulled 1', 'release 1 with 1', 'wake', 'wake'])
  const busy = setUp({ waiting: 1 })
  busy.outlet.start()
  assert.deepEqual(busy.heard, ['lease 0 of 1, 0 critical', 'wake'], 'critical ones wait for nobody else')
  heard.length = 0
  state.waiting = 1
  arrive(1)
  assert.deepEqual(heard.slice(0, 2), ['asked 1', 'lease 1 of 1, 0 critical'])
})

test('without a lease it looks again when one is free, and at once when one may be', async () => {
  const { clock, heard, state, outlet } = setUp({ waiting: 1 })
  state.freeAt = 300
  outlet.pump()
  await clock.runUntil(299)
  assert.equal(heard.length, 1)
  state.freeAt = 10 * second
  await clock.runUntil(300)
  assert.equal(heard.length, 2)
  state.freeAt = 600
  outlet.changed()
  state.leases = 1
  await clock.runUntil(600)
  assert.equal(heard.at(-2), 'release 1 with 1')
})

test('what is freed together is looked at once', async () => {
  const { clock, heard, outlet } = setUp({ waiting: 1 })
  outlet.freed()
  outlet.freed()
  assert.equal(heard.length, 0)
  await clock.settle()
  assert.equal(heard.length, 1)
  outlet.freed()
  await clock.settle()
  assert.equal(heard.length, 2)
})

test('what waits while accounts are out is shed in time, whoever says first that they are', async () => {
  for (const say of ['pump', 'changed'] as const) {
    const { clock, heard, state, outlet } = setUp({ waiting: 3 })
    state.reduced = true
    outlet[say]()
    await clock.runUntil(5 * second)
    assert.equal(heard.at(-1), 'shed 3')
  }
})

test('accounts that go out or come back change what dead letters wait for, when nothing else waits', () => {
  const { heard, state, outlet } = setUp()
  outlet.changed()
  assert.deepEqual(heard, ['changed'])
  state.waiting = 1
  outlet.changed()
  assert.deepEqual(heard, ['changed'])
})

test('after a stop nothing is taken, and no timer is left', async () => {
  const { clock, heard, state, outlet, arrive } = setUp({ waiting: 1 })
  outlet.start()
  state.freeAt = 10 * second
  state.reduced = true
  outlet.changed()
  heard.length = 0
  await outlet.stop()
  assert.deepEqual([heard, clock.next()], [['comeback stops'], undefined])
  state.leases = 1
  outlet.pump()
  arrive(1)
  assert.deepEqual(heard, ['comeback stops', 'asked 1'])
})
