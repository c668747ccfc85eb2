/**
 * The holds of a notification that ended are released, also where the limiter's state does not answer at first: the
 * cancellation is answered, because it is on record and nobody is decided meanwhile.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { LimitState } from '../../src/ports.ts'
import { createHarness, hour, minute, second } from '../harness.ts'

const policy = { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }] }

/** Refuses `method` of the limiter's state as often as given, and counts its calls. */
function refusing(method: 'cancel' | 'releaseFingerprints', times: number) {
  const calls: number[] = []
  let left = times
  const wrapState = (state: LimitState): LimitState => ({
    ...state,
    async [method](requests: readonly never[]) {
      calls.push(requests.length)
      left -= 1
      if (left >= 0) throw new SluiceError('STATE_UNAVAILABLE', 'Away.', { retryAfterMs: 1_000 })
      return state[method](requests)
    },
  })
  return { calls, wrapState }
}

test('the place of a cancelled notification goes to those who wait as soon as the state of the limits answers again', async () => {
  const { wrapState } = refusing('cancel', 3)
  const harness = await createHarness({ policy, parts: { wrapState } })
  await harness.post()
  const [other, third] = [await harness.post(), await harness.post()]
  const { dueAt } = await harness.notification(other.id)
  await harness.done(harness.gateway.gate.cancel('default', other.id))
  assert.equal((await harness.notification(other.id)).status, 'cancelled')
  await harness.runFor(10 * second)
  assert.equal((await harness.notification(third.id)).dueAt, dueAt)
  await harness.runFor(3 * hour)
  assert.equal(harness.sent().length, 2)
  await harness.check()
  await harness.stop()
})

test('the fingerprint of a cancelled notification is released as soon as the state of the limits answers again', async () => {
  const { calls, wrapState } = refusing('releaseFingerprints', 1)
  const harness = await createHarness({
    policy: { ...policy, deduplication: { window: '1h' } },
    parts: { wrapState },
  })
  await harness.post()
  const content = { subject: 'Again', text: 'Again' }
  const waiting = await harness.post({ content })
  await harness.done(harness.gateway.gate.cancel('default', waiting.id))
  await harness.runFor(10 * second)
  assert.equal(calls.length, 2, 'refused once')
  assert.equal((await harness.post({ content })).status, 'scheduled', 'it is no duplicate')
  await harness.stop()
})

test('the start after a stop that cut the retries short gives the place to those who wait', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-release-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  const { wrapState } = refusing('cancel', Number.POSITIVE_INFINITY)
  const before = await createHarness({ policy, file, parts: { wrapState } })
  await before.post()
  const [other, third] = [await before.post(), await before.post()]
  const { dueAt } = await before.notification(other.id)
  await before.done(before.gateway.gate.cancel('default', other.id))
  await before.stop()
  const after = await createHarness({ policy, file, start: before.clock.now() + minute })
  await after.runFor(10 * second)
  assert.equal((await after.notification(third.id)).dueAt, dueAt)
  await after.stop()
})

test('a stop ends the tries to release what a notification held', async () => {
  const { calls, wrapState } = refusing('cancel', Number.POSITIVE_INFINITY)
  const harness = await createHarness({ policy, parts: { wrapState } })
  await harness.post()
  const waiting = await harness.post()
  await harness.done(harness.gateway.gate.cancel('default', waiting.id))
  await harness.runFor(10 * second)
  const tries = calls.length
  assert.ok(tries >= 3, `${tries} tries within ten seconds`)
  await harness.stop()
  await harness.runFor(10 * minute)
  assert.equal(calls.length, tries)
})
