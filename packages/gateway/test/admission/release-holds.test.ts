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
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createHarness, hour, minute, second } from '../harness.ts'
import { open, workFor } from '../http/job-harness.ts'

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

/** A gateway whose limits refuse all releases until they are let go: a killed one's cancellation is on record, and no more. */
async function killedInCancelling() {
  let isKilled = true
  const harness = await createHarness({
    policy: { ...policy, deduplication: { window: '1h' } },
    parts: {
      wrapState: (state) => ({
        ...state,
        async cancel(requests) {
          if (isKilled) throw new Error('killed')
          return state.cancel(requests)
        },
      }),
    },
  })
  return {
    harness,
    goOn(): void {
      isKilled = false
    },
  }
}

test('a cancellation that is asked for once more releases what a killed gateway had left', async () => {
  const { harness, goOn } = await killedInCancelling()
  const { gate } = harness.gateway
  await harness.post()
  const content = { subject: 'Again', text: 'Again' }
  const waiting = await harness.post({ content })
  await harness.runFor(minute)
  await assert.rejects(harness.done(gate.cancel('default', waiting.id)), { message: 'killed' })
  assert.equal((await harness.notification(waiting.id)).status, 'cancelled')
  goOn()
  await harness.done(gate.cancel('default', waiting.id))
  const other = await harness.post({ content })
  assert.deepEqual([other.status, other.dueAt], ['scheduled', waiting.dueAt])
  await harness.stop()
})

test('the cancellation of a batch that is asked for once more releases what a killed gateway had left', async () => {
  const { harness, goOn } = await killedInCancelling()
  const { jobs, store } = harness.gateway
  await harness.post({ recipient: 'r0' })
  const job = await open(harness, workFor(1))
  await harness.runFor(minute)
  const [member] = await store.jobMembers(job)
  const { dueAt, status } = await harness.notification(member!.id)
  assert.equal(status, 'scheduled')
  await assert.rejects(harness.done(jobs.cancel(job)), { message: 'killed' })
  goOn()
  await harness.done(jobs.cancel((await store.job('default', job.id))!))
  const other = await harness.post({ recipient: 'r0' })
  assert.deepEqual([other.status, other.dueAt], ['scheduled', dueAt])
  await harness.stop()
})

test('a gateway that hears of the death of another one releases what that one had cancelled and not released', async () => {
  let isKilled = true
  let hasRole = true
  let tellDeath: (gone: readonly string[]) => void = () => {}
  const harness = await createHarness({
    policy,
    parts: {
      store: createMemoryRecord(250).open('a'),
      members: {
        id: 'a',
        count: () => 1,
        othersServe: () => false,
        policiesLeft: () => '',
        announcePolicy: async () => {},
        holds: (role) => role !== 'releases' || hasRole,
        onDeath(listener) {
          const before = tellDeath
          tellDeath = (gone) => {
            before(gone)
            listener(gone)
          }
          return () => {}
        },
        close: async () => {},
      },
      wrapState: (state) => ({
        ...state,
        async cancel(requests) {
          if (isKilled) throw new Error('killed')
          return state.cancel(requests)
        },
      }),
    },
  })
  await harness.post()
  const [cancelled, behind] = [await harness.post(), await harness.post()]
  await harness.runFor(minute)
  await assert.rejects(harness.done(harness.gateway.gate.cancel('default', cancelled.id)), {
    message: 'killed',
  })
  isKilled = false
  await harness.runFor(minute)
  assert.equal((await harness.notification(behind.id)).dueAt, behind.dueAt)
  // A beat of its own is late in that moment.
  hasRole = false
  tellDeath(['b'])
  await harness.runFor(8 * second)
  assert.equal((await harness.notification(behind.id)).dueAt, behind.dueAt)
  hasRole = true
  await harness.runFor(5 * second)
  assert.equal((await harness.notification(behind.id)).dueAt, cancelled.dueAt)
  await harness.stop()
})
