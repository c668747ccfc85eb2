/**
 * Redis loses a subject right after a firing, before the record shows the call. Each case is played twice, with the loss
 * and without it, and the next reservation must get the same instant.
 */
import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { limit, type RestoredEntry } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createRecentlyFired } from '../../../../src/adapters/state/redis/recently-fired.ts'
import type { LimitState, Subject } from '../../../../src/ports.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { type Engine, engines, openAdmin, openRedis } from './open.ts'
import { openLimits } from './open-limits.ts'

const second = 1_000
const one = [limit('one', '1/10s', { stream: 'all' })]
const three = [limit('three', '3/10s', { stream: 'all' })]
const windowMs = 10 * second + 20
const ada: Subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const start = 1_000_000
const request = (id: string, rules = one) => ({ subject: ada, id, rules })
const entry = (id: string, at: number, fired: boolean): RestoredEntry => ({ id, at, fired, streams: ['all'] })
/** It holds an instant that has passed, which stands in nobody's way. */
const waits = (id: string) => entry(id, start - windowMs, false)

/** One process whose state may be lost, with a record that does not follow its calls. */
async function openProcess(t: TestContext, engine: Engine, entries: readonly RestoredEntry[]) {
  const { openState, prefix, record } = openLimits(engine)
  const clock = createVirtualClock(start)
  const recentlyFired = createRecentlyFired(clock)
  const redis = openRedis(engine, { prefix, clock, isVirtual: true })
  const state = openState({ clock, redis, recentlyFired })
  const admin = await openAdmin(engine)
  t.after(admin.close)
  record.set(ada.key, { entries })
  return {
    state,
    openState,
    clock,
    redis,
    recentlyFired,
    write: (written: readonly RestoredEntry[]) => void record.set(ada.key, { entries: written }),
    lose: () => admin.remove(...['', ':about', ':waiting'].map((name) => `${prefix}{l/${ada.key}}${name}`)),
  }
}

const reserved = async (state: LimitState, rules = one) =>
  (await state.reserve([request('9', rules)]))[0]!.at - start

type Played = Pick<Awaited<ReturnType<typeof openProcess>>, 'clock' | 'write'>

interface Case {
  readonly name: string
  readonly recorded: readonly RestoredEntry[]
  readonly play: (state: LimitState, process: Played) => Promise<unknown>
  /** The instant of the next reservation behind the start, ms. */
  readonly next: number
  readonly rules?: typeof one
}

const release = async (state: LimitState, id: string, after?: number) =>
  state.resume(
    await state.cancel([
      { subject: ada, id, ...(after === undefined ? {} : { unlessFired: { after, rules: one } }) },
    ]),
  )

const cases: readonly Case[] = [
  {
    name: 'counts what it has fired',
    recorded: [waits('1')],
    play: (state) => state.fire([request('1')]),
    next: windowMs,
  },
  {
    name: 'counts all that it has fired together',
    recorded: ['1', '2', '3'].map(waits),
    play: (state) => state.fire(['1', '2', '3'].map((id) => request(id, three))),
    next: windowMs,
    rules: three,
  },
  {
    name: 'counts a retry at its own instant',
    recorded: [entry('1', start - 5 * second, true)],
    play: (state) => state.fire([request('1')]),
    next: windowMs,
  },
  {
    name: 'counts a call that was written late when it was written',
    recorded: [entry('1', start, true)],
    async play(state, { clock }) {
      await state.fire([request('1')])
      await clock.runUntil(start + 300)
      await state.force([request('1')])
    },
    next: 300 + windowMs,
  },
  {
    name: 'counts a call that may have arrived under its own id',
    recorded: [waits('1')],
    async play(state) {
      await state.fire([request('1')])
      await state.force([request('1?0')])
      await release(state, '1')
    },
    next: windowMs,
  },
  {
    name: 'does not count what was released',
    recorded: [],
    async play(state) {
      await state.fire([request('1')])
      await release(state, '1')
    },
    next: 0,
  },
  {
    name: 'does not count what was released while it was fired',
    recorded: [],
    play: (state) => Promise.all([state.fire([request('1')]), release(state, '1')]),
    next: 0,
  },
  {
    name: 'does not count what was released because it was fired no later',
    recorded: [],
    async play(state) {
      await state.fire([request('1')])
      await release(state, '1', start)
    },
    next: 0,
  },
  {
    name: 'counts what was fired later than its release concerns',
    recorded: [],
    async play(state) {
      await state.fire([request('1')])
      await release(state, '1', start - 1)
    },
    next: windowMs,
  },
  {
    name: 'counts what was fired and then refused at the instant that it holds',
    recorded: [],
    async play(state, { write }) {
      // As under several subjects, of which another one has refused it.
      await state.fire([request('1')])
      await state.fire([{ ...request('1'), notBefore: start + 5 * second }])
      write([entry('1', start + 5 * second, false)])
    },
    next: 5 * second + windowMs,
  },
]

for (const engine of engines)
  describe(`The limits after a firing, on ${engine}`, needs(engine), () => {
    for (const { name, recorded, play, next, rules } of cases)
      it(`${name}, also where the state is lost right after`, async (t) => {
        for (const isLost of [false, true]) {
          const { state, lose, clock, write } = await openProcess(t, engine, recorded)
          // In the state without a loss, too, a firing meets a subject that is known.
          await state.waiting(ada)
          await play(state, { clock, write })
          if (isLost) await lose()
          assert.equal(await reserved(state, rules), next, isLost ? 'with the loss' : 'without a loss')
        }
      })

    it('does not count a firing whose answer was lost: it permits no call', async (t) => {
      const { lose, openState, redis, recentlyFired, clock } = await openProcess(t, engine, [])
      const state = openState({
        clock,
        recentlyFired,
        redis: {
          ...redis,
          async ask(script, key, args, deadlineMs) {
            const answer = await redis.ask(script, key, args, deadlineMs)
            if (args[0] === 'fire' && !String(answer).startsWith('?')) throw new Error('the answer is lost')
            return answer
          },
        },
      })
      await assert.rejects(state.fire([request('1')]), { message: 'the answer is lost' })
      await lose()
      assert.equal(await reserved(state), 0)
    })

    it('counts what was fired while the record was being read for another question', async (t) => {
      const { lose, openState, redis, recentlyFired, clock } = await openProcess(t, engine, [])
      const read = Promise.withResolvers<void>()
      let reads = 0
      const state = openState({
        clock,
        redis,
        recentlyFired,
        async recover() {
          reads += 1
          if (reads === 1) await read.promise
          return { entries: [], fingerprints: [], waitlist: [] }
        },
      })
      const reserving = reserved(state)
      while (reads === 0) await new Promise((resolve) => setImmediate(resolve))
      await lose()
      assert.equal((await state.fire([request('1')]))[0]!.fired, true)
      await lose()
      read.resolve()
      assert.equal(await reserving, windowMs)
    })

    it('forgets after two seconds: the record shows the call by then', async (t) => {
      const { state, lose, clock } = await openProcess(t, engine, [])
      await state.fire([request('1')])
      await clock.runUntil(start + 900)
      await lose()
      assert.equal(await reserved(state), windowMs)
      await clock.runUntil(start + 2 * second)
      await release(state, '9')
      await lose()
      assert.equal(await reserved(state), 2 * second)
    })
  })

describe('The memory of what was just fired', () => {
  const facts = { entries: [], fingerprints: [], waitlist: [] }

  it('is bounded by the number of firings, and keeps the newest', () => {
    const recentlyFired = createRecentlyFired(createVirtualClock(start))
    for (let id = 1; id <= 120_000; id += 1) recentlyFired.note(request(String(id)), start)
    const { entries } = recentlyFired.within(ada, facts)
    assert.equal(entries.length, 70_000)
    assert.equal(entries.at(-1)!.id, '120000')
  })

  it('remembers nothing that no limit counts', () => {
    const recentlyFired = createRecentlyFired(createVirtualClock(start))
    recentlyFired.note(request('1', []), start)
    assert.equal(recentlyFired.within(ada, facts), facts)
  })
})
