/** Long windows of an account that several processes call: covered by the record, filled from it after a loss. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { FleetLongUse, judgelessMsMax } from '../../../src/delivery/accounts/fleet-long-use.ts'
import { defaultSlotMs } from '../../../src/ports/account-slots.ts'
import type { UseRecord } from '../../../src/ports.ts'

const start = 1_000_000
/** A twentieth of the window is written ahead: of 400/10s. */
const chunk = 20

function useOf(windows = [parseWindow('400/10s')]) {
  let asked = 0
  const use = FleetLongUse.of(windows, {
    slotMs: defaultSlotMs,
    marginMs: 20,
    keep() {
      asked += 1
    },
  })!
  return {
    use,
    asked: () => asked,
    hear: (now: number, total: number, covered: number, isFilled = true, isJudge = true, unused = 0) =>
      use.hear(now, { account: 0, total, unused, covered, isFilled }, isJudge),
  }
}

const madeOf = ({ calls }: UseRecord): number => calls.reduce((sum, [, count]) => sum + count, 0)

describe('use of long windows in a fleet', () => {
  it('covers a chunk more than what was called, once that is on record', () => {
    const { use, asked, hear } = useOf()
    hear(start, 0, 0)
    assert.equal(asked(), 1)
    assert.equal(use.toCover, undefined, 'it is not on record yet')
    assert.equal(use.record(start, true)?.ahead, chunk)
    assert.ok(use.recorded())
    assert.equal(use.toCover, chunk)
    hear(start + 10, 2, chunk)
    assert.equal(use.toCover, undefined)
    assert.equal(asked(), 1)
    hear(start + 20 + judgelessMsMax, chunk - 5, chunk)
    assert.equal(asked(), 2, 'a quarter is left')
  })

  it('keeps as many ahead as were made in the time in which a judge that dies is not replaced', () => {
    const { use, asked, hear } = useOf()
    hear(start, 0, 0)
    use.record(start, true)
    use.recorded()
    hear(start + 10, 9, chunk)
    assert.equal(asked(), 1, 'there is more ahead than was granted')
    hear(start + 2_000, 12, chunk)
    assert.equal(asked(), 2)
    assert.equal(use.record(start + 2_000, true)?.ahead, 12 + chunk)
    use.recorded()
    assert.equal(use.toCover, 12 + 12 + chunk)
    hear(start + 2_100, 12 + chunk - 1, 12 + 12 + chunk)
    assert.equal(asked(), 3)
    // Nothing was granted since then: a chunk is enough.
    use.record(start + 2_100, true)
    use.recorded()
    const covered = use.toCover!
    hear(start + 2_200 + judgelessMsMax, covered - 6, covered)
    assert.equal(asked(), 4)
    assert.equal(
      use.record(start + 2_200 + judgelessMsMax, true)?.ahead,
      covered - 6 - 12 - chunk + 1 + chunk,
    )
  })

  it('keeps no more ahead than its rate is over that time, so that a burst fills no later window', () => {
    const { use, hear } = useOf([parseWindow('3600/h')])
    hear(start, 3_000, 0)
    assert.equal(use.record(start, true)?.ahead, 180 + judgelessMsMax / 1_000)
  })

  it('counts what the judge of before had ahead on record, for that may still be granted', () => {
    const { use, asked, hear } = useOf()
    use.lost()
    hear(start, 10, 30, true, false)
    use.adopt(start + 5, { calls: [[start, 10]], ahead: 20, windowMs: 10_020 })
    hear(start + 10, 10, 30, true, false)
    hear(start + 20, 12, 30, true, true)
    assert.ok(use.readsRecord)
    assert.equal(asked(), 0, 'the record is read before it is written')
    // It was killed before it told of the last 40.
    use.adopt(start + 25, { calls: [[start + 10, 12]], ahead: 18 + 40, windowMs: 10_020 })
    hear(start + 30, 12, 30, true, true)
    assert.equal(asked(), 1)
    const onRecord = use.record(start + 30, true)!
    assert.equal(madeOf(onRecord), 12 + 40)
    use.recorded()
    hear(start + 40, 14, 12 + 18 + 40, true, true)
    const { ahead, ...made } = use.record(start + 40, true)!
    assert.equal(madeOf({ ahead, ...made }) + ahead, 12 + 40 + 2 + 12 + 18 + 40 - 14)
  })

  it('of a new judge that has filled the state itself is written without another reading', () => {
    const { use, asked, hear } = useOf()
    hear(start, 0, chunk, true, false)
    use.lost()
    hear(start + 10, 0, 0, false, true)
    assert.ok(use.needsFill)
    use.fill(start + 15, { calls: [[start, 10]], ahead: 20, windowMs: 10_020 })
    hear(start + 20, 0, 0, true, true)
    assert.ok(!use.readsRecord)
    assert.equal(asked(), 1)
  })

  it('writes nothing where another process judges, and knows what is ahead', () => {
    const { use, asked, hear } = useOf()
    hear(start, 7, 17, true, false)
    assert.equal(asked(), 0)
    assert.equal(use.record(start, false)?.ahead, 10)
  })

  it('is filled after a loss with the calls on record and those ahead, and covers new ones', () => {
    const { use, asked, hear } = useOf()
    hear(start, 7, 0)
    const onRecord = use.record(start, true)!
    use.recorded()
    hear(start + 100, 9, 7 + 7 + chunk)
    use.lost()
    hear(start + 200, 0, 0, false)
    assert.ok(use.needsFill)
    const calls = use.fill(start + 200, onRecord)
    assert.equal(
      calls.filter((_, index) => index % 2 === 1).reduce((sum, count) => sum + count, 0),
      7 + 7 + chunk,
    )
    hear(start + 300, 0, 0)
    assert.equal(asked(), 2, 'what was ahead is spent')
    use.record(start + 300, true)
    use.recorded()
    assert.equal(use.toCover, 9 + chunk, 'nothing of it was granted of late')
  })

  it('covers new calls after a loss behind which another process has filled the state', () => {
    const { use, asked, hear } = useOf()
    hear(start, 7, 0)
    const onRecord = use.record(start, true)!
    use.recorded()
    hear(start + 100, 9, 7 + 7 + chunk)
    use.lost()
    hear(start + 200, 0, 0, false)
    // The other one counts what was ahead as made.
    hear(start + 300, 0, 0)
    use.adopt(start + 300, onRecord)
    hear(start + 400, 0, 0)
    assert.equal(asked(), 2, 'what was ahead is spent')
    use.record(start + 400, true)
    assert.ok(use.recorded())
    assert.equal(use.toCover, 9 + chunk)
  })

  it('counts no token that was not used, and covers no more for it', () => {
    const { use, hear } = useOf()
    hear(start, 8, 0)
    use.record(start, true)
    use.recorded()
    const covered = 8 + 8 + chunk
    hear(start + 300, 8, covered, true, true, 7)
    hear(start + 600, 16, covered, true, true, 7)
    hear(start + 900, 20, covered, true, true, 18)
    const { calls, ahead } = use.record(start + 900, true)!
    assert.equal(
      calls.reduce((sum, [, count]) => sum + count, 0),
      2,
    )
    assert.equal(ahead, covered - 20)
    assert.ok(
      calls.every(([at]) => at >= start + 1_000),
      'it may have been a later one that was used',
    )
  })

  it('counts a call as late as its token may be carried on, also in the record of a process that judges later', () => {
    const { use, hear } = useOf()
    hear(start, 8, 0)
    const onRecord = use.record(start, true)!
    const lastAt = start + 10_000 + 1_000 + defaultSlotMs
    assert.deepEqual(onRecord.calls, [[lastAt, 8]])
    const other = useOf()
    other.use.lost()
    other.hear(start + 50, 8, 8 + chunk, true, false)
    other.use.adopt(start + 60, { ...onRecord, ahead: chunk })
    assert.ok(other.use.record(start + 70, true)!.calls.every(([at]) => at >= lastAt))
    // Behind a loss the calls that are carried on have no place any more: each was made by now.
    assert.deepEqual(use.fill(start + 100, onRecord), [start + 100, 8 + 8 + chunk])
  })

  it('takes the calls of before it joined from the record, and of those ahead the ones that were granted', () => {
    const { use, hear } = useOf()
    use.lost()
    hear(start, 1_000, 1_010)
    assert.ok(use.needsRecord)
    hear(start + 2, 1_001, 1_010)
    use.adopt(start + 5, { calls: [[start - 2_000, 30]], ahead: 15, windowMs: 10_020 })
    hear(start + 10, 1_002, 1_010)
    const { calls } = use.record(start + 10, true)!
    assert.equal(
      calls.reduce((sum, [, count]) => sum + count, 0),
      30 + 5 + 2,
    )
  })

  it('takes no token from the count that came back before the record was read, which may lack it already', () => {
    const { use, hear } = useOf()
    use.lost()
    hear(start, 100, 110, true, true, 40)
    hear(start + 2, 100, 110, true, true, 48)
    use.adopt(start + 5, { calls: [[start + 1, 52]], ahead: 10, windowMs: 10_020 })
    hear(start + 10, 100, 110, true, true, 48)
    assert.equal(madeOf(use.record(start + 10, true)!), 52)
    hear(start + 20, 100, 110, true, true, 49)
    assert.equal(madeOf(use.record(start + 20, true)!), 51)
  })

  it('takes the calls from the record where another process has filled a state that was lost: it may not have heard of all', () => {
    const { use, hear } = useOf()
    hear(start, 7, 10, true, false)
    use.lost()
    hear(start + 700, 0, 0, false, false)
    hear(start + 720, 3, 20, true, false)
    assert.ok(use.needsRecord)
    use.adopt(start + 725, { calls: [[start + 100, 300]], ahead: 20, windowMs: 10_020 })
    hear(start + 800, 4, 20, true, true)
    assert.equal(madeOf(use.record(start + 800, true)!), 304)
  })

  it('covers nothing behind a loss with a record that was written before', () => {
    const { use, hear } = useOf()
    hear(start, 7, 0)
    const onRecord = use.record(start, true)!
    use.lost()
    hear(start + 700, 0, 0, false)
    use.recorded()
    use.fill(start + 710, onRecord)
    hear(start + 720, 0, 0)
    assert.equal(use.toCover, undefined)
  })

  it('is filled without a record with what this process has heard', () => {
    const { use, hear } = useOf()
    hear(start, 7, 30, true, false)
    use.lost()
    hear(start + 200, 0, 0, false)
    const calls = use.fill(start + 200, undefined)
    assert.equal(
      calls.filter((_, index) => index % 2 === 1).reduce((sum, count) => sum + count, 0),
      30,
    )
  })
})
