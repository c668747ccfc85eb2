import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import {
  createRecipientLimiter,
  type RecipientLimiterOptions,
} from '../../src/admission/recipient-limiter.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Notification } from '../../src/model.ts'
import type { LimitState } from '../../src/ports.ts'
import { createVirtualClock, type VirtualClock } from '../../src/simulation/clock.ts'

const start = 1_000_000
const rules = [limit('all', '1/min')]
const subjects = ['default:ada', 'default//author'].map((key) => ({ key, tenant: 'default' }))

const of = (id: string) => ({ notification: { id } as Notification, recipient: null })

/** A limiter whose notifications have one limit for the recipient and one for the author. */
function limiterOver(
  state: LimitState,
  clock: VirtualClock,
  onFreed: RecipientLimiterOptions['onFreed'] = () => {},
) {
  const policy = { rulesFor: () => subjects.map((subject) => ({ subject, rules })) }
  return createRecipientLimiter({
    state,
    policy: policy as never,
    forbiddenHours: {
      forbidden: () => undefined,
      heldUntil: () => undefined,
    } as unknown as RecipientLimiterOptions['forbiddenHours'],
    clock,
    onFreed,
  })
}

test('a try of several subjects that is too late leaves the count of the call that another try has made', async () => {
  const clock = createVirtualClock(start)
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })
  let calls = 0
  /** The second reservation is slow: meanwhile the notification is sent. */
  const slow: LimitState = {
    ...state,
    async reserve(requests) {
      calls += 1
      if (calls === 2) {
        await clock.runUntil(start + 1_000)
        await state.fire(subjects.map((subject) => ({ subject, id: 'n', rules })))
      }
      return state.reserve(requests)
    },
  }
  const limiter = limiterOver(slow, clock)
  const [late] = await limiter.reserve([of('n')])
  assert.equal(late!.held, true)
  // Its commit is refused, for the notification has moved.
  await limiter.takeBack([of('n')])
  const [next] = await limiter.reserve([of('other')])
  assert.equal(next!.at, start + 61_000, 'the call of the other try counts')
})

test('a slot that is left while another one is searched for keeps the count of a call that was made meanwhile', async () => {
  const clock = createVirtualClock(start)
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })
  const limiter = limiterOver(state, clock)
  await limiter.reserve([of('n')])
  // Another gateway sends it after this one has read that it waits.
  await limiter.fire([of('n')])
  const done = await limiter.lift(of('n'))
  await done(false)
  const [next] = await limiter.reserve([of('other')])
  assert.equal(next!.at, start + 60_000, 'the call counts')
  // One that was not sent leaves its slot to the next.
  await (await limiter.lift(of('other')))(false)
  const [third] = await limiter.reserve([of('third')])
  assert.equal(third!.at, start + 60_000)
})

test('one that leaves a moment late in one of its subjects moves the next by this moment, not behind all who wait', async () => {
  const clock = createVirtualClock(start)
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })
  const [own, author] = subjects
  const policy = {
    rulesFor: () => [
      { subject: author!, rules },
      { subject: own!, rules: [limit('own', '100/min')] },
    ],
  }
  const limiter = createRecipientLimiter({
    state,
    policy: policy as never,
    forbiddenHours: {
      forbidden: () => undefined,
      heldUntil: () => undefined,
    } as unknown as RecipientLimiterOptions['forbiddenHours'],
    clock,
    onFreed: (freed) => state.resume(freed),
  })
  for (const id of ['1', '2', '3', '4']) await limiter.reserve([of(id)])
  await clock.runUntil(start + 5)
  assert.deepEqual(await limiter.fire([of('1')]), [{ fired: true, at: start + 5 }])
  await clock.runUntil(start + 60_000)
  assert.deepEqual(await limiter.fire([of('2')]), [{ fired: false, at: start + 60_005 }])
  await clock.runUntil(start + 60_005)
  assert.deepEqual(await limiter.fire([of('2')]), [{ fired: true, at: start + 60_005 }])
})

test('subjects that admit a notification at once agree on it however long each of them takes to answer', async () => {
  const clock = createVirtualClock(start)
  const memory = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })
  let asked = 0
  /** Answers a millisecond after it was asked. */
  const distant: LimitState = {
    ...memory,
    async preview(requests) {
      await clock.runUntil(clock.now() + 1)
      return memory.preview(requests)
    },
    async reserve(requests) {
      asked += 1
      await clock.runUntil(clock.now() + 1)
      return memory.reserve(requests)
    },
  }
  const [reservation] = await limiterOver(distant, clock).reserve([of('n')])
  assert.deepEqual([reservation!.held, reservation!.allowed], [true, true])
  assert.equal(asked, subjects.length, 'each subject is asked once')
})

test('those who wait in a subject move up also where the state fails after a call that was not fired freed a place', async () => {
  const clock = createVirtualClock(start)
  const memory = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })
  let isAway = false
  /** It fires once more, and is away from then on. */
  const state: LimitState = {
    ...memory,
    fire(requests) {
      if (isAway) return Promise.reject(new SluiceError('STATE_UNAVAILABLE', 'away'))
      isAway = true
      return memory.fire(requests)
    },
  }
  const limiter = limiterOver(state, clock, (freed) => void memory.resume(freed))
  const ids = ['first', 'waits', 'behind']
  for (const id of ids) await limiter.reserve([of(id)])
  // The recipient gets something else, so that the second one is due and may not leave.
  await clock.runUntil(start + 60_000)
  await memory.force([{ subject: subjects[0]!, id: 'critical', rules }])
  await assert.rejects(limiter.fire([of('waits')]), { code: 'STATE_UNAVAILABLE' })
  const newcomer = limiter.reserve([of('newcomer')])
  const outcome = await Promise.race([newcomer, clock.settle().then(() => 'held up')])
  assert.notEqual(outcome, 'held up', 'no newcomer is held up for ever')
})
