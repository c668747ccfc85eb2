import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AskPause } from '../../../src/delivery/accounts/ask-pause.ts'
import { type SlotGrant, defaultSlotMs as slotMs } from '../../../src/ports/account-slots.ts'

type Shortage = SlotGrant['shortage']

/** Asks whenever the pause allows it, for so long; returns the slots in which it asked. */
function slotsAsked(pause: AskPause, forMs: number, shortage: Shortage, kept = 0, tokensIn = -1): number[] {
  const asked: number[] = []
  for (let slot = 0; slot * slotMs < forMs; slot += 1) {
    const now = slot * slotMs
    if (now < pause.until) continue
    asked.push(slot)
    const tokens = slot === tokensIn ? 1 : 0
    pause.heard(now, { tokens, isProbe: false, shortage, busy: 0 }, kept, slot, now + slotMs)
  }
  return asked
}

/** The longest distance between two of the slots, in slots. */
const widest = (slots: readonly number[]): number =>
  Math.max(...slots.slice(1).map((slot, index) => slot - slots[index]!))

test('an account without a free place is asked for in each slot of the first second, then ever more rarely', () => {
  const asked = slotsAsked(new AskPause(slotMs), 20_000, 'window')
  assert.deepEqual(
    asked.filter((slot) => slot < 50),
    Array.from({ length: 50 }, (_, slot) => slot),
  )
  for (const [index, slot] of asked.entries()) {
    if (index === 0) continue
    const before = asked[index - 1]!
    assert.ok(slot - before <= 1 + before / 50, `${before} and then ${slot}`)
  }
  assert.equal(widest(asked), 5)
  assert.ok(asked.length < 320, `${asked.length} questions in 20 s`)
})

test('two accounts that lack places since other instants are asked for in the same slots at last', () => {
  const pauses = [new AskPause(slotMs), new AskPause(slotMs)]
  slotsAsked(pauses[1]!, 500, 'window')
  pauses[1]!.end()
  const [one, other] = pauses.map((pause) => slotsAsked(pause, 10_000, 'record').slice(-20))
  assert.deepEqual(one, other)
})

test('a token begins the count anew', () => {
  const asked = slotsAsked(new AskPause(slotMs), 12_000, 'window', 0, 500)
  const later = asked.filter((slot) => slot >= 500 && slot < 550)
  assert.equal(later.length, 50)
})

test('places of other calls, and those that are kept for critical notifications, are asked for in each slot', () => {
  assert.equal(slotsAsked(new AskPause(slotMs), 10_000, 'concurrency').length, 500)
  assert.equal(slotsAsked(new AskPause(slotMs), 10_000, 'window', 0.1).length, 500)
})

test('whoever got all it asked for, or its share, may ask at once', () => {
  for (const shortage of ['none', 'share'] as const) {
    const pause = new AskPause(slotMs)
    slotsAsked(pause, 5_000, 'window')
    pause.heard(5_000, { tokens: 1, isProbe: false, shortage, busy: 1 }, 0, 250, 5_020)
    assert.ok(pause.until <= 5_000)
  }
})

test('a place that is wanted again after some time is asked for in each slot, whatever was lacking before', () => {
  const pause = new AskPause(slotMs)
  const heardAt = (now: number): void =>
    pause.heard(
      now,
      { tokens: 0, isProbe: false, shortage: 'window', busy: 0 },
      0,
      now / slotMs,
      now + slotMs,
    )
  heardAt(10_000)
  heardAt(600_000 + slotMs)
  assert.equal(pause.until, 600_000 + 2 * slotMs)
})
