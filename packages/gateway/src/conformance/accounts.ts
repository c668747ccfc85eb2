/**
 * The conformance suite of the state of an account: `exerciseAccounts` runs it on any adapter. Time passes only when the
 * suite lets it pass, so that an adapter which takes tokens ahead may bring them.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow, type Window } from '@sluice/limits'
import type { AccountChange, AccountState } from '../ports/accounts.ts'
import type { SendResult } from '../ports.ts'
import { seeded } from './store/sample.ts'

export interface AccountTerms {
  readonly windows: readonly Window[]
  readonly concurrencyMax: number
  /** Failed calls in a row that open its breaker, and for how long. */
  readonly breaker: { readonly inARow: number; readonly coolDownMs: number; readonly coolDownMaxMs?: number }
}

/** An account as one or several processes call it. */
export interface AccountRig {
  /** Another process that calls the account; the first call gives the first process. */
  join(): AccountState
  now(): number
  /** Lets time pass, with everything that happens meanwhile. */
  pass(ms: number): Promise<void>
}

export interface AccountCapabilities {
  /** The time within which tokens come and verdicts are known everywhere, ms; 0 where all is known at once. */
  readonly newsMs: number
  /** The least share of the rate that one process uses at saturation. */
  readonly usedMin: number
  /** True where several processes may call the account. */
  readonly isShared: boolean
  /** Each is one random run. @defaultValue 1, 2 and 3 */
  readonly seeds?: readonly number[]
}

const delivered: SendResult = { outcome: 'delivered' }
const failed: SendResult = { outcome: 'failed', detail: '503' }
const limited = (seconds: number): SendResult => ({
  outcome: 'rate_limited',
  retryAfter: String(seconds),
  detail: '429',
})
const second = 1_000

/** A process with the changes that it was told or has caused. */
interface Caller {
  readonly state: AccountState
  readonly changes: AccountChange[]
}

/** Registers the suite `name` with node:test. */
export function exerciseAccounts(
  name: string,
  open: (terms: AccountTerms) => AccountRig,
  capabilities: AccountCapabilities,
): void {
  const { newsMs, usedMin, isShared, seeds = [1, 2, 3] } = capabilities

  interface Setup extends Partial<Omit<AccountTerms, 'windows'>> {
    readonly rates?: readonly string[]
  }
  function rigOf({ rates = [], ...more }: Setup) {
    const rig = open({
      windows: rates.map((rate) => parseWindow(rate)),
      concurrencyMax: 1_000,
      breaker: { inARow: 3, coolDownMs: 5_000 },
      ...more,
    })
    return { ...rig, caller: () => callerOf(rig) }
  }

  function callerOf(rig: AccountRig): Caller {
    const changes: AccountChange[] = []
    const state = rig.join()
    state.listen({ tokens: () => {}, verdicts: (_, made) => changes.push(...made) })
    return { state, changes }
  }

  const isFree = ({ state }: Caller, now: number): boolean => {
    const at = state.freeAt(now, 0, false)
    return at !== undefined && at <= now
  }

  /** Passes the time until one of them says that it may have a call free, 5 ms at most. */
  async function passUntilFree(rig: AccountRig, callers: readonly Caller[]): Promise<void> {
    const now = rig.now()
    const instants = callers.map(({ state }) => state.freeAt(now, 0, false) ?? Number.POSITIVE_INFINITY)
    await rig.pass(Math.max(1, Math.min(5, Math.ceil(Math.min(...instants) - now))))
  }

  /** Begins a call as soon as one is free, within some milliseconds; undefined where none is. */
  async function begin(rig: AccountRig, caller: Caller, withinMs = newsMs) {
    for (let waited = 0; ; waited += 1) {
      const now = rig.now()
      if (isFree(caller, now))
        return { takenAt: caller.state.take(now), probe: caller.state.beginProbe(), leftAt: undefined }
      if (waited >= withinMs) return undefined
      await rig.pass(1)
    }
  }

  async function call(rig: AccountRig, caller: Caller, result: SendResult, withinMs?: number) {
    const begun = await begin(rig, caller, withinMs)
    assert.ok(begun !== undefined, 'a call is free')
    end(rig, caller, begun, result)
  }

  function end(
    rig: AccountRig,
    { state, changes }: Caller,
    begun: { takenAt: number; readonly probe: boolean; leftAt: undefined },
    result: SendResult,
  ): void {
    state.answered(begun, rig.now(), result)
    changes.push(...state.judge(rig.now(), result, 1, begun.probe))
    state.end(begun.takenAt)
  }

  /** Fails until the account is out. */
  async function breakIt(rig: AccountRig, caller: Caller): Promise<void> {
    for (let calls = 0; calls < 3; calls += 1) await call(rig, caller, failed, second)
    await rig.pass(newsMs)
    assert.ok(caller.state.isBroken)
  }

  /** Asserts that no half-open window has more calls than its maximum. */
  function assertWindows(calls: readonly number[], windows: readonly Window[]): void {
    const sorted = [...calls].sort((a, b) => a - b)
    for (const { max, windowMs, text } of windows)
      for (let index = max; index < sorted.length; index += 1)
        assert.ok(
          sorted[index]! - sorted[index - max]! >= windowMs,
          `${max + 1} calls within ${text}: at ${sorted[index - max]} and ${sorted[index]}`,
        )
  }

  describe(name, () => {
    it('has at most as many calls as it may in every window, and uses nearly all of them', async () => {
      const rates = ['20/s', '50/5s']
      const rig = rigOf({ rates })
      const caller = rig.caller()
      const calls: number[] = []
      const until = rig.now() + 30 * second
      await rig.pass(newsMs)
      while (rig.now() < until) {
        while (isFree(caller, rig.now())) {
          calls.push(caller.state.take(rig.now()))
          caller.state.end(calls.at(-1)!)
        }
        await passUntilFree(rig, [caller])
      }
      assertWindows(
        calls,
        rates.map((rate) => parseWindow(rate)),
      )
      assert.ok(calls.length >= 300 * usedMin, `${calls.length} of 300 calls`)
    })

    for (const seed of seeds)
      it(`keeps its windows whatever is taken, taken back and written late (seed ${seed})`, async () => {
        const chance = seeded(seed)
        const rates = ['5/s', '12/4s']
        const rig = rigOf({ rates, concurrencyMax: 8 })
        const callers = isShared ? [rig.caller(), rig.caller(), rig.caller()] : [rig.caller()]
        const calls: number[] = []
        const underWay: { readonly caller: Caller; takenAt: number; readonly writtenAt: number }[] = []
        const until = rig.now() + 60 * second
        while (rig.now() < until) {
          const now = rig.now()
          for (const each of underWay.splice(0)) {
            if (each.writtenAt > now) {
              underWay.push(each)
              continue
            }
            if (now - each.takenAt > 5) each.takenAt = each.caller.state.move(each.takenAt, now)
            calls.push(Math.max(now, each.takenAt))
            each.caller.state.end(each.takenAt)
          }
          for (const caller of callers) {
            if (chance() < 0.5 || !isFree(caller, now)) continue
            const takenAt = caller.state.take(now)
            if (chance() < 0.2) caller.state.undo(takenAt)
            else underWay.push({ caller, takenAt, writtenAt: now + (chance() < 0.1 ? 3 : 0) })
          }
          assert.ok(underWay.length <= 8, 'calls at once')
          await rig.pass(1 + Math.floor(chance() * (chance() < 0.1 ? 40 : 4)))
        }
        // A call may be written some milliseconds after it counts: the margin of a window is there for that.
        assertWindows(
          calls,
          rates
            .map((rate) => parseWindow(rate))
            .map((window) => ({ ...window, windowMs: window.windowMs - 45 })),
        )
        assert.ok(calls.length > 40, `${calls.length} calls`)
      })

    it('has as many calls under way as it may, and another when one ends', async () => {
      const rig = rigOf({ concurrencyMax: 2 })
      const caller = rig.caller()
      const first = await begin(rig, caller)
      assert.ok(first !== undefined && (await begin(rig, caller)) !== undefined)
      assert.equal(caller.state.inFlight, 2)
      assert.equal(await begin(rig, caller, newsMs + 50), undefined)
      end(rig, caller, first, delivered)
      assert.ok((await begin(rig, caller)) !== undefined)
    })

    it('makes no call until the Retry-After of a 429 is over, the longest of several', async () => {
      const rig = rigOf({})
      const caller = rig.caller()
      const both = [await begin(rig, caller), await begin(rig, caller)]
      const blockedAt = rig.now()
      end(rig, caller, both[0]!, limited(10))
      end(rig, caller, both[1]!, limited(4))
      await rig.pass(newsMs)
      assert.ok(caller.state.isOut(rig.now()))
      assert.ok(!caller.state.isBroken)
      assert.deepEqual(
        caller.changes.map(({ kind }) => kind),
        ['blocked'],
      )
      assert.ok(caller.state.waitsUntil >= blockedAt + 10 * second)
      while (rig.now() < blockedAt + 10 * second - 1) {
        assert.ok(!isFree(caller, rig.now()), `at ${rig.now() - blockedAt} ms`)
        await rig.pass(1)
      }
      await rig.pass(1 + newsMs)
      await call(rig, caller, delivered, second)
      assert.ok(!caller.state.isOut(rig.now()))
    })

    it('opens its breaker by failures, and closes it by one probe after the cool-down', async () => {
      const rig = rigOf({})
      const caller = rig.caller()
      await breakIt(rig, caller)
      const { probeAt } = caller.state
      assert.ok(probeAt !== undefined && probeAt > rig.now())
      assert.equal(await begin(rig, caller, 100), undefined, 'no call while it is open')
      await rig.pass(probeAt - rig.now())
      const probe = await begin(rig, caller)
      assert.equal(probe?.probe, true)
      assert.equal(await begin(rig, caller, newsMs + 100), undefined, 'one probe at a time')
      end(rig, caller, probe, delivered)
      await rig.pass(newsMs)
      assert.ok(!caller.state.isOut(rig.now()))
      assert.equal(caller.state.probeAt, undefined)
      const next = await begin(rig, caller)
      assert.equal(next?.probe, false)
      assert.deepEqual(
        caller.changes.map(({ kind }) => kind),
        ['opened', 'closed'],
      )
    })

    it('stays out for longer after a failed probe, and makes an abandoned one again', async () => {
      const rig = rigOf({})
      const caller = rig.caller()
      await breakIt(rig, caller)
      await rig.pass(caller.state.probeAt! - rig.now())
      const probe = (await begin(rig, caller))!
      const failedAt = rig.now()
      end(rig, caller, probe, failed)
      await rig.pass(newsMs)
      assert.ok(caller.state.probeAt! >= failedAt + 10 * second, 'twice as long')
      await rig.pass(caller.state.probeAt! - rig.now())
      const unmade = (await begin(rig, caller))!
      assert.ok(unmade.probe)
      caller.state.undo(unmade.takenAt)
      caller.state.abandonProbe()
      await rig.pass(newsMs)
      assert.equal((await begin(rig, caller))?.probe, true)
    })

    it('is not judged by a fault of the recipient', async () => {
      const rig = rigOf({})
      const caller = rig.caller()
      for (let calls = 0; calls < 9; calls += 1)
        await call(rig, caller, { outcome: 'failed', detail: '450', recipientFault: true })
      await rig.pass(newsMs)
      assert.ok(!caller.state.isOut(rig.now()))
      assert.deepEqual(caller.changes, [])
    })

    it('makes no call while an operator holds it, not even a probe', async () => {
      const rig = rigOf({})
      const caller = rig.caller()
      await breakIt(rig, caller)
      caller.state.hold(rig.now() + 60 * second, rig.now())
      await rig.pass(20 * second)
      assert.ok(caller.state.isHeld(rig.now()))
      assert.equal(await begin(rig, caller, newsMs + 50), undefined)
      caller.state.hold(0, rig.now())
      assert.equal((await begin(rig, caller))?.probe, true)
    })

    it('takes its block and its breaker from the record', async () => {
      const before = rigOf({})
      const caller = before.caller()
      await breakIt(before, caller)
      const record = caller.state.record(before.now())
      assert.ok(record.breaker !== undefined)
      const rig = rigOf({})
      const again = rig.caller()
      again.state.restore({ ...record, blockedUntil: rig.now() + 30 * second })
      assert.ok(again.state.isOut(rig.now()) && again.state.isBroken)
      assert.equal(await begin(rig, again, 100), undefined)
      await rig.pass(30 * second)
      assert.equal((await begin(rig, again))?.probe, true)
    })

    it('waits out its short windows where another process may have called it', async () => {
      const rig = rigOf({ rates: ['2/s'] })
      const caller = rig.caller()
      const from = rig.now()
      caller.state.usedUntil(from + 500)
      assert.equal(await begin(rig, caller, 1_400), undefined)
      assert.ok((await begin(rig, caller, 200 + newsMs)) !== undefined)
    })

    it('reports its calls, its condition and its changes', async () => {
      const rig = rigOf({ rates: ['10/s'] })
      const caller = rig.caller()
      await call(rig, caller, delivered)
      await call(rig, caller, limited(7))
      await rig.pass(newsMs)
      const now = rig.now()
      const report = caller.state.report(now)
      assert.equal(report.status, 'blocked')
      assert.equal(report.outBecause, 'rate_limited')
      assert.equal(report.outUntil, caller.state.waitsUntil)
      const details = caller.state.details(now)
      assert.equal(details.retryAfter, '7')
      assert.deepEqual(details.perMinute, { delivered: 1, failed: 0, rateLimited: 1 })
      assert.equal(caller.state.past(now).changes[0]?.change, 'blocked')
    })

    if (isShared) {
      it('keeps its rate over several processes', async () => {
        const rates = ['20/s']
        const rig = rigOf({ rates })
        const callers = [rig.caller(), rig.caller(), rig.caller()]
        const calls: number[] = []
        const until = rig.now() + 20 * second
        while (rig.now() < until) {
          for (const caller of callers)
            while (isFree(caller, rig.now())) {
              calls.push(caller.state.take(rig.now()))
              caller.state.end(calls.at(-1)!)
            }
          await passUntilFree(rig, callers)
        }
        assertWindows(
          calls,
          rates.map((rate) => parseWindow(rate)),
        )
        assert.ok(calls.length >= 400 * usedMin, `${calls.length} of 400 calls`)
      })

      it('tells every process of a block, and gives one of them the probe', async () => {
        const rig = rigOf({})
        const [one, two] = [rig.caller(), rig.caller()]
        await call(rig, one, limited(5))
        await rig.pass(newsMs)
        assert.ok(two.state.isOut(rig.now()))
        assert.equal(await begin(rig, two, 100), undefined)
        assert.deepEqual(
          two.changes.map(({ kind }) => kind),
          ['blocked'],
        )
        await rig.pass(5 * second + newsMs)
        for (let calls = 0; calls < 3; calls += 1)
          await call(rig, calls % 2 === 0 ? one : two, failed, second)
        await rig.pass(newsMs)
        assert.ok(one.state.isBroken && two.state.isBroken, 'failures of all count together')
        await rig.pass(one.state.probeAt! - rig.now())
        const begun = [await begin(rig, one), await begin(rig, two, newsMs + 50)]
        assert.deepEqual(
          begun.map((each) => each?.probe),
          [true, undefined],
        )
        end(rig, one, begun[0]!, delivered)
        await rig.pass(newsMs)
        assert.ok(!two.state.isOut(rig.now()))
      })
    }
  })
}
