/** Several processes learn from each other of an account: its true rate, and how many calls it bears at once. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow, type Window } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { AccountState } from '../../../../src/ports/accounts.ts'
import { openAccountRig } from './account-rig.ts'
import { engines } from './open.ts'

for (const engine of engines)
  describe(`an account on ${engine}`, needs(engine), () => {
    /** A judge that makes no calls, and a caller. */
    function open(windows: readonly Window[], concurrencyMax: number) {
      const rig = openAccountRig(engine, {
        windows,
        concurrencyMax,
        breaker: { inARow: 3, coolDownMs: 1_000 },
        adaptive: { min: 1, slowdown: 2 },
      })
      const join = (): AccountState => {
        const state = rig.join()
        state.listen({ tokens: () => {}, verdicts: () => {} })
        return state
      }
      const [judge, caller] = [join(), join()]
      const ends: { readonly takenAt: number; readonly at: number }[] = []
      /** Makes calls that take so long, so many at once; returns how many. Time passes in steps that divide how long one takes. */
      async function calls(forMs: number, tookMs: number, atOnce = concurrencyMax): Promise<number> {
        let made = 0
        const stepMs = Math.min(tookMs, 10)
        for (const until = rig.now() + forMs; rig.now() < until; await rig.pass(stepMs)) {
          const now = rig.now()
          while (ends[0] !== undefined && ends[0].at <= now) {
            caller.judge(now, { outcome: 'delivered' }, tookMs, false)
            caller.end(ends.shift()!.takenAt)
          }
          for (let at = 0; caller.inFlight < atOnce; made += 1) {
            at = caller.freeAt(now, 0, false) ?? Number.POSITIVE_INFINITY
            if (at > now) break
            ends.push({ takenAt: caller.take(now), at: now + tookMs })
          }
        }
        return made
      }
      return { rig, join, judge, caller, calls }
    }

    it('has a lower rate behind a 429, also where another process than the judge has got it', async () => {
      const { rig, caller, calls } = open([parseWindow('100/s')], 1_000)
      await rig.pass(2_000)
      const before = await calls(2_000, 1)
      caller.judge(rig.now(), { outcome: 'rate_limited', detail: '429', retryAfter: '2' }, 1, false)
      await rig.pass(2_000)
      assert.ok(!caller.isOut(rig.now()))
      const behind = await calls(2_000, 1)
      assert.ok(before > 180 && behind < 170, `${behind} behind a 429, ${before} before`)
    })

    it('has fewer calls at once while it is slow, in proportion to those that it had, whoever judges', async () => {
      const { caller, rig, calls } = open([], 64)
      await rig.pass(2_000)
      await calls(4_000, 20, 60)
      for (let second = 0; caller.concurrency === 64; second += 1) {
        assert.ok(second < 10, 'it has as many calls at once as before')
        await calls(1_000, 400, 60)
      }
      assert.ok(caller.concurrency >= 30, `${caller.concurrency} at once`)
    })

    it('has more and more calls at once when it is as fast as before, though a process judges that has just started', async () => {
      const { caller, judge, rig, join, calls } = open([], 64)
      await rig.pass(2_000)
      await calls(4_000, 20, 60)
      for (let second = 0; caller.concurrency === 64; second += 1) {
        assert.ok(second < 10, 'it has as many calls at once as before')
        await calls(1_000, 400, 60)
      }
      await calls(7_000, 20, 4)
      const before = caller.concurrency
      rig.kill(judge)
      const started = join()
      await calls(500, 20, 4)
      rig.judgeBy(started)
      await calls(32_000, 20, 4)
      assert.ok(caller.concurrency === 64, `${caller.concurrency} at once, ${before} half a minute before`)
    })
  })
