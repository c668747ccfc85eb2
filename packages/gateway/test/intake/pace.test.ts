/** The pace of intakes: how much may wait for a channel before its records stay in the topic. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { BacklogRow } from '../../src/backlog-cell.ts'
import { createIntakePace } from '../../src/intake/pace.ts'
import { createRecordedQueue } from '../../src/intake/recorded-queue.ts'

function paceAt(perSecond: number | undefined) {
  const state = { size: 0, now: 0, perSecond }
  const pace = createIntakePace({
    queue: { size: () => state.size },
    rateOf: () => state.perSecond,
    sheddingOf: () => undefined,
    clock: { now: () => state.now },
  })
  /** True where nothing is begun while so much waits. */
  const isFullAt = (size: number): boolean => {
    state.size = size
    const end = pace.begin('email', 0)
    end?.()
    return end === undefined
  }
  return { state, pace, isFullAt }
}

describe('pace of intakes', () => {
  it('takes what the accounts of a channel carry in two seconds, from 1,000 to 10,000', () => {
    for (const [perSecond, max] of [
      [3_000, 6_000],
      [10, 1_000],
      [undefined, 1_000],
      [Number.POSITIVE_INFINITY, 10_000],
    ] as const) {
      const { isFullAt } = paceAt(perSecond)
      assert.equal(isFullAt(max - 1), false, `${perSecond}`)
      assert.equal(isFullAt(max), true, `${perSecond}`)
    }
  })

  it('follows the accounts that can be called within 100 ms', () => {
    const { state, isFullAt } = paceAt(3_000)
    assert.equal(isFullAt(2_000), false)
    state.perSecond = 0
    state.now = 99
    assert.equal(isFullAt(2_000), false)
    state.now = 100
    assert.equal(isFullAt(2_000), true)
  })

  it('tells load shedding the timestamps of records on the time line, whatever step the wall clock has made', () => {
    const told: number[] = []
    const pace = createIntakePace({
      queue: { size: () => 0 },
      rateOf: () => 10,
      sheddingOf: () => ({
        isActive: false,
        admitted: () => 10,
        taken: (now, timestamp) => void told.push(timestamp - now),
        heldBack: () => {},
      }),
      clock: { now: () => 5_000_000, aheadMs: () => 3_600_000 },
    })
    // It was written a second ago.
    pace.begin('email', 5_000_000 + 3_600_000 - 1_000)
    assert.deepEqual(told, [-1_000])
  })

  it('counts the records in progress of a channel beside what waits', () => {
    const { state, pace } = paceAt(10)
    state.size = 400
    const begun = Array.from({ length: 2_000 }, () => pace.begin('email', 0)).filter(
      (end) => end !== undefined,
    )
    assert.equal(begun.length, 600)
    begun.pop()!()
    assert.ok(pace.begin('email', 0))
    assert.equal(pace.begin('email', 0), undefined)
    for (const end of begun) end()
    state.size = 998
    assert.ok(pace.begin('email', 0))
  })

  it('counts what is due on a record that gateways share, and what was begun since', async () => {
    const clock = { at: -3_600_000, setMs: 0, now: () => clock.at, monotonic: () => clock.at + clock.setMs }
    let due = 0
    let setMs = 0
    const row = (count: number) => [{ kind: 'queued', channel: 'email', count }] as unknown as BacklogRow[]
    const store = {
      async backlog() {
        clock.setMs += setMs
        return row(due)
      },
    }
    const pace = createIntakePace({
      queue: { size: () => 0 },
      recorded: createRecordedQueue({ store, clock, onError: (what) => assert.fail(what) }),
      rateOf: () => 100,
      sheddingOf: () => undefined,
      clock,
    })
    /** Begins as many as there is room for, none of which stays in progress. */
    const take = (): number => {
      for (let count = 0; ; count += 1) {
        const end = pace.begin('email', 0)
        if (end === undefined || count > 20_000) return count
        end()
      }
    }
    pace.begin('email', 0)?.()
    await turn()
    clock.at = 0
    assert.equal(take(), 1_000, 'idle time saves nothing up')
    await turn()
    clock.at = 500
    assert.equal(take(), 50, 'the accounts carry so many in half a second')
    clock.at = 1_000
    due = 5_000
    take()
    await turn()
    assert.equal(take(), 0)
    clock.at = 2_000
    due = 400
    assert.equal(take(), 0, 'the record is being counted')
    await turn()
    assert.equal(take(), 600)
    // The wall clock of the machine is set on meanwhile, which `monotonic` takes for a suspension.
    setMs = 3_600_000
    due = 5_000
    for (clock.at = 3_000; clock.at < 6_000; clock.at += 1_000) {
      take()
      await turn()
    }
    due = 900
    clock.at = 7_000
    take()
    await turn()
    assert.equal(take(), 100)
  })
})
