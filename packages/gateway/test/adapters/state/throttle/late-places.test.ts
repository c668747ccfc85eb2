/**
 * Tests what becomes of a place of a throttle queue that had come and was left late: the oracle places all who still wait
 * again, one after the other, at the first millisecond that the windows admit, found by trying.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Window } from '@sluice/limits'
import { ThrottleQueue } from '../../../../src/adapters/state/throttle/throttle-queue.ts'
import { seeded, testSeed } from '../../../harness.ts'

const runs = Number(process.env.SLUICE_RUNS ?? 300)
const modules = ['a', 'b'] as const
const window = (max: number, windowMs: number): Window => ({ max, windowMs, text: `${max}/${windowMs}ms` })

interface One {
  readonly id: string
  readonly module: string
  at: number
}

const isFull = (windows: readonly Window[], of: readonly One[], at: number): boolean =>
  windows.some(({ max, windowMs }) =>
    [...of.map((one) => one.at), at].some((from) => {
      const isInside = (instant: number): boolean => instant >= from && instant < from + windowMs
      return isInside(at) && of.filter((one) => isInside(one.at)).length >= max
    }),
  )

test(`a place that had come and is left late is lost to nobody, in ${runs} random queues (seed ${testSeed})`, () => {
  let [lateLeaves, lostMs] = [0, 0]
  for (let number = 0; number < runs; number += 1) {
    const draw = seeded(testSeed * 10_000 + number)
    const below = (count: number): number => Math.floor(draw() * count)
    const tenant = [window(1 + below(4), 10 + below(30))]
    const module = below(2) === 0 ? [] : [window(1 + below(3), 10 + below(30))]
    const queue = new ThrottleQueue({ tenant, module, marginMs: 0 })
    let now = 1_000
    const counted: One[] = []
    let waiting: One[] = []
    for (let serial = 0; serial < 12; serial += 1) {
      const one = { id: String(serial).padStart(3, '0'), module: modules[below(2)]!, at: 0 }
      const place = queue.join(one.module, one.id, now)
      one.at = place.at
      if (place.waits) waiting.push(one)
      else counted.push(one)
      if (below(4) === 0) now += below(5)
    }
    while (waiting.length > 1) {
      waiting.sort((a, b) => a.at - b.at)
      const [first] = waiting
      waiting = waiting.filter((one) => one !== first)
      now = Math.max(now, first!.at) + below(12)
      const passes = below(3) > 0
      if (passes) {
        assert.equal(queue.turn(first!.module, first!.id, now)?.passed, true)
        counted.push(first!)
      }
      // Other places that have come still count.
      const come = waiting.filter(({ at }) => at <= now)
      const oracle = [...counted, ...come]
      const best = new Map<One, number>()
      for (const one of waiting.filter(({ at }) => at > now)) {
        const before = [...best].filter(([other]) => other.module === one.module).map(([, at]) => at)
        let at = Math.max(now, ...before)
        const own = (): readonly One[] => oracle.filter((other) => other.module === one.module)
        while (isFull(tenant, oracle, at) || isFull(module, own(), at)) at += 1
        best.set(one, at)
        oracle.push({ ...one, at })
      }
      const isBetter = [...best].every(([one, at]) => at <= one.at)
      if (!passes) assert.ok(queue.leave(first!.module, first!.id, now))
      queue.closeUp(now)
      for (const one of waiting) {
        const at = queue.placeOf(one.module, one.id)!
        assert.ok(at <= one.at, 'no entry is moved to a later place')
        assert.ok(at > now || one.at <= now || at === now, 'no entry gets a place that has come')
        one.at = at
      }
      if (passes || !isBetter) continue
      lateLeaves += 1
      for (const [one, at] of best) {
        lostMs += Math.max(0, one.at - at)
        assert.ok(one.at <= at, `run ${number}: ${one.id} waits until ${one.at} and not ${at}`)
      }
    }
  }
  console.log(`${lateLeaves} places were left late; ${lostMs} ms of waiting could have been saved`)
  assert.ok(lateLeaves > 0)
})
