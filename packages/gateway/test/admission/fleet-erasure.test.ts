/** An erasure whose process dies is completed by the others, and begun only once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createErasure } from '../../src/admission/erasure.ts'
import { SluiceError } from '../../src/errors.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const eve = { tenant: 'acme', recipient: 'eve' }

/** An erasure over a record that is told here; `calls` are those of its store. */
function erasureOver(pending: readonly (typeof eve)[], fails = 0) {
  const clock = createVirtualClock(0)
  const calls: string[] = []
  const errors: string[] = []
  const fault: { begin?: (() => void) | undefined; list?: (() => void) | undefined } = {}
  let left = fails
  let hear = (): void => {}
  const erasure = createErasure({
    store: {
      async beginErasure(_tenant, recipient) {
        calls.push(`begin ${recipient}`)
        fault.begin?.()
      },
      async erase(_tenant, recipient) {
        calls.push(`erase ${recipient}`)
        left -= 1
        if (left >= 0) throw new SluiceError('STORE_UNAVAILABLE', 'The record is away.')
        return { done: true }
      },
      async erasures() {
        fault.list?.()
        return pending
      },
    },
    recipients: { forget() {} },
    contents: { forgetTenant() {} },
    cancel: () => Promise.resolve(),
    digests: { forgetRecipient() {} },
    rereadJobs: () => Promise.resolve(),
    notifier: { tell: () => {} },
    members: {
      onDeath(listener) {
        hear = () => listener(['1'])
        return () => {
          hear = () => {}
        }
      },
    },
    clock,
    onError: (what) => errors.push(what),
  })
  return { erasure, clock, calls, errors, fault, die: () => hear() }
}

test('the erasures of a process that dies are completed by those that live', async () => {
  const pending: (typeof eve)[] = []
  const { erasure, clock, calls, die } = erasureOver(pending)
  await erasure.start()
  await clock.runUntil(1_000)
  assert.deepEqual(calls, [])
  pending.push(eve)
  die()
  await clock.runUntil(2_000)
  assert.deepEqual(calls, ['erase eve'])
  erasure.stop()
  die()
  await clock.runUntil(3_000)
  assert.deepEqual(calls, ['erase eve'])
})

test('an erasure that is completed later does not take what was saved of the recipient behind its beginning', async () => {
  const { erasure, clock, calls, errors } = erasureOver([], 2)
  await assert.rejects(erasure.erase('acme', 'eve'), { code: 'STORE_UNAVAILABLE' })
  await clock.runUntil(100_000)
  assert.deepEqual(calls, ['begin eve', 'erase eve', 'erase eve', 'erase eve'])
  assert.equal(errors.length, 2)
  erasure.stop()
})

test('an erasure whose beginning was recorded, but not answered, is completed and not begun again', async () => {
  const pending: (typeof eve)[] = []
  const { erasure, clock, calls, fault } = erasureOver(pending)
  fault.begin = () => {
    // The record has it, and what is saved from now on is of a recipient who came back.
    pending.push(eve)
    fault.begin = undefined
    throw new SluiceError('STORE_UNAVAILABLE', 'The answer was lost.')
  }
  await assert.rejects(erasure.erase('acme', 'eve'), { code: 'STORE_UNAVAILABLE' })
  await clock.runUntil(100_000)
  assert.deepEqual(calls, ['begin eve', 'erase eve'])
  erasure.stop()
})

test('the erasures of a process that dies are looked for again where the record is away at that moment', async () => {
  const pending: (typeof eve)[] = []
  const { erasure, clock, calls, fault, die } = erasureOver(pending)
  await erasure.start()
  pending.push(eve)
  fault.list = () => {
    fault.list = undefined
    throw new SluiceError('STORE_UNAVAILABLE', 'The record is away.')
  }
  die()
  await clock.runUntil(100_000)
  assert.deepEqual(calls, ['erase eve'])
  erasure.stop()
})
