/**
 * Load shedding behind a paced intake: the records of a topic wait for the pool, so what is taken from it is no measure of
 * the demand. A real pool with its pace and its expiry, in virtual time; the topic is a list of timestamps.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Pool } from '../../src/delivery/pools/pool.ts'
import { Route } from '../../src/delivery/pools/route.ts'
import { createQueueExpiry } from '../../src/delivery/queue-expiry.ts'
import { createIntakePace } from '../../src/intake/pace.ts'
import type { Notification } from '../../src/model.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createScripted, delivered } from '../delivery/scripted.ts'

const second = 1_000
const tickMs = 10

interface Setup {
  readonly accounts: number
  /** Calls per second of each account. */
  readonly rate: number
  /** Calls that the gateway makes in a tick at most. */
  readonly callsMax?: number
}

function setUp({ accounts, rate, callsMax = Number.POSITIVE_INFINITY }: Setup) {
  const clock = createVirtualClock(second * 1_000)
  const pool = new Pool({
    channel: 'email',
    provider: createScripted(() => delivered).provider,
    accounts: Array.from({ length: accounts }, (_, index) => ({
      account: { id: `a${index}`, options: {} },
      windows: [{ max: rate, windowMs: second, text: `${rate}/s` }],
      rate: `${rate}/s`,
      concurrencyMax: 1_000,
    })),
    marginMs: 0,
    now: clock.now(),
  })
  const route = new Route([pool])
  /** The instants since which notifications wait. */
  const waiting: number[] = []
  let shed = 0
  const expiry = createQueueExpiry({
    route,
    clock,
    queue: {
      oldest: () => waiting[0],
      takeOverdue(_, until, max) {
        const end = waiting.findIndex((since) => since > until)
        return waiting
          .splice(0, Math.min(max, end < 0 ? waiting.length : end))
          .map(() => ({}) as Notification)
      },
    },
    shed: (overdue) => {
      shed += overdue.length
    },
  })
  const healthy = (): number =>
    pool.report(clock.now()).accounts.filter(({ status }) => status === 'healthy').length
  const pace = createIntakePace({
    queue: { size: () => waiting.length },
    rateOf: () => healthy() * rate,
    sheddingOf: () => pool.shedding,
    clock,
  })
  /** The timestamps of the records that are not taken yet. */
  const topic: number[] = []

  function take(): void {
    let taken = 0
    for (; taken < topic.length; taken += 1) {
      const end = pace.begin('email', topic[taken]!)
      if (end === undefined) break
      waiting.push(clock.now())
      end()
    }
    topic.splice(0, taken)
    if (taken > 0) route.asked(clock.now(), taken)
  }

  return {
    clock,
    topic,
    waiting,
    shed: () => shed,
    /** Takes a tenth of the accounts out for an hour. */
    reduce() {
      const now = clock.now()
      for (let index = 0; index < accounts / 10; index += 1) pool.hold(`a${index}`, now + 3_600 * second, now)
    },
    /** Lets records arrive at a constant rate and calls the pool for so long; returns the calls per second. */
    async run(forMs: number, perSecond = 0): Promise<number> {
      let calls = 0
      let due = 0
      for (let passed = 0; passed < forMs; passed += tickMs) {
        for (due += (perSecond * tickMs) / second; due >= 1; due -= 1) topic.push(clock.now())
        take()
        const now = clock.now()
        const leases = pool.lease(now, Math.min(callsMax, waiting.length), 0)
        waiting.splice(0, leases.length)
        calls += leases.length
        for (const lease of leases) {
          pool.judge(lease, now, delivered, 0)
          lease.end()
        }
        if (waiting.length > 0) expiry.watch(now)
        await clock.runUntil(now + tickMs)
      }
      return (calls * second) / forMs
    },
  }
}

describe('load shedding behind a paced intake', () => {
  it('carries the share of the accounts that are left while a burst waits in its topic, and sheds nothing', async () => {
    for (const [accounts, rate] of [
      [20, 10],
      [50, 100],
    ] as const) {
      const { clock, topic, reduce, run, shed } = setUp({ accounts, rate })
      // The pool was idle before, so load shedding knows no throughput.
      await run(20 * second)
      for (let index = 0; index < 60 * accounts * rate; index += 1) topic.push(clock.now())
      reduce()
      await run(2 * second)
      const perSecond = await run(30 * second)
      const share = perSecond / (accounts * rate)
      assert.ok(Math.abs(share - 0.9) <= 0.02, `${share} of ${accounts} × ${rate}/s`)
      assert.equal(shed(), 0)
    }
  })

  it('lets the accounts that are left carry no more than before where records arrive below the rate', async () => {
    const { reduce, run } = setUp({ accounts: 50, rate: 100 })
    const before = await run(20 * second, 2_500)
    assert.ok(Math.abs(before - 2_500) <= 25, `${before}`)
    reduce()
    await run(2 * second, 2_500)
    for (let minute = 0; minute < 3; minute += 1) {
      const perSecond = await run(60 * second, 2_500)
      assert.ok(Math.abs(perSecond / before - 0.9) <= 0.02, `${perSecond} in minute ${minute}`)
    }
  })

  it('sheds nothing where the gateway makes fewer calls than the accounts would take', async () => {
    const { clock, topic, waiting, reduce, run, shed } = setUp({ accounts: 50, rate: 100, callsMax: 4 })
    for (let index = 0; index < 50_000; index += 1) topic.push(clock.now())
    await run(second)
    reduce()
    assert.ok((await run(30 * second)) > 399)
    assert.ok(waiting.length > 1_000, 'what waits has waited longer than shedAfter')
    assert.equal(shed(), 0)
  })
})
