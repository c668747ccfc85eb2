/** The limits of recipients in Redis: the suites of their port, on one server and on a cluster, and several processes. */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { exerciseLimits } from '../../../../src/conformance/limits.ts'
import { exerciseForcedCounts } from '../../../../src/conformance/limits-forced.ts'
import { exerciseLimitsRecord } from '../../../../src/conformance/limits-record.ts'
import { SluiceError } from '../../../../src/errors.ts'
import type { LimitState, Subject } from '../../../../src/ports.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { type Engine, engines, openAdmin, openRedis } from './open.ts'
import { openLimits } from './open-limits.ts'

const second = 1_000
const one = [limit('one', '1/10s', { stream: 'all' })]
const windowMs = 10 * second + 20
const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const request = (id: string) => ({ subject: ada, id, rules: one })
const reserve = async (state: LimitState, id: string) => (await state.reserve([request(id)]))[0]!

async function adminOf(t: TestContext, engine: Engine) {
  const admin = await openAdmin(engine)
  t.after(admin.close)
  return admin
}

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    exerciseLimits('Limits of recipients in Redis', () => openLimits(engine))
    exerciseForcedCounts('Forced counts of recipients in Redis', () => openLimits(engine))
    exerciseLimitsRecord('Limits of recipients in Redis beside their record', () => openLimits(engine))

    it('counts over all processes, and tells one what another has freed', async () => {
      const { state, openState, now } = openLimits(engine)
      const other = openState()
      const start = now()
      assert.equal((await state.fire([request('1')]))[0]!.fired, true)
      assert.equal((await reserve(other, '2')).at, start + windowMs)
      assert.deepEqual(await state.waiting(ada), ['2'])
      assert.deepEqual(await state.cancel([{ subject: ada, id: '1' }]), [ada])
      assert.equal((await other.advance([request('2')]))!.at, start)
      await state.resume([ada])
    })

    it('counts nothing of one whose fingerprint another has taken since, unless that is another first', async () => {
      const { state, now } = openLimits(engine)
      const hold = (id: string, more = {}) =>
        state.holdFingerprints([{ subject: ada, fingerprint: 'f', id, windowMs: 10 * second, ...more }])
      const fire = async (acceptedAt: number) => {
        const print = { fingerprint: 'f', acceptedAt, windowMs: 10 * second }
        return (await state.fire([{ ...request('1'), print }]))[0]!
      }
      await hold('1')
      await hold('2', { inPlaceOf: '1' })
      assert.deepEqual(await fire(now()), { fired: false, at: now(), isDuplicate: true })
      assert.equal((await reserve(state, '3')).at, now())
      await state.cancel([{ subject: ada, id: '3' }])
      assert.equal((await fire(now() - 10 * second)).fired, true)
    })

    it('holds newcomers of another process up, until the pause is over', async () => {
      const { state, openState, now } = openLimits(engine)
      const other = openState()
      await state.pause([ada])
      let isBooked = false
      const newcomer = reserve(other, '1').finally(() => {
        isBooked = true
      })
      await sleep(60)
      assert.equal(isBooked, false)
      await state.resume([ada])
      assert.equal((await newcomer).at, now())
      assert.equal((await reserve(state, '2')).at, now() + windowMs)
      await state.queueBehind(ada, ['2'])
      assert.equal((await reserve(other, '3')).at, now() + 2 * windowMs)
    })

    it('holds newcomers up no longer than some seconds for a process that has died', async () => {
      const { openState, state, now, until } = openLimits(engine)
      const dead = openState()
      await state.reserve([{ ...request('1'), notBefore: now() + 60 * second }])
      await dead.pause([ada])
      await dead.queueBehind(ada, ['1'])
      await until(now() + 5 * second)
      assert.equal((await reserve(state, '2')).at, now(), 'neither paused nor behind the floor')
    })

    for (const part of ['', ':about'])
      it(`fills a subject again that has lost ${part === '' ? 'its value' : 'its mark'}`, async (t) => {
        const { state, prefix, record, reads, now } = openLimits(engine)
        const admin = await adminOf(t, engine)
        const start = now()
        await state.fire([request('1')])
        record.set(ada.key, { entries: [{ id: '1', at: start, fired: true, streams: ['all'] }] })
        await admin.remove(`${prefix}{l/${ada.key}}${part}`)
        assert.equal((await reserve(state, '2')).at, start + windowMs)
        assert.equal(reads.length, 2)
      })

    it('knows a recipient without notifications, who is read once', async () => {
      const { state, reads } = openLimits(engine)
      for (const id of ['1', '2', '3']) {
        await reserve(state, id)
        await state.resume(await state.cancel([{ subject: ada, id }]))
      }
      assert.equal(reads.length, 1)
    })

    it('fills a recipient to whom nothing was sent with the question itself', async () => {
      const { openState, prefix, reads, now } = openLimits(engine)
      const redis = openRedis(engine, { prefix, clock: createVirtualClock(1_000_000), isVirtual: true })
      const asked: string[] = []
      const state = openState({
        redis: {
          ...redis,
          ask(script, key, args, deadlineMs) {
            asked.push(args[0]!)
            return redis.ask(script, key, args, deadlineMs)
          },
        },
      })
      assert.equal((await reserve(state, '1')).at, now())
      assert.equal((await reserve(state, '2')).at, now() + windowMs)
      assert.deepEqual(asked, ['reserve', '!reserve', 'reserve'])
      assert.equal(reads.length, 1)
    })

    it('keeps a recipient known whose first question books nothing', async () => {
      const { state, reads, now } = openLimits(engine)
      const later = { ...request('1'), notBefore: now() + 60 * second, horizonMs: 0, forbidden: [] }
      const forbidden = [{ from: now(), to: now() + 120 * second }]
      assert.equal((await state.reserve([{ ...later, forbidden }]))[0]!.held, false)
      assert.equal((await reserve(state, '2')).at, now())
      assert.equal(reads.length, 1)
    })

    it('knows a recipient who was filled while newcomers are held up', async () => {
      const { openState, state, now } = openLimits(engine)
      const { promise: paused, resolve } = Promise.withResolvers<void>()
      let reads = 0
      const recover = async (subject: Subject) => {
        reads += 1
        await state.pause([subject])
        resolve()
        return { entries: [], fingerprints: [], waitlist: [] }
      }
      const newcomer = reserve(openState({ recover }), '1')
      await paused
      await sleep(60)
      await state.resume([ada])
      assert.equal((await newcomer).at, now())
      assert.equal(reads, 1)
    })

    it('is filled by one of several processes that ask at once', async () => {
      const { openState, now } = openLimits(engine)
      let reads = 0
      const recover = async () => {
        reads += 1
        await sleep(30)
        return { entries: [], fingerprints: [], waitlist: [] }
      }
      const fleet = Array.from({ length: 6 }, () => openState({ recover }))
      const places = await Promise.all(fleet.map((state, index) => reserve(state, `${index}`)))
      assert.equal(reads, 1)
      assert.deepEqual(places.map(({ at }) => (at - now()) / windowMs).sort(), [0, 1, 2, 3, 4, 5])
    })

    it('refuses a fill whose facts were read before the subject was lost again and filled', async (t) => {
      const { openState, prefix, now } = openLimits(engine)
      const admin = await adminOf(t, engine)
      const { promise: read, resolve } = Promise.withResolvers<void>()
      const { promise: asked, resolve: asks } = Promise.withResolvers<void>()
      const none = { entries: [], fingerprints: [], waitlist: [] }
      const slow = openState({
        async recover() {
          asks()
          await read
          return none
        },
      })
      const quick = openState({ recover: () => none })
      const late = reserve(slow, '1')
      await asked
      await admin.remove(`${prefix}{l/${ada.key}}:about`)
      assert.equal((await quick.fire([request('2')]))[0]!.fired, true)
      resolve()
      assert.equal((await late).at, now() + windowMs, 'the send counts')
    })

    it('refuses a fill that comes when its claim has lapsed and others have been counted since', async () => {
      const { openState, state, now, until } = openLimits(engine)
      const { promise: read, resolve: hasRead } = Promise.withResolvers<void>()
      const { promise: mayFill, resolve: fill } = Promise.withResolvers<void>()
      await state.waiting(ada)
      let reads = 0
      const after = openState({
        rulesName: () => 'rules after',
        async recover() {
          reads += 1
          if (reads > 1)
            return {
              entries: [{ id: '1', at: sentAt, fired: true, streams: ['all'] }],
              fingerprints: [],
              waitlist: [],
            }
          hasRead()
          await mayFill
          return { entries: [], fingerprints: [], waitlist: [] }
        },
      })
      const late = reserve(after, '2')
      await read
      await until(now() + 3 * second)
      const sentAt = now()
      assert.equal((await state.fire([request('1')]))[0]!.fired, true)
      fill()
      assert.equal((await late).at, sentAt + windowMs)
    })

    it('counts a send that leaves late while its subject is filled', async () => {
      const { openState, now, until } = openLimits(engine)
      const { promise: read, resolve: hasRead } = Promise.withResolvers<void>()
      const { promise: mayFill, resolve: fill } = Promise.withResolvers<void>()
      const sender = openState()
      const firedAt = now()
      const filler = openState({
        async recover() {
          hasRead()
          await mayFill
          return {
            entries: [{ id: '1', at: firedAt, fired: true, streams: ['all'] }],
            fingerprints: [],
            waitlist: [],
          }
        },
      })
      const asked = filler.waiting(ada)
      await read
      await until(now() + second)
      const leftAt = now()
      const recounted = sender.recount([request('1')])
      await Promise.race([recounted, sleep(100)])
      fill()
      await Promise.all([asked, recounted])
      assert.equal((await reserve(sender, '2')).at, leftAt + windowMs)
    })

    it('does not believe a value under another registration of its server', async () => {
      const clock = createVirtualClock(1_000_000)
      const { prefix, openState, state, reads, now } = openLimits(engine)
      await state.fire([request('1')])
      const registrations = createMemoryRegistrations()
      for (const runId of ['a', 'b', 'c', 'd'])
        await registrations.register({ node: 'another', runId, replicationId: 'x' })
      const redis = openRedis(engine, { prefix, clock, isVirtual: true, registrations })
      const other = openState({ redis })
      assert.equal((await reserve(other, '2')).at, now(), 'the record knows of no send')
      assert.equal(reads.length, 2)
    })

    it('rejects with STATE_UNAVAILABLE when the record does not answer in time, and asks it again', async () => {
      const { openState, prefix, now } = openLimits(engine)
      const clock = createVirtualClock(1_000_000)
      const redis = openRedis(engine, {
        prefix,
        clock: { ...clock, monotonic: () => performance.now() },
        isVirtual: true,
        deadlineMs: 1_500,
      })
      let isAway = true
      const state = openState({
        redis,
        clock: { now: clock.now, monotonic: () => performance.now(), at: clock.at },
        recover() {
          if (isAway) throw new SluiceError('STORE_UNAVAILABLE', 'the store is away')
          return { entries: [], fingerprints: [], waitlist: [] }
        },
      })
      await assert.rejects(reserve(state, '1'), { code: 'STORE_UNAVAILABLE' })
      isAway = false
      assert.equal((await reserve(state, '1')).at, now())
      const hanging = openState({
        redis,
        clock: { now: clock.now, monotonic: () => performance.now(), at: clock.at },
        recover: () => new Promise<never>(() => {}),
      })
      await assert.rejects(hanging.reserve([{ ...request('1'), subject: { ...ada, key: 'b' } }]), {
        code: 'STATE_UNAVAILABLE',
      })
    })

    it('waits for a record that takes longer than a question to Redis may take, also where another process reads it', async () => {
      const { openState, prefix, now } = openLimits(engine)
      const clock = createVirtualClock(1_000_000)
      const monotonic = () => performance.now()
      const registrations = createMemoryRegistrations()
      let reads = 0
      const join = async (name: string) => {
        const redis = openRedis(engine, {
          prefix,
          clock: { ...clock, monotonic },
          isVirtual: true,
          registrations,
          deadlineMs: 1_000,
        })
        const state = openState({
          redis,
          clock: { now: clock.now, monotonic, at: clock.at },
          async recover(subject) {
            if (subject.key === ada.key) {
              reads += 1
              await sleep(1_300)
            }
            return { entries: [], fingerprints: [], waitlist: [] }
          },
        })
        // A busy machine connects in more than the second that a question has.
        for (let isOpen = false; !isOpen; )
          isOpen = await state.reserve([{ ...request('1'), subject: { ...ada, key: name } }]).then(
            () => true,
            () => false,
          )
        return state
      }
      const [one, other] = [await join('one'), await join('other')]
      const booked = await Promise.all([reserve(one, '1'), reserve(other, '2')])
      assert.deepEqual(booked.map(({ at }) => at - now()).sort(), [0, windowMs])
      assert.equal(reads, 1)
    })

    it('resumes the subjects that it has paused when another one of the same call cannot be asked', async () => {
      const bob: Subject = { ...ada, key: 'acme/bob' }
      const { openState, now } = openLimits(engine)
      const state = openState({
        recover(subject) {
          if (subject.key === bob.key) throw new SluiceError('STORE_UNAVAILABLE', 'the store is away')
          return { entries: [], fingerprints: [], waitlist: [] }
        },
      })
      for (const id of ['1', '2']) await reserve(state, id)
      const releases = [ada, bob].map((subject) => ({ subject, id: '1' }))
      await assert.rejects(state.cancel(releases), { code: 'STORE_UNAVAILABLE' })
      assert.equal((await reserve(state, '3')).at, now(), 'newcomers are not held up for ever')
    })
  })
