/**
 * The conformance suite of the limits of recipients beside their record: `exerciseLimitsRecord` runs it on any state. A
 * subject that is unknown is filled before anything is decided; what is on record counts from then on.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { limit } from '@sluice/limits'
import type { LimitRequest, LimitState, Subject } from '../ports.ts'
import type { OpenLimits } from './limits.ts'

const second = 1_000
const one = [limit('one', '1/10s', { stream: 'all' })]
const windowMs = 10 * second + 20
const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const streams = ['all']

/** Registers the suite `name` with node:test. `open` gives a state that knows nothing, with a margin of 20 ms. */
export function exerciseLimitsRecord(name: string, open: () => OpenLimits | Promise<OpenLimits>): void {
  const request = (id: string, more: Partial<LimitRequest> = {}): LimitRequest => ({
    subject: ada,
    id,
    rules: one,
    ...more,
  })
  const placeOf = async (state: LimitState, id: string, more: Partial<LimitRequest> = {}) =>
    (await state.reserve([request(id, more)]))[0]!.at

  describe(name, () => {
    it('counts what is on record, sent or waiting', async () => {
      const { state, now, record, reads } = await open()
      const start = now()
      record.set(ada.key, {
        entries: [
          { id: '1', at: start - second, fired: true, streams },
          { id: '2', at: start - second + windowMs, fired: false, streams },
        ],
      })
      assert.equal(await placeOf(state, '3'), start - second + 2 * windowMs)
      assert.deepEqual(await state.waiting(ada), ['2', '3'])
      assert.equal(await placeOf(state, '2'), start - second + windowMs)
      assert.deepEqual(reads, [ada], 'it is read once')
    })

    it('tells the latest instant that an id has reserved, also one that has passed, and none of one that was sent', async () => {
      const { state, now, until, record } = await open()
      const start = now()
      const bob: Subject = { key: 'acme/bob', tenant: 'acme', recipient: 'bob' }
      record.set(ada.key, { entries: [{ id: '1', at: start, fired: true, streams }] })
      const at = await placeOf(state, '2')
      await placeOf(state, '2', { subject: bob, notBefore: at + second })
      const reservedAt = (id: string, ...subjects: readonly Subject[]) =>
        state.reservedAt(subjects.map((subject) => ({ subject, id })))
      assert.equal(await reservedAt('1', ada), undefined)
      assert.equal(await reservedAt('3', ada, bob), undefined)
      assert.equal(await reservedAt('2', ada), at)
      assert.equal(await reservedAt('2', ada, bob), at + second)
      await until(at + second)
      assert.equal(await reservedAt('2', ada), at)
      await state.fire([request('2')])
      assert.equal(await reservedAt('2', ada), undefined)
    })

    it('fills a subject before each kind of question', async () => {
      const questions: ((state: LimitState) => Promise<unknown>)[] = [
        (state) => state.preview([request('9')]),
        (state) => state.fire([request('9')]),
        (state) => state.force([request('9')]),
        async (state) => state.resume(await state.cancel([{ subject: ada, id: '9' }])),
        (state) => state.enlist([{ subject: ada, id: '9' }]),
        (state) => state.waiting(ada),
        (state) => state.reservedAt([{ subject: ada, id: '9' }]),
        (state) => state.advance([request('9')]),
        (state) => state.adopt([{ ...request('9'), at: 0 }]),
        (state) =>
          state.holdFingerprints([{ subject: ada, fingerprint: 'g', id: '9', windowMs: 1, dry: true }]),
      ]
      for (const question of questions) {
        const { state, now, record, reads } = await open()
        record.set(ada.key, { entries: [{ id: '1', at: now(), fired: true, streams }] })
        await question(state)
        assert.equal(reads.length, 1)
        assert.ok((await placeOf(state, '2')) >= now() + windowMs)
      }
    })

    it('holds fingerprints that are on record', async () => {
      const { state, now, record } = await open()
      record.set(ada.key, { fingerprints: [{ fingerprint: 'f', id: '1', at: now() - second }] })
      const hold = (id: string) =>
        state.holdFingerprints([{ subject: ada, fingerprint: 'f', id, windowMs: 10 * second }])
      assert.deepEqual([await hold('2'), await hold('1')], [[false], [true]])
    })

    it('knows who waits without an instant, and pauses the subject for them', async () => {
      const { state, record } = await open()
      record.set(ada.key, { waitlist: ['7'] })
      assert.deepEqual(await state.waiting(ada), ['7'])
      await placeOf(state, '8')
      assert.deepEqual(await state.cancel([{ subject: ada, id: '8' }]), [ada])
      await state.resume([ada])
    })

    it('lets one that is overdue since its subject was filled wait for its planned place', async () => {
      const { state, now, until, record } = await open()
      const start = now()
      record.set(ada.key, { entries: [{ id: '1', at: start + 5 * second, fired: false, streams }] })
      assert.deepEqual(await state.fire([request('1')]), [{ fired: false, at: start + 5 * second }])
      await until(start + 5 * second)
      assert.equal((await state.fire([request('1')]))[0]!.fired, true)
    })

    it('pauses and reports a subject with outdated facts in which others wait', async () => {
      const { state, now, record, outdated } = await open()
      const entries = [{ id: '1', at: now() + second, fired: false, streams }]
      record.set(ada.key, { entries, isOutdated: true })
      assert.deepEqual(await state.waiting(ada), ['1'])
      assert.deepEqual(outdated, [ada])
      let isAnswered = false
      const newcomer = placeOf(state, '2').finally(() => {
        isAnswered = true
      })
      await placeOf(state, '3', { waited: true })
      assert.equal(isAnswered, false)
      await state.resume([ada])
      await newcomer
    })

    it('reports no subject with outdated facts in which nobody waits', async () => {
      const { state, record, outdated } = await open()
      record.set(ada.key, { isOutdated: true })
      await placeOf(state, '1')
      assert.deepEqual(outdated, [])
    })

    it('puts reservations on record in the state, but for what was fired', async () => {
      const { state, now } = await open()
      const start = now()
      await state.fire([request('1')])
      await state.adopt([
        { ...request('1'), at: start + 60 * second },
        { ...request('2'), at: start + 30 * second },
        { subject: ada, id: '3', rules: [], at: start + 90 * second },
      ])
      assert.deepEqual(await state.waiting(ada), ['2'])
      assert.equal(await placeOf(state, '2'), start + 30 * second)
      assert.equal(await placeOf(state, '4'), start + windowMs, 'what was fired counts when it was')
    })

    it('puts back what holds an earlier instant than on record, also one that has passed, and nothing else', async () => {
      const { state, now, until } = await open()
      const start = now()
      assert.equal(await placeOf(state, '1'), start)
      assert.equal(await placeOf(state, '2'), start + windowMs)
      assert.equal(await placeOf(state, '3'), start + 2 * windowMs)
      await until(start + 1)
      const at = {
        '1': start + 3 * windowMs,
        '2': start + 4 * windowMs,
        '3': start + windowMs,
        '5': start + 9 * windowMs,
      }
      const recorded = Object.entries(at).map(([id, at]) => ({ ...request(id), at }))
      await state.adopt(recorded, { keepsLater: true })
      assert.deepEqual(await state.waiting(ada), ['1', '2', '3', '5'])
      for (const [id, place] of [
        ['1', at['1']],
        ['2', at['2']],
        ['3', start + 2 * windowMs],
        ['4', start + 1],
        ['5', at['5']],
      ] as const)
        assert.equal(await placeOf(state, id), place, id)
    })

    it('reads subjects again when the rules have changed, and keeps a send that is not on record yet', async () => {
      const { state, now, until, record, reads, renew } = await open()
      const start = now()
      await placeOf(state, '1')
      await until(start + 500)
      await state.fire([request('1')])
      await state.holdFingerprints([{ subject: ada, fingerprint: 'f', id: '1', windowMs: 60 * second }])
      record.set(ada.key, { entries: [{ id: '1', at: start, fired: false, streams: ['all', 'new'] }] })
      renew()
      const rules = [limit('new', '1/20s', { stream: 'new' })]
      assert.equal(await placeOf(state, '2', { rules }), start + 500 + 20 * second + 20)
      assert.equal(reads.length, 2)
      assert.deepEqual(
        await state.holdFingerprints([{ subject: ada, fingerprint: 'f', id: '2', windowMs: 60 * second }]),
        [false],
      )
    })
  })
}
