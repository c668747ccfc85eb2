/** A waiting notification moves to an earlier instant in Redis: an answer is lost, or another process is in between. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { SluiceError } from '../../../../src/errors.ts'
import type { LimitState, Subject } from '../../../../src/ports.ts'
import { engines, openAdmin } from './open.ts'
import { openLimits } from './open-limits.ts'

const one = [limit('one', '1/10s', { stream: 'all' })]
const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
/** A window and the margin of a process. */
const slotMs = 10_020
const author: Subject = { key: 'acme/author', tenant: 'acme' }
const inAuthor = (id: string) => ({ subject: author, id, rules: one })
const inModule = (id: string) => ({ subject: { key: 'acme/module', tenant: 'acme' }, id, rules: one })
const inBoth = (id: string) => [inAuthor(id), inModule(id)]
const request = (id: string) => ({ subject: ada, id, rules: one })

for (const engine of engines)
  describe(`an advance on ${engine}`, needs(engine), () => {
    it('holds newcomers up no longer where the last step of an advance fails', async () => {
      const { redis, openState, now } = openLimits(engine)
      const state = openState({
        redis: {
          ...redis,
          ask: (script, key, args, withinMs) =>
            args.includes('follow')
              ? Promise.reject(new SluiceError('STATE_UNAVAILABLE', 'The answer is lost.'))
              : redis.ask(script, key, args, withinMs),
        },
      })
      const bob = { key: 'acme/bob', tenant: 'acme', recipient: 'bob' }
      const withBob = (id: string) => [request(id), { subject: bob, id, rules: [] }]
      const start = now()
      await state.fire([request('1')])
      for (const id of ['2', '3']) await state.reserve(withBob(id))
      assert.deepEqual(await state.cancel([{ subject: ada, id: '1' }]), [ada])
      await assert.rejects(state.advance(withBob('2')), { code: 'STATE_UNAVAILABLE' })
      await state.resume([ada])
      const newcomer = await Promise.race([
        state.reserve([request('4')]),
        sleep(2_000, undefined, { ref: false }),
      ])
      assert.ok(newcomer !== undefined && newcomer[0]!.at > start, 'the newcomer waits for ever')
    })

    /**
     * `n0` waits in two subjects, and `n1` behind it in the first; the first slot of both becomes free. While one process
     * moves `n0`, another one acts between its step in the first subject and that in the second.
     */
    async function moveBeside(meanwhile: (other: LimitState) => Promise<unknown>) {
      const outdated: Subject[] = []
      const { redis, openState, now } = openLimits(engine)
      let isInBetween = false
      const other = openState()
      const state = openState({
        onOutdated: (subject) => outdated.push(subject),
        redis: {
          ...redis,
          async ask(script, key, args, withinMs) {
            if (isInBetween && key.subject.includes('module') && !args.includes('look')) {
              isInBetween = false
              await meanwhile(other)
            }
            return redis.ask(script, key, args, withinMs)
          },
        },
      })
      const start = now()
      await state.fire([inAuthor('sent'), inModule('sent')])
      await state.reserve(inBoth('n0'))
      await state.reserve([inAuthor('n1')])
      await state.resume(await state.cancel(inBoth('sent')))
      isInBetween = true
      const advanced = await state.advance(inBoth('n0'))
      assert.equal(isInBetween, false)
      const at = async (of: typeof inAuthor, id: string) => (await other.reservedAt([of(id)]))! - start
      const places = {
        author: await at(inAuthor, 'n0'),
        module: await at(inModule, 'n0'),
        n1: await at(inAuthor, 'n1'),
      }
      return { advanced, outdated, places, other }
    }

    it('keeps its slot for a notification that another process is quicker than', async () => {
      const { advanced, outdated, places, other } = await moveBeside(async (process) => {
        const [taken] = await process.reserve([inModule('quicker')])
        assert.equal(taken!.allowed, true)
        assert.equal(await process.advance([inAuthor('n1')]), undefined)
      })
      assert.equal(advanced, undefined)
      assert.deepEqual(places, { author: slotMs, module: slotMs, n1: 2 * slotMs })
      assert.deepEqual(outdated, [author], 'those who looked meanwhile look again')
      assert.ok((await other.advance([inAuthor('n1')])) !== undefined)
    })

    it('moves a notification that was cancelled meanwhile nowhere', async () => {
      const { outdated, other } = await moveBeside((process) => process.cancel(inBoth('n0')))
      assert.equal((await other.waiting(author)).includes('n0'), false)
      assert.deepEqual(outdated, [author])
      const [next] = await other.reserve([{ ...inAuthor('next'), waited: true }])
      assert.equal(next!.allowed, true, 'nothing stays claimed')
    })

    /** `n0` waits in two subjects, whose first slot is free by now, and is moved there by a process with this `ask`. */
    async function setUpMove(interposed: (step: () => Promise<unknown>, asked: string) => Promise<unknown>) {
      const opened = openLimits(engine)
      const { redis, openState, record, now } = opened
      const ask: typeof redis.ask = (script, key, args, withinMs) =>
        interposed(
          () => redis.ask(script, key, args, withinMs),
          `${args.includes('to') ? 'to' : 'else'} ${key.subject}`,
        ) as ReturnType<typeof redis.ask>
      const [state, other] = [openState({ redis: { ...redis, ask } }), openState()]
      const at = now() + slotMs
      await other.fire([inAuthor('sent'), inModule('sent')])
      await other.reserve(inBoth('n0'))
      await other.resume(await other.cancel(inBoth('sent')))
      const entries = [{ id: 'n0', at, fired: false, streams: ['all'] }]
      for (const { subject } of inBoth('n0')) record.set(subject.key, { entries })
      const putBack = () =>
        other.adopt(
          inBoth('n0').map((each) => ({ ...each, at })),
          { keepsLater: true },
        )
      const isPutBack = async () =>
        Promise.all(inBoth('n0').map(async (each) => (await other.reservedAt([each])) === at))
      return { ...opened, state, other, putBack, isPutBack }
    }

    for (const within of [inAuthor, inModule]) {
      const { key } = within('').subject

      it(`gives one that moves no slot whose claim was lost in ${key}`, async (t) => {
        const admin = await openAdmin(engine)
        t.after(() => admin.close())
        let isLost = false
        const { state, other, prefix, putBack, isPutBack } = await setUpMove(async (step, asked) => {
          if (!isLost && asked === `to l/${key}`) {
            isLost = true
            await admin.remove(`${prefix}{l/${key}}`)
            const [quicker] = await other.reserve([within('quicker')])
            assert.equal(quicker!.allowed, true)
          }
          return await step()
        })
        await assert.rejects(state.advance(inBoth('n0')), { code: 'STATE_UNAVAILABLE' })
        await putBack()
        assert.deepEqual(await isPutBack(), [true, true])
        for (const each of inBoth('other').filter(({ subject }) => subject.key !== key))
          assert.equal(
            (await other.reserve([{ ...each, waited: true }]))[0]!.allowed,
            true,
            'no claim is left',
          )
      })

      it(`keeps no claim of a process that was killed before it took the slot in ${key}`, async () => {
        let die = (): void => {}
        const died = new Promise<void>((resolve) => {
          die = resolve
        })
        let isDead = false
        const { state, other, putBack, isPutBack } = await setUpMove((step, asked) => {
          isDead ||= asked === `to l/${key}`
          if (!isDead) return step()
          die()
          return new Promise(() => {})
        })
        void state.advance(inBoth('n0'))
        await died
        await putBack()
        assert.deepEqual(await isPutBack(), [true, true])
        const next = await other.reserve(inBoth('next').map((each) => ({ ...each, waited: true })))
        assert.deepEqual(
          next.map(({ allowed }) => allowed),
          [true, true],
        )
      })
    }

    for (const step of ['claim', 'to'])
      it(`leaves nothing claimed where the answer to '${step}' is lost`, async () => {
        const { redis, openState } = openLimits(engine)
        let isLost = false
        const state = openState({
          redis: {
            ...redis,
            async ask(script, key, args, withinMs) {
              const answer = await redis.ask(script, key, args, withinMs)
              if (isLost || !args.includes(step)) return answer
              isLost = true
              throw new SluiceError('STATE_UNAVAILABLE', 'The answer is lost.')
            },
          },
        })
        await state.fire([inAuthor('sent'), inModule('sent')])
        await state.reserve(inBoth('n0'))
        await state.resume(await state.cancel(inBoth('sent')))
        await assert.rejects(state.advance(inBoth('n0')), { code: 'STATE_UNAVAILABLE' })
        await state.cancel(inBoth('n0'))
        const next = await openState().reserve(inBoth('next').map((each) => ({ ...each, waited: true })))
        assert.deepEqual(
          next.map(({ allowed }) => allowed),
          [true, true],
        )
      })
  })
