/**
 * The conformance suite of the port towards the limits of recipients: `exerciseLimits` runs it on any state. Times are those
 * of the clock that `open` gives; no test depends on how fast the state answers.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { limit } from '@sluice/limits'
import type { RecoveredSubject } from '../ports/recovered-subject.ts'
import type { LimitRequest, LimitState, Subject } from '../ports.ts'

/** The facts of a subject on record; what is absent is empty. */
export type SubjectFacts = Partial<RecoveredSubject>

export interface OpenLimits {
  readonly state: LimitState
  readonly now: () => number
  /** Lets time pass, up to this instant. */
  readonly until: (instant: number) => Promise<void>
  /** The record, by the keys of subjects; a subject that is absent has no facts. */
  readonly record: Map<string, SubjectFacts>
  /** The subjects that were read from the record, in order. */
  readonly reads: readonly Subject[]
  /** Changes the rules in force: subjects are filled again. */
  readonly renew: () => void
  /** Subjects that were reported as outdated, in order. */
  readonly outdated: readonly Subject[]
}

const marginMs = 20
const second = 1_000
const one = [limit('one', '1/10s', { stream: 'all' })]
const two = [limit('two', '2/10s', { stream: 'all' })]
const windowMs = 10 * second + marginMs
const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const bob: Subject = { key: 'acme/bob', tenant: 'acme', recipient: 'bob' }

/** Registers the suite `name` with node:test. `open` gives a state that knows nothing, with a margin of 20 ms. */
export function exerciseLimits(name: string, open: () => OpenLimits | Promise<OpenLimits>): void {
  const request = (id: string, rules = one, more: Partial<LimitRequest> = {}): LimitRequest => ({
    subject: ada,
    id,
    rules,
    ...more,
  })
  async function reserve(state: LimitState, id: string, rules = one, more: Partial<LimitRequest> = {}) {
    const [reservation] = await state.reserve([request(id, rules, more)])
    return reservation!
  }
  async function fire(state: LimitState, id: string, rules = one, more: Partial<LimitRequest> = {}) {
    const [firing] = await state.fire([request(id, rules, more)])
    return firing!
  }

  describe(name, () => {
    it('reserves the earliest instant that the limits admit, and the same one for the same id', async () => {
      const { state, now } = await open()
      const start = now()
      const first = await reserve(state, '1')
      assert.deepEqual([first.at, first.allowed, first.held], [start, true, true])
      const second = await reserve(state, '2')
      assert.deepEqual([second.at - start, second.allowed, second.held], [windowMs, false, true])
      assert.deepEqual(second.refusedBy, ['one'])
      assert.equal((await reserve(state, '2')).at, second.at)
      assert.equal((await reserve(state, '3')).at - start, 2 * windowMs)
    })

    it('reserves in turn beside what has left alone, whatever waits behind, and counts nothing', async () => {
      const { state, now, until } = await open()
      const start = now()
      await reserve(state, '1')
      await fire(state, '1')
      await reserve(state, '2')
      await until(start + windowMs)
      const inTurn = { inTurn: true, waited: true }
      const closed = await reserve(state, '3', one, { waited: true, horizonMs: 0 })
      assert.equal(closed.held, false, 'against all that waits it would have to wait')
      const [seen] = await state.preview([request('3', one, { ...inTurn, horizonMs: 0 })])
      assert.deepEqual([seen!.held, seen!.allowed, seen!.fired], [true, true, false])
      const early = await reserve(state, '3', one, { ...inTurn, notBefore: now() + second, horizonMs: 0 })
      assert.deepEqual([early.at, early.held, early.allowed], [now() + second, true, false])
      const turned = await reserve(state, '3', one, { ...inTurn, horizonMs: 0 })
      assert.deepEqual([turned.at, turned.held, turned.allowed, turned.fired], [now(), true, true, false])
      assert.deepEqual(
        turned.rules.map(({ used, remaining, admits }) => [used, remaining, admits]),
        [[0, 1, true]],
      )
      assert.equal((await fire(state, '3')).fired, true)
      // The next one in turn meets what has left now.
      const next = await reserve(state, '4', one, { ...inTurn, horizonMs: 0 })
      assert.deepEqual([next.at, next.held], [now() + windowMs, false])
      const again = await reserve(state, '3', one, inTurn)
      assert.deepEqual([again.fired, again.held], [true, true], 'one that has left is answered what it holds')
      assert.equal((await fire(state, '2')).at, now() + windowMs)
    })

    it('reserves for several requests at once in their order', async () => {
      const { state, now } = await open()
      const start = now()
      const places = await state.reserve([request('1'), request('2'), { ...request('3'), subject: bob }])
      assert.deepEqual(
        places.map(({ at }) => at - start),
        [0, windowMs, 0],
      )
    })

    it('holds nothing beyond the horizon, and tells the instant', async () => {
      const { state, now } = await open()
      const start = now()
      await reserve(state, '1')
      const far = await reserve(state, '2', one, { horizonMs: 5 * second })
      assert.deepEqual([far.held, far.at - start], [false, windowMs])
      assert.equal((await reserve(state, '3')).at - start, windowMs, 'the place is free')
    })

    it('answers a preview as a reservation, and reserves nothing', async () => {
      const { state } = await open()
      await reserve(state, '1')
      const [seen] = await state.preview([request('2')])
      const [again] = await state.preview([request('3')])
      const booked = await reserve(state, '4')
      for (const preview of [seen!, again!])
        assert.deepEqual(JSON.parse(JSON.stringify(preview)), JSON.parse(JSON.stringify(booked)))
    })

    it('counts a notification when it is fired, at the instant of that', async () => {
      const { state, now, until } = await open()
      await reserve(state, '1')
      await until(now() + 300)
      const firedAt = now()
      assert.deepEqual(await fire(state, '1'), { fired: true, at: firedAt })
      assert.equal((await reserve(state, '2')).at, firedAt + windowMs)
    })

    it('counts once what is fired twice', async () => {
      const { state, now, until } = await open()
      assert.equal((await fire(state, '1', two)).fired, true)
      await until(now() + second)
      assert.deepEqual(await fire(state, '1', two), { fired: true, at: now() })
      assert.equal((await fire(state, '2', two)).fired, true)
      assert.equal((await fire(state, '3', two)).fired, false)
    })

    it('reserves anew what the limits do not admit when it is fired', async () => {
      const { state, now } = await open()
      const start = now()
      await fire(state, '1')
      assert.deepEqual(await fire(state, '2'), { fired: false, at: start + windowMs })
      assert.deepEqual(await state.waiting(ada), ['2'])
    })

    it('does not fire before the place that an id holds', async () => {
      const { state, now, until } = await open()
      await reserve(state, '1')
      const { at } = await reserve(state, '2')
      await state.cancel([{ subject: ada, id: '1' }])
      assert.deepEqual(await fire(state, '2'), { fired: false, at })
      await until(at)
      assert.deepEqual(await fire(state, '2'), { fired: true, at: now() })
    })

    it('frees the place of one that hours hold up at its release: those who wait are paused', async () => {
      const { state, now, until } = await open()
      const start = now()
      await fire(state, '1')
      for (const id of ['2', '3']) await reserve(state, id)
      await until(start + windowMs)
      const forbidden = [{ from: start, to: start + 60 * second }]
      const held = await fire(state, '2', one, { forbidden })
      assert.deepEqual(held, { fired: false, at: start + 60 * second, freed: ada })
      await state.resume([ada])
    })

    it('frees the place of what is cancelled, and pauses the subject where others wait for it', async () => {
      const { state, now } = await open()
      const start = now()
      for (const id of ['1', '2']) await reserve(state, id)
      assert.deepEqual(await state.cancel([{ subject: bob, id: '1' }]), [])
      assert.deepEqual(
        await state.cancel([
          { subject: ada, id: '1' },
          { subject: ada, id: 'unknown' },
        ]),
        [ada],
      )
      const newcomer = reserve(state, '3')
      const waited = await reserve(state, '4', one, { waited: true })
      assert.equal(waited.at, start)
      await state.resume([ada])
      assert.equal((await newcomer).at - start, 2 * windowMs)
      assert.deepEqual(await state.cancel([{ subject: ada, id: '2' }]), [ada])
      await state.resume([ada])
      assert.deepEqual(await state.waiting(ada), ['3'])
    })

    it('keeps the count of what was fired later than its caller knows', async () => {
      const { state, now, until } = await open()
      const start = now()
      await fire(state, '1')
      const unlessFired = (after: number) => ({ subject: ada, id: '1', unlessFired: { after, rules: one } })
      await state.cancel([unlessFired(start - 1)])
      assert.equal((await state.preview([request('2')]))[0]!.at, start + windowMs)
      await until(start + second)
      await state.cancel([unlessFired(start)])
      assert.equal((await state.preview([request('2')]))[0]!.at, now())
      await reserve(state, '3')
      await state.cancel([{ subject: ada, id: '3', unlessFired: { after: -1, rules: one } }])
      assert.equal((await reserve(state, '4')).at, now(), 'a booking is no send')
    })

    it('holds newcomers up until a subject is resumed as often as it was paused', async () => {
      const { state } = await open()
      await state.pause([ada, bob])
      await state.pause([ada])
      const order: string[] = []
      const newcomer = reserve(state, '1').then(() => order.push('newcomer'))
      await reserve(state, '2', one, { waited: true })
      order.push('waited')
      await state.resume([ada])
      await state.preview([{ ...request('3'), waited: true }])
      order.push('once more')
      await state.resume([ada])
      await newcomer
      assert.deepEqual(order, ['waited', 'once more', 'newcomer'])
      await state.resume([bob])
    })

    it('books newcomers behind those who move up', async () => {
      const { state, now } = await open()
      const start = now()
      await fire(state, '1')
      for (const id of ['2', '3']) await reserve(state, id)
      assert.deepEqual(await state.cancel([{ subject: ada, id: '2' }]), [ada])
      assert.equal(await state.queueBehind(ada, ['3']), true)
      assert.equal(await state.queueBehind(ada, ['3', 'unknown']), false, 'one holds no instant')
      await state.resume([ada])
      assert.equal((await state.preview([request('4')]))[0]!.at - start, 3 * windowMs)
      assert.equal((await reserve(state, '4')).at - start, 3 * windowMs)
      assert.equal((await reserve(state, '5', one, { waited: true })).at - start, windowMs)
      await state.queueBehind(ada, [])
      await state.resume(await state.cancel([{ subject: ada, id: '5' }]))
      assert.equal((await reserve(state, '6')).at - start, windowMs)
    })

    it('does not refuse a newcomer for what those before it have taken', async () => {
      const { state, now } = await open()
      const start = now()
      const refusing = [limit('one', '1/10s', { stream: 'all', over: 'refuse' })]
      await reserve(state, '1', one, { notBefore: start + 60 * second })
      await state.queueBehind(ada, ['1'])
      const behind = await reserve(state, '2', refusing)
      assert.deepEqual(
        [behind.held, behind.allowed, behind.at - start],
        [true, false, 60 * second + windowMs],
      )
      await state.queueBehind(ada, [])
    })

    it('lists who waits in the order of acceptance, those without an instant too', async () => {
      const { state } = await open()
      await fire(state, '1')
      for (const id of ['4', '2']) await reserve(state, id)
      await state.enlist([
        { subject: ada, id: '3' },
        { subject: ada, id: '5' },
      ])
      assert.deepEqual(await state.waiting(ada), ['2', '3', '4', '5'])
      await state.delist([
        { subject: ada, id: '3' },
        { subject: ada, id: '2' },
      ])
      assert.deepEqual(await state.waiting(ada), ['2', '4', '5'], 'one that holds an instant waits for it')
      assert.deepEqual(await state.cancel([{ subject: ada, id: '5' }]), [ada])
      await state.resume([ada])
      assert.deepEqual(await state.waiting(ada), ['2', '4'])
    })

    it('pauses a subject where only ids without an instant wait', async () => {
      const { state } = await open()
      await fire(state, '1')
      await state.enlist([{ subject: ada, id: '2' }])
      assert.deepEqual(await state.cancel([{ subject: ada, id: '1' }]), [ada])
      assert.equal((await reserve(state, '2', one, { waited: true })).allowed, true)
      await state.resume([ada])
      assert.deepEqual(await state.waiting(ada), [], 'a reservation takes it off the list')
    })

    it('moves a reservation to an earlier instant, never to a later one', async () => {
      const { state, now } = await open()
      const start = now()
      await fire(state, '1')
      for (const id of ['2', '3']) await reserve(state, id)
      assert.equal(await state.advance([request('3', one, { waited: true })]), undefined)
      await state.resume(await state.cancel([{ subject: ada, id: '2' }]))
      const advanced = await state.advance([request('3', one, { waited: true })])
      assert.deepEqual(
        [advanced!.at - start, advanced!.from - start, advanced!.freed],
        [windowMs, 2 * windowMs, []],
      )
      assert.equal(advanced!.reservations[0]!.held, true)
      assert.equal(await state.advance([request('unknown')]), undefined)
      await state.resume(await state.cancel([{ subject: ada, id: '3' }]))
      assert.equal(await state.advance([request('3')]), undefined, 'it holds nothing any more')
      assert.deepEqual(await state.waiting(ada), [])
    })

    it('tells of a reservation that is later than it was promised', async () => {
      const { state, now } = await open()
      const start = now()
      await fire(state, '1')
      const { at } = await reserve(state, '2')
      const advanced = await state.advance([request('2', one, { promisedAt: start + second })])
      assert.deepEqual([advanced?.at, advanced?.from], [at, at])
    })

    it('frees the later slot for those who wait behind', async () => {
      const { state, now } = await open()
      const start = now()
      await fire(state, '1')
      for (const id of ['2', '3', '4']) await reserve(state, id)
      await state.resume(await state.cancel([{ subject: ada, id: '2' }]))
      const advanced = await state.advance([request('3')])
      assert.deepEqual([advanced!.at - start, advanced!.freed], [windowMs, [ada]])
      await state.resume([ada])
      assert.equal((await state.advance([request('4')]))!.at - start, 2 * windowMs)
    })

    it('moves no newcomer while others move up', async () => {
      const { state, now } = await open()
      const start = now()
      await fire(state, '1')
      for (const id of ['2', '3']) await reserve(state, id)
      const freed = await state.cancel([{ subject: ada, id: '2' }])
      const advance = async () => (await state.advance([request('3')], { isNewcomer: true }))?.at
      assert.equal(await advance(), undefined, 'newcomers are held up')
      await state.queueBehind(ada, ['3'])
      await state.resume(freed)
      assert.equal(await advance(), undefined, 'newcomers are booked behind those who move up')
      await state.queueBehind(ada, [])
      assert.equal((await advance())! - start, windowMs)
    })

    it('moves under several subjects only where all admit it', async () => {
      const { state, now } = await open()
      const start = now()
      const both = (id: string) => [request(id), { ...request(id), subject: bob }]
      await state.fire(both('1'))
      await fire(state, 'b', one, { subject: bob, notBefore: start + second })
      for (const id of ['2', '3']) await state.reserve(both(id))
      const places = async () => {
        const at = async (subject: Subject) =>
          (await state.reserve([{ ...request('3'), subject, waited: true }]))[0]!.at - start
        return [await at(ada), await at(bob)]
      }
      const before = await places()
      assert.equal(before[0], 2 * windowMs)
      await state.resume(await state.cancel([{ subject: ada, id: '2' }]))
      if (before[0] === before[1]) {
        assert.equal(await state.advance(both('3')), undefined, 'the other subject has no place')
        assert.deepEqual(await places(), before)
        await state.resume(await state.cancel([{ subject: bob, id: '2' }]))
        const advanced = await state.advance(both('3'))
        assert.equal(advanced!.at - start, windowMs)
        assert.equal(advanced!.reservations.length, 2)
        assert.deepEqual(await places(), [windowMs, windowMs])
      }
    })

    it('lets one notification hold a fingerprint within the window', async () => {
      const { state, now, until } = await open()
      const hold = async (id: string, more: object = {}) => {
        const [held] = await state.holdFingerprints([
          { subject: ada, fingerprint: 'f', id, windowMs: 10 * second, ...more },
        ])
        return held
      }
      assert.equal(await hold('1', { dry: true }), true)
      assert.deepEqual([await hold('1'), await hold('2'), await hold('1')], [true, false, true])
      await state.releaseFingerprints([{ subject: ada, fingerprint: 'f', id: '2' }])
      assert.equal(await hold('2'), false)
      await state.releaseFingerprints([{ subject: ada, fingerprint: 'f', id: '1' }])
      assert.equal(await hold('2'), true)
      await until(now() + 10 * second)
      await hold('3')
      assert.equal((await state.fingerprintHolder({ subject: ada, fingerprint: 'f' }))?.id, '3')
      assert.ok(!(await hold('4', { inPlaceOf: '1' })) && (await hold('4', { inPlaceOf: '3' })))
    })
  })
}
