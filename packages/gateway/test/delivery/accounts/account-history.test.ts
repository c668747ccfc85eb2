/** The recent past of an account: bounded, and near enough to what happened. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AccountHistory } from '../../../src/delivery/accounts/account-history.ts'
import { broken, delivered, refused, throttled } from '../scripted.ts'

const minute = 60_000
const start = 100 * minute

test('results are counted over the last minute, and by minute for an hour', () => {
  const history = new AccountHistory()
  for (let call = 0; call < 10; call += 1) history.note(start + call, delivered, 5)
  history.note(start, broken, 5)
  history.note(start, throttled('1'), 5)
  history.note(start, refused, 5)
  assert.deepEqual(history.perMinute(start + 1_000), { delivered: 10, failed: 1, rateLimited: 1 })
  assert.deepEqual(history.perMinute(start + minute), { delivered: 0, failed: 0, rateLimited: 0 })
  for (let later = 1; later <= 60; later += 1) history.note(start + later * minute, delivered, 5)
  const { minutes } = history.past(start + 60 * minute)
  assert.deepEqual(
    [minutes.length, minutes[0]!.at, minutes.at(-1)!.at],
    [60, start + minute, start + 60 * minute],
  )
  assert.deepEqual(history.past(start + 119 * minute).minutes, [
    { at: start + 60 * minute, delivered: 1, failed: 0, rateLimited: 0 },
  ])
})

test('quantiles of durations are at most a tenth too high, and forgotten after two minutes', () => {
  const history = new AccountHistory()
  assert.equal(history.quantileMs(start, 0.5), null)
  for (let took = 1; took <= 1_000; took += 1) history.note(start, delivered, took)
  for (const [share, exact] of [
    [0.5, 500],
    [0.99, 990],
  ] as const) {
    const told = history.quantileMs(start + minute, share)!
    assert.ok(told >= exact && told <= exact * 1.1 + 1, `${told} for ${exact}`)
  }
  assert.equal(history.quantileMs(start + 2 * minute, 0.5), null)
})

test('the last 200 changes are kept, newest first', () => {
  const history = new AccountHistory()
  for (let at = 0; at < 250; at += 1) history.changed({ at, change: 'closed' })
  const { changes } = history.past(start)
  assert.deepEqual([changes.length, changes[0]!.at, changes.at(-1)!.at], [200, 249, 50])
})
