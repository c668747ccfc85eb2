/** An account whose shared state is lost: the breaker while a probe is under way, and what a long window still has. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow, type Window } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { AccountState } from '../../../../src/ports/accounts.ts'
import { openAccountRig } from './account-rig.ts'
import { engines } from './open.ts'

for (const engine of engines)
  describe(`a probe on ${engine}`, needs(engine), () => {
    /** A judge, a caller, and an account whose breaker opens by three failures. */
    function open() {
      const rig = openAccountRig(engine, {
        windows: [],
        concurrencyMax: 10,
        breaker: { inARow: 3, coolDownMs: 1_000, coolDownMaxMs: 1_000 },
      })
      const join = (): AccountState => {
        const state = rig.join()
        state.listen({ tokens: () => {}, verdicts: () => {} })
        return state
      }
      const [judge, caller] = [join(), join()]
      const isFree = (state: AccountState): boolean => {
        const at = state.freeAt(rig.now(), 0, false)
        return at !== undefined && at <= rig.now()
      }
      async function begin(): Promise<{ readonly takenAt: number; readonly probe: boolean }> {
        for (let tries = 0; tries < 3_000; tries += 1) {
          if (isFree(caller)) return { takenAt: caller.take(rig.now()), probe: caller.beginProbe() }
          await rig.pass(1)
        }
        throw new Error('no token came')
      }
      /** Opens the breaker. */
      async function fail(): Promise<void> {
        for (let calls = 0; calls < 3; calls += 1) {
          const { takenAt } = await begin()
          caller.judge(rig.now(), { outcome: 'failed', detail: '503' }, 1, false)
          caller.end(takenAt)
        }
        await rig.pass(500)
        assert.ok(caller.isBroken && judge.isBroken)
      }
      return { rig, join, judge, caller, isFree, begin, fail }
    }

    it('is made anew at once where its token lapsed, for the process was late', async () => {
      const { rig, caller, isFree, fail } = open()
      await fail()
      for (let waited = 0; !isFree(caller); waited += 1) {
        assert.ok(waited < 3_000, 'no token came')
        await rig.pass(1)
      }
      await rig.pass(60)
      for (let waited = 0; !isFree(caller); waited += 1) {
        assert.ok(waited < 500, 'the mark of the probe stays, though nobody makes it')
        await rig.pass(1)
      }
    })

    it('is not waited for by a process that reads from an older record that the breaker is open', async () => {
      const { rig, join, caller, isFree, begin, fail } = open()
      await fail()
      const record = caller.record(rig.now())
      assert.ok(record.breaker !== undefined)
      const probe = await begin()
      caller.judge(rig.now(), { outcome: 'delivered' }, 1, probe.probe)
      caller.end(probe.takenAt)
      await rig.pass(500)
      const started = join()
      await rig.pass(500)
      started.restore(record)
      assert.ok(started.isBroken && !caller.isBroken)
      for (let waited = 0; !isFree(started); waited += 1) {
        assert.ok(waited < 1_000, 'it takes the breaker for open as long as no judge speaks')
        await rig.pass(1)
      }
      assert.ok(!started.isBroken && !caller.isBroken)
    })

    it('is not asked for by a process that has not heard of a block since the state was lost', async () => {
      const { rig, judge, caller } = open()
      const block = async (retryAfter: string, ms: number): Promise<void> => {
        judge.judge(rig.now(), { outcome: 'rate_limited', retryAfter, detail: '429' }, 1, false)
        await rig.pass(ms)
      }
      for (let blocks = 0; blocks < 2; blocks += 1) await block('1', 3_000)
      assert.ok(!judge.isOut(rig.now()) && !caller.isOut(rig.now()))
      await rig.lose()
      await block('3600', 5_000)
      assert.ok(judge.isOut(rig.now()))
      assert.ok(caller.isOut(rig.now()), 'the numbers of the verdicts begin anew')
    })

    it('stays the only one where the state is lost while it is under way', async () => {
      const { rig, judge, caller, isFree, begin, fail } = open()
      await fail()
      const probe = await begin()
      assert.ok(probe.probe)
      await rig.lose()
      for (let waited = 0; waited < 3_000; waited += 5) {
        assert.ok(!isFree(judge), `a second probe after ${waited} ms`)
        await rig.pass(5)
      }
      caller.judge(rig.now(), { outcome: 'delivered' }, 1, true)
      caller.end(probe.takenAt)
      await rig.pass(500)
      assert.ok(!judge.isBroken, 'its result closes the breaker')
    })

    it('is not made before its time by those who outlive the judge, where the state is lost', async () => {
      const { rig, judge, caller, isFree, fail } = open()
      await fail()
      rig.kill(judge)
      await rig.lose()
      const opened = rig.now()
      for (; !isFree(caller) && rig.now() < opened + 10_000; ) await rig.pass(5)
      assert.ok(isFree(caller), 'it is made')
      const takenAt = caller.take(rig.now())
      assert.ok(caller.beginProbe(), 'a call that is no probe while the breaker is open')
      await rig.pass(2_000)
      assert.ok(!isFree(caller), 'a second one')
      caller.abandonProbe()
      caller.undo(takenAt)
    })

    it('is not waited for by the process that made it, where the verdict that followed is lost', async () => {
      const { rig, judge, caller, isFree, begin, fail } = open()
      await fail()
      const probe = await begin()
      assert.ok(probe.probe)
      caller.judge(rig.now(), { outcome: 'delivered' }, 1, true)
      caller.end(probe.takenAt)
      for (let waited = 0; judge.isBroken && waited < 1_000; waited += 1) await rig.pass(1)
      assert.ok(caller.isBroken && !judge.isBroken, 'the judge alone has heard of it')
      await rig.lose()
      let waited = 0
      for (; !isFree(caller) && waited < 10_000; waited += 5) await rig.pass(5)
      assert.ok(waited < 10_000, 'its breaker stays open')
    })
  })

for (const engine of engines)
  describe(`a long window on ${engine}`, needs(engine), () => {
    it('has after a loss the places of tokens that nobody used', async () => {
      const rig = openAccountRig(engine, {
        windows: [parseWindow('60/20s')],
        concurrencyMax: 10,
        breaker: { inARow: 3, coolDownMs: 1_000 },
      })
      const [judge, caller] = [rig.join(), rig.join()]
      for (const state of [judge, caller]) state.listen({ tokens: () => {}, verdicts: () => {} })
      const calls: number[] = []
      function call(): boolean {
        const at = caller.freeAt(rig.now(), 0, false)
        if (at === undefined || at > rig.now()) return false
        const takenAt = caller.take(rig.now())
        caller.judge(rig.now(), { outcome: 'delivered' }, 1, false)
        caller.end(takenAt)
        calls.push(rig.now())
        return true
      }
      // Tokens are asked for, and lapse.
      for (const until = rig.now() + 8_000; rig.now() < until; await rig.pass(1))
        if (calls.length < 10 && rig.now() > (calls.at(-1) ?? 0) + 400) call()
        else if (rig.now() % 100 === 0) caller.freeAt(rig.now(), 0, false)
      assert.equal(calls.length, 10)
      await rig.pass(1_500)
      await rig.lose()
      const lostAt = rig.now()
      while (rig.now() < lostAt + 4_000) {
        call()
        await rig.pass(1)
      }
      // The judge has as many ahead as were made of late, and a chunk of three: these are lost.
      assert.ok(calls.length >= 44 && calls.length <= 60, `${calls.length} calls in a window of 60`)
    })
  })

for (const engine of engines)
  describe(`calls under way on ${engine}`, needs(engine), () => {
    it('count behind a loss before anything is granted, though their process asks last', async () => {
      const rig = openAccountRig(engine, {
        windows: [],
        concurrencyMax: 3,
        breaker: { inARow: 3, coolDownMs: 1_000 },
      })
      const [busy, other] = [rig.join(), rig.join()]
      for (const state of [busy, other]) state.listen({ tokens: () => {}, verdicts: () => {} })
      const isFree = (state: AccountState): boolean =>
        (state.freeAt(rig.now(), 0, false) ?? Number.POSITIVE_INFINITY) <= rig.now()
      const underWay: number[] = []
      for (let waited = 0; underWay.length < 3; waited += 1) {
        assert.ok(waited < 3_000, 'no token came')
        if (isFree(busy)) underWay.push(busy.take(rig.now()))
        await rig.pass(1)
      }
      // Long enough for it to have nothing more to tell.
      await rig.pass(1_000)
      await rig.lose()
      for (let waited = 0; waited < 2_000; waited += 1) {
        assert.ok(!isFree(other), `a fourth call ${waited} ms behind the loss`)
        await rig.pass(1)
      }
      for (const takenAt of underWay) busy.end(takenAt)
      for (let waited = 0; !isFree(other); waited += 1) {
        assert.ok(waited < 1_000, 'no token comes, though all calls have ended')
        await rig.pass(1)
      }
    })
  })

for (const engine of engines)
  describe(`the verdict on an account on ${engine}`, needs(engine), () => {
    /** A judge, and two callers that make as many calls as they may; each takes so long. */
    function open(windows: readonly Window[], concurrencyMax: number) {
      const rig = openAccountRig(engine, {
        windows,
        concurrencyMax,
        breaker: { inARow: 3, coolDownMs: 1_000 },
        adaptive: { min: 1, slowdown: 2 },
      })
      const [judge, ...callers] = [rig.join(), rig.join(), rig.join()]
      for (const state of [judge!, ...callers]) state.listen({ tokens: () => {}, verdicts: () => {} })
      const ends: { readonly of: AccountState; readonly takenAt: number; readonly at: number }[] = []
      /** Returns how many calls were made, and how many were under way at once. */
      async function calls(forMs: number, tookMs: number, ofEach: number) {
        let [made, most] = [0, 0]
        for (const until = rig.now() + forMs; rig.now() < until; await rig.pass(1)) {
          const now = rig.now()
          while (ends[0] !== undefined && ends[0].at <= now) {
            const { of, takenAt } = ends.shift()!
            of.judge(now, { outcome: 'delivered' }, tookMs, false)
            of.end(takenAt)
          }
          for (const of of callers)
            for (let at = 0; of.inFlight < ofEach; made += 1) {
              at = of.freeAt(now, 0, false) ?? Number.POSITIVE_INFINITY
              if (at > now) break
              ends.push({ of, takenAt: of.take(now), at: now + tookMs })
            }
          most = Math.max(most, ends.length)
        }
        return { made, most }
      }
      return { rig, judge: judge!, callers, calls }
    }

    it('that bears fewer calls at once holds for all processes together behind a loss', async () => {
      const { rig, callers, calls } = open([], 64)
      await rig.pass(2_000)
      await calls(4_000, 20, 30)
      for (let second = 0; callers[0]!.concurrency === 64; second += 1) {
        assert.ok(second < 10, 'it has as many calls at once as before')
        await calls(1_000, 400, 30)
      }
      const bound = callers[0]!.concurrency
      await calls(1_000, 20, 0)
      await rig.lose()
      await rig.pass(1_500)
      const { most } = await calls(200, 300, 64)
      assert.ok(most > 0 && most <= bound, `${most} at once, of ${bound}`)
    })

    for (const isDead of [false, true])
      it(`that has learned a lower rate keeps it behind a loss${isDead ? ' that the judge has not lived to see' : ''}`, async () => {
        const { rig, judge, callers, calls } = open([parseWindow('100/s')], 1_000)
        await rig.pass(2_000)
        const before = await calls(2_000, 1, 1_000)
        callers[0]!.judge(rig.now(), { outcome: 'rate_limited', detail: '429', retryAfter: '2' }, 1, false)
        await rig.pass(2_500)
        if (isDead) rig.kill(judge)
        await rig.lose()
        await rig.pass(1_500)
        const behind = await calls(2_000, 1, 1_000)
        assert.ok(
          before.made > 180 && behind.made < 170,
          `${behind.made} behind a loss, ${before.made} before`,
        )
      })
  })
