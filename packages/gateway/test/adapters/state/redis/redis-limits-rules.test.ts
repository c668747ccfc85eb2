/** The limits of recipients in Redis while processes have different rules, as in a rolling deployment. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { RulesReplaced } from '../../../../src/errors.ts'
import type { LimitState, Subject } from '../../../../src/ports.ts'
import { engines, openAdmin } from './open.ts'
import { openLimits } from './open-limits.ts'

const one = [limit('one', '1/10s', { stream: 'all' })]
const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const request = (id: string) => ({ subject: ada, id, rules: one })
const reserve = async (state: LimitState, id: string) => (await state.reserve([request(id)]))[0]!

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    it('counts what a process with other rules sends while a subject is filled', async () => {
      const { openState, record, now } = openLimits(engine)
      const { promise: read, resolve: hasRead } = Promise.withResolvers<void>()
      const { promise: mayFill, resolve: fill } = Promise.withResolvers<void>()
      const before = openState({ rulesName: () => 'rules before' })
      await before.waiting(ada)
      const after = openState({
        rulesName: () => 'rules after',
        async recover() {
          const facts = { entries: [], fingerprints: [], waitlist: [], ...record.get(ada.key) }
          hasRead()
          await mayFill
          return facts
        },
      })
      const late = after.fire([request('2')])
      await read
      // Both are on record before they are fired.
      const sending = (id: string) => ({ id, at: now(), fired: true, streams: ['all'] })
      record.set(ada.key, { entries: ['1', '2'].map(sending) })
      assert.equal((await before.fire([request('1')]))[0]!.fired, true)
      fill()
      assert.equal((await late)[0]!.fired, false)
    })

    it('fills a subject of which a process with other rules asks without end', {
      timeout: 20_000,
    }, async () => {
      const { openState, now } = openLimits(engine)
      let reads = 0
      const slow = (name: string) => ({
        rulesName: () => name,
        async recover() {
          reads += 1
          await sleep(60)
          return { entries: [], fingerprints: [], waitlist: [] }
        },
      })
      const [before, after] = [openState(slow('rules before')), openState(slow('rules after'))]
      await before.waiting(ada)
      let isDone = false
      async function askOn(): Promise<void> {
        while (!isDone) {
          await before.waiting(ada)
          await sleep(10)
        }
      }
      const asking = askOn()
      assert.equal((await reserve(after, '2')).at, now())
      isDone = true
      await asking
      assert.ok(reads <= 5, `${reads} readings`)
    })

    it('counts what another process has the right to send once it is fired, and as sent now where nothing is known of it', async () => {
      const { openState, record, now, until } = openLimits(engine)
      const [before, after] = ['before', 'after'].map((name) => openState({ rulesName: () => name })) as [
        LimitState,
        LimitState,
      ]
      const begin = (id: string) =>
        record.set(ada.key, {
          entries: [{ id, at: now(), fired: true, streams: ['all'] }],
          begun: [id],
        })
      await reserve(before, '1')
      begin('1')
      assert.equal((await after.fire([request('2')]))[0]!.fired, true, 'it waits')
      const firedAt = now()
      await until(firedAt + 8_000)
      begin('2')
      assert.deepEqual(await before.fire([request('3')]), [{ fired: false, at: firedAt + 10_020 }])
      await until(firedAt + 10_020)
      begin('4')
      assert.deepEqual(await after.fire([request('3')]), [{ fired: false, at: now() + 10_020 }])
    })

    it('counts as sent now what another process has the right to send where another policy was left', async () => {
      const { openState, record, now } = openLimits(engine)
      await reserve(openState({ rulesName: () => 'policy' }), '1')
      record.set(ada.key, {
        entries: [{ id: '1', at: now(), fired: true, streams: ['all'] }],
        begun: ['1'],
      })
      const after = openState({ rulesName: () => 'policy left' })
      assert.equal((await after.fire([request('2')]))[0]!.fired, false)
    })

    it('lets those who wait move up once where two processes fill their subject in turn', async (t) => {
      const { openState, prefix, now, until } = openLimits(engine)
      const admin = await openAdmin(engine)
      t.after(admin.close)
      const facts = {
        entries: [{ id: '1', at: now() + 60_000, fired: false, streams: ['all'] }],
        fingerprints: [],
        waitlist: [],
        isOutdated: true,
      }
      const outdated: string[] = []
      const [before, after] = ['before', 'after'].map((name) => {
        const state = openState({
          rulesName: () => `rules ${name}`,
          recover: () => facts,
          onOutdated(subject) {
            outdated.push(name)
            void state.resume([subject])
          },
        })
        return state
      }) as [LimitState, LimitState]
      for (let turn = 0; turn < 5; turn += 1)
        for (const state of [before, after]) assert.deepEqual(await state.waiting(ada), ['1'])
      assert.deepEqual(outdated, ['before', 'after'])
      await until(now() + 10_000)
      const moved = () => outdated.toSorted().join()
      for (let look = 0; look < 500 && moved() !== 'after,after,before,before'; look += 1) await sleep(10)
      assert.equal(moved(), 'after,after,before,before', 'each once more, ten seconds later')
      // A subject that was lost is another matter: whoever waits there may leave earlier at once.
      await admin.remove(`${prefix}{l/${ada.key}}:about`)
      await before.waiting(ada)
      assert.equal(outdated.at(-1), 'before')
      assert.equal(outdated.length, 5)
      await Promise.all([before.close(), after.close()])
    })

    it('lets a subject rest from the end of a turn on', async () => {
      const { openState, now, until } = openLimits(engine)
      const turn = Promise.withResolvers<void>()
      let turns = 0
      const entries = [{ id: '1', at: now() + 600_000, fired: false, streams: ['all'] }]
      const [before, after] = ['before', 'after'].map((name) => {
        const state = openState({
          rulesName: () => name,
          recover: () => ({ entries, fingerprints: [], waitlist: [], isOutdated: true }),
          async onOutdated(subject) {
            if (name === 'before') turns += 1
            await state.resume([subject])
            if (name === 'before') await turn.promise
          },
        })
        return state
      }) as [LimitState, LimitState]
      await before.waiting(ada)
      await until(now() + 5_000)
      turn.resolve()
      await sleep(5)
      for (const state of [after, before]) await state.waiting(ada)
      await until(now() + 19_000)
      await sleep(20)
      assert.equal(turns, 1, 'four times as long as the turn')
      await until(now() + 1_000)
      for (let look = 0; look < 200 && turns === 1; look += 1) await sleep(10)
      assert.equal(turns, 2)
      await Promise.all([before.close(), after.close()])
    })

    it('lets others fill a subject whose rules change while its record is read', {
      timeout: 20_000,
    }, async () => {
      const { openState, state: known, now } = openLimits(engine)
      await known.waiting(ada)
      const newRules = { rulesName: () => 'new rules' }
      let reads = 0
      const state = openState({
        ...newRules,
        recover() {
          reads += 1
          if (reads === 1) state.renew()
          return { entries: [], fingerprints: [], waitlist: [] }
        },
      })
      await assert.rejects(reserve(state, '1'), RulesReplaced)
      assert.equal((await reserve(openState(newRules), '2')).at, now())
    })
  })
