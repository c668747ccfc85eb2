/** Tokens of a slot, and the calls that have one and are not written yet. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FleetTokens } from '../../../src/delivery/accounts/fleet-tokens.ts'
import type { SlotGrant } from '../../../src/ports/account-slots.ts'
import { defaultSlotMs } from '../../../src/ports/account-slots.ts'

const grant = (tokens: number): SlotGrant => ({ tokens, isProbe: false, shortage: 'none', busy: tokens })
const slot = 50
/** The slot is over at 1,020. */
const until = 1_020

const newTokens = (shortestMs: number | undefined, isTold = false): FleetTokens =>
  new FleetTokens({ slotMs: defaultSlotMs, marginMs: 20, shortestMs, isTold })

function tokensOf(count: number): FleetTokens {
  const tokens = newTokens(1_020)
  tokens.give(grant(count), slot, until, false, 1_000)
  return tokens
}

describe('tokens of a slot', () => {
  it('are good within their slot, and are given back behind it', () => {
    const tokens = tokensOf(3)
    assert.ok(tokens.has(1_019, false))
    tokens.take(1_010)
    assert.ok(!tokens.has(1_020, false))
    assert.equal(tokens.drop(), 2)
    assert.deepEqual(tokens.tell(1_019).back, [slot, 2])
  })

  it('that come behind their slot are good for as long again where the writing of a call is told, and their calls count anew', () => {
    const tokens = newTokens(1_020, true)
    tokens.give(grant(2), slot, until, false, until + 60)
    assert.ok(tokens.has(until + 60, false))
    const takenAt = tokens.take(until + 60)
    tokens.expect(takenAt, true)
    assert.ok(!tokens.has(until + 60 + defaultSlotMs, false))
    assert.equal(tokens.drop(), 1)
    assert.deepEqual(tokens.tell(until + 61), { late: 1, back: [slot, 2] })
    tokens.told(slot + 4, until + 80)
    assert.equal(tokens.renew(takenAt, until + 70), takenAt)
  })

  it('that come long behind their slot are given back, and all where the writing of a call is not told', () => {
    for (const [isTold, at] of [
      [true, until + 130],
      [false, until + 1],
    ] as const) {
      const tokens = newTokens(1_020, isTold)
      tokens.give(grant(1), slot, until, false, at)
      assert.ok(!tokens.has(at, false))
    }
  })

  it('for critical notifications are not for others', () => {
    const tokens = newTokens(1_020)
    tokens.give(grant(1), slot, until, true, 1_000)
    assert.ok(!tokens.has(1_000, false))
    assert.ok(tokens.has(1_000, true))
  })

  it('count in the next slot while their call is not written, so often as it takes', () => {
    const tokens = tokensOf(1)
    const takenAt = tokens.take(1_010)
    assert.deepEqual(tokens.tell(1_019), { late: 0, back: [] })
    assert.deepEqual(tokens.tell(1_020), { late: 1, back: [slot, 1] })
    tokens.told(slot + 1, 1_040)
    assert.deepEqual(tokens.tell(1_039), { late: 0, back: [] })
    assert.deepEqual(tokens.tell(1_041), { late: 1, back: [slot + 1, 1] })
    tokens.told(slot + 2, 1_060)
    assert.equal(tokens.renew(takenAt, 1_050), takenAt)
    assert.deepEqual(tokens.tell(1_100), { late: 0, back: [] }, 'it is written')
  })

  it('permit no call when their slot is long over and was not told, but for another token in hand', () => {
    const tokens = tokensOf(1)
    const takenAt = tokens.take(1_010)
    assert.equal(tokens.renew(takenAt, until + 10), undefined)
    tokens.give(grant(1), slot + 1, 1_040, false, 1_000)
    assert.equal(tokens.renew(takenAt, until + 10), until + 10)
    assert.ok(!tokens.has(until + 10, false), 'the other token is used')
    assert.deepEqual(tokens.tell(until + 10).back, [slot, 1])
  })

  it('permit a call whose writing is told for as long as it may be written', () => {
    const tokens = tokensOf(1)
    const takenAt = tokens.take(1_010)
    tokens.expect(takenAt, true)
    assert.equal(tokens.renew(takenAt, until + 249), takenAt)
    assert.deepEqual(tokens.tell(until), { late: 1, back: [slot, 1] }, 'it is not written yet')
    tokens.lost()
    assert.equal(tokens.renew(takenAt, until + 250), undefined)
  })

  it('are taken back never twice, and counted again, when an answer is lost', () => {
    const tokens = tokensOf(2)
    tokens.take(1_010)
    tokens.take(1_010)
    assert.deepEqual(tokens.tell(1_020), { late: 2, back: [slot, 2] })
    tokens.lost()
    assert.deepEqual(tokens.tell(1_040), { late: 2, back: [] })
  })

  it('are counted where a call is written later than its slot', () => {
    const tokens = tokensOf(1)
    const takenAt = tokens.take(1_010)
    tokens.move(takenAt, until + 9)
    assert.deepEqual(tokens.tell(1_019), { late: 0, back: [] }, 'the margin is there for that')
    tokens.move(takenAt, until + 10)
    assert.deepEqual(tokens.tell(1_019), { late: 1, back: [slot, 1] })
  })

  it('are known each by itself, so that a call is open until it is written, although others of its instant have ended', () => {
    const tokens = tokensOf(2)
    const [first, second] = [tokens.take(1_010), tokens.take(1_010)]
    for (const takenAt of [first, second]) tokens.expect(takenAt, true)
    // It is written, answered and settled.
    for (let told = 0; told < 3; told += 1) tokens.close(first)
    assert.deepEqual(tokens.tell(1_020), { late: 1, back: [slot, 1] })
    tokens.told(slot + 1, 1_040)
    assert.equal(tokens.mayLeave(second, 1_040 + 250), false, 'nobody has counted it for so long')
    tokens.move(second, 1_050)
    assert.deepEqual(tokens.tell(1_050), { late: 1, back: [slot + 1, 1] }, 'it counts once')
  })

  it('count once where their call is written, or not made, while a question is under way that counts it', () => {
    const tokens = tokensOf(2)
    const [written, undone] = [tokens.take(1_010), tokens.take(1_010)]
    assert.deepEqual(tokens.tell(1_020), { late: 2, back: [slot, 2] })
    tokens.move(written, 1_035)
    tokens.undo(undone, 1_035)
    tokens.told(slot + 1, 1_040)
    assert.deepEqual(tokens.tell(1_041), { late: 1, back: [slot + 1, 2] })
  })

  it('let a call that is counted in slot after slot be written, and none of which no slot was told for 250 ms', () => {
    const tokens = tokensOf(1)
    const takenAt = tokens.take(1_010)
    assert.ok(tokens.mayLeave(takenAt, until + 249))
    assert.equal(tokens.mayLeave(takenAt, until + 250), false)
    tokens.tell(until)
    tokens.told(slot + 10, until + 200)
    assert.ok(tokens.mayLeave(takenAt, until + 449))
    tokens.tell(until + 450)
    tokens.lost()
    assert.equal(tokens.mayLeave(takenAt, until + 450), false)
  })

  it('of a call that was counted longer ago than a window holds do not permit it, and are given back', () => {
    const tokens = tokensOf(1)
    const takenAt = tokens.take(1_010)
    tokens.tell(until)
    tokens.lost()
    tokens.tell(until + 1_040)
    tokens.told(slot + 51, until + 1_060)
    assert.ok(tokens.mayLeave(takenAt, until + 1_050), 'each window that the slot closes has it')
    assert.deepEqual(tokens.tell(until + 2_120), { late: 1, back: [slot + 51, 1] })
    tokens.told(slot + 51 + 52, until + 2_140)
    assert.equal(tokens.mayLeave(takenAt, until + 2_130), false, 'others may have its place')
    assert.equal(tokens.renew(takenAt, until + 2_130), undefined)
    assert.deepEqual(tokens.tell(until + 2_141), { late: 0, back: [slot + 103, 1] })
    assert.equal(tokens.overdueAt(), undefined, 'it is not counted any more')
    tokens.give(grant(1), slot + 105, until + 2_160, false, 1_000)
    assert.equal(tokens.renew(takenAt, until + 2_150), until + 2_150, 'another token permits it')
  })

  it('let no call be written that was not counted for a quarter of a short window', () => {
    const tokens = newTokens(200)
    tokens.give(grant(1), slot, until, false, 1_000)
    const takenAt = tokens.take(1_010)
    assert.ok(tokens.mayLeave(takenAt, until + 49))
    assert.equal(tokens.mayLeave(takenAt, until + 50), false)
  })

  it('permit no call when another server counts', () => {
    const tokens = tokensOf(2)
    const takenAt = tokens.take(1_010)
    assert.equal(tokens.drop(), 1)
    tokens.end(false)
    assert.equal(tokens.renew(takenAt, 1_011), undefined)
    assert.equal(tokens.mayLeave(takenAt, 1_011), false)
    assert.deepEqual(tokens.tell(1_021), { late: 0, back: [slot, 2] })
  })

  it('permit no call behind a loss of the state that has filled it with their calls, and are not given back to it', () => {
    const tokens = tokensOf(2)
    const takenAt = tokens.take(1_010)
    assert.equal(tokens.drop(), 1)
    tokens.end(true)
    assert.equal(tokens.mayLeave(takenAt, 1_011), false)
    assert.deepEqual(tokens.tell(1_021), { late: 0, back: [] })
  })

  it('are carried on for ten seconds at most', () => {
    const tokens = tokensOf(1)
    const takenAt = tokens.take(1_010)
    for (let at = until; at <= takenAt + 10_000; at += 20) {
      assert.equal(tokens.tell(at).late, 1)
      tokens.told(slot + (at - until) / 20 + 1, at + 20)
    }
    const last = slot + 500
    assert.deepEqual(tokens.tell(11_020), { late: 0, back: [last, 1] })
    assert.equal(tokens.mayLeave(takenAt, 11_021), false)
  })

  it('are not counted anew by an answer that came after another server', () => {
    const tokens = tokensOf(1)
    const takenAt = tokens.take(1_010)
    tokens.tell(until)
    tokens.end(false)
    tokens.told(slot + 1, until + 20)
    assert.equal(tokens.mayLeave(takenAt, until + 1), false)
    assert.deepEqual(tokens.tell(until + 21), { late: 0, back: [] }, 'it may have been counted, or not')
  })

  it('are in hand again when their call is not made within the slot', () => {
    const tokens = tokensOf(1)
    assert.ok(tokens.undo(tokens.take(1_010), 1_015))
    assert.ok(tokens.has(1_019, false))
  })

  it('of an account without windows permit a call however late it leaves, and count nowhere', () => {
    const tokens = newTokens(undefined)
    tokens.give(grant(2), slot, until, false, 1_000)
    const takenAt = tokens.take(1_010)
    assert.equal(tokens.renew(takenAt, until + 500), takenAt)
    assert.equal(tokens.overdueAt(), undefined)
    tokens.move(takenAt, until + 500)
    assert.deepEqual(tokens.tell(1_019), { late: 0, back: [] })
    assert.ok(tokens.undo(takenAt, 1_015), 'the call may be made by another notification')
    assert.equal(tokens.inHand, 2)
    assert.equal(tokens.drop(), 2, 'tokens in hand are given back: others may want them')
  })
})
