/**
 * The breaker of an account that four processes call: whatever becomes of its probes and of the processes that make them, no
 * two are under way at once, and nothing else is called while it is open. `SLUICE_OPENINGS=1000` is the long form.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it } from 'node:test'
import { seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { AccountState } from '../../../../src/ports/accounts.ts'
import type { SendResult } from '../../../../src/ports.ts'
import { openAccountRig } from './account-rig.ts'

const openings = Number(process.env.SLUICE_OPENINGS ?? 5)
/** A verdict is known to all processes so much later at most, ms. */
const newsMs = 1_200
const delivered: SendResult = { outcome: 'delivered' }
const failed: SendResult = { outcome: 'failed', detail: '503' }

interface Probe {
  readonly state: AccountState
  readonly takenAt: number
  readonly endsAt: number
  readonly isWell: boolean
  /** True if its process dies before it hears the answer. */
  readonly isLost: boolean
}

describe('the probes of several processes', needs('redis'), () => {
  it('are made one at a time, and nothing else meanwhile', async (t) => {
    const random = seededRandom(seedOfRun())
    const rig = openAccountRig('redis', {
      windows: [],
      concurrencyMax: 1_000,
      breaker: { inARow: 3, coolDownMs: 500, coolDownMaxMs: 1_000 },
    })
    const join = (): AccountState => {
      const state = rig.join()
      state.listen({ tokens: () => {}, verdicts: () => {} })
      return state
    }
    // The first judges, and is not killed here.
    const fleet = [join(), join(), join(), join()]
    const counts = { openings: 0, probes: 0, well: 0, failed: 0, undone: 0, killed: 0 }

    const isFree = (state: AccountState): boolean => {
      const at = state.freeAt(rig.now(), 0, false)
      return at !== undefined && at <= rig.now()
    }
    const answer = (state: AccountState, takenAt: number, isProbe: boolean, result: SendResult): void => {
      state.answered({ takenAt, leftAt: undefined }, rig.now(), result)
      state.judge(rig.now(), result, 1, isProbe)
      state.end(takenAt)
    }

    /** Lets calls of all processes fail until all of them know that the breaker is open. */
    async function open(): Promise<void> {
      while (!fleet.every((state) => state.isBroken)) {
        const state = random.pick(fleet)
        if (!state.isBroken && isFree(state)) answer(state, state.take(rig.now()), state.beginProbe(), failed)
        await rig.pass(1)
      }
    }

    /** Begins the probe, where the process may call; undefined where it gives it up before it is made. */
    function begin(state: AccountState): Probe | undefined {
      const takenAt = state.take(rig.now())
      assert.ok(state.beginProbe(), 'a call that is no probe while the breaker is open')
      counts.probes += 1
      const fate = random.below(12)
      if (fate === 0) {
        state.undo(takenAt)
        state.abandonProbe()
        counts.undone += 1
        return undefined
      }
      const isLost = fate === 1 && state !== fleet[0]
      if (isLost) {
        rig.kill(state)
        fleet[fleet.indexOf(state)] = join()
        counts.killed += 1
      }
      return { state, takenAt, endsAt: rig.now() + random.between(1, 1_900), isWell: fate > 4, isLost }
    }

    while (counts.openings < openings) {
      await open()
      counts.openings += 1
      let under: Probe | undefined
      for (;;) {
        if (under !== undefined && rig.now() >= under.endsAt) {
          const { state, takenAt, isWell, isLost } = under
          under = undefined
          if (!isLost) {
            answer(state, takenAt, true, isWell ? delivered : failed)
            counts[isWell ? 'well' : 'failed'] += 1
            if (isWell) break
          }
        }
        const first = random.below(fleet.length)
        for (const state of [...fleet.slice(first), ...fleet.slice(0, first)]) {
          if (!isFree(state)) continue
          assert.equal(under, undefined, 'two probes at once')
          under = begin(state)
        }
        // Close looks around the instants at which something is due, and now and then a long one: an opening lasts seconds.
        await rig.pass(random.below(4) === 0 ? random.between(1, 6) : random.between(10, 60))
      }
      await rig.pass(newsMs)
      assert.ok(!fleet.some((state) => state.isBroken), 'a probe that is delivered closes it everywhere')
    }
    t.diagnostic(`seed ${seedOfRun()}: ${JSON.stringify(counts)}`)
  })

  it('follow the verdict of the next judge on what was answered while nobody judged', async () => {
    const rig = openAccountRig('redis', {
      windows: [],
      concurrencyMax: 10,
      breaker: { inARow: 3, coolDownMs: 500, coolDownMaxMs: 1_000 },
    })
    const [first, second] = [rig.join(), rig.join()]
    for (const state of [first, second]) state.listen({ tokens: () => {}, verdicts: () => {} })
    /** Calls as often as the account may be called for so long, ms; returns how often that was. */
    async function callFor(ms: number, result: SendResult): Promise<number> {
      let calls = 0
      for (const until = rig.now() + ms; rig.now() < until; await rig.pass(5)) {
        const at = second.freeAt(rig.now(), 0, false)
        if (at === undefined || at > rig.now()) continue
        const takenAt = second.take(rig.now())
        const isProbe = second.beginProbe()
        second.answered({ takenAt, leftAt: undefined }, rig.now(), result)
        second.judge(rig.now(), result, 1, isProbe)
        second.end(takenAt)
        calls += 1
      }
      return calls
    }
    await callFor(1_000, delivered)
    rig.judgeByNobody()
    rig.kill(first)
    assert.ok((await callFor(1_000, failed)) > 3)
    rig.judgeBy(second)
    await rig.pass(newsMs)
    assert.ok(second.isBroken, 'it is open by the results of before')
    assert.ok((await callFor(3_000, failed)) <= 4, 'only probes are made')

    // Its probe is delivered while nobody judges.
    rig.judgeByNobody()
    await callFor(2_000, delivered)
    rig.judgeBy(second)
    await rig.pass(newsMs)
    assert.ok(!second.isBroken, 'it is closed by the results of before')
  })
})
