/**
 * How often a process asks for the accounts of a pool: seldom while nothing happens, often while results come, and the judge
 * hears of a failure all the same before the next ones.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { AccountState } from '../../../../src/ports/accounts.ts'
import type { SendResult } from '../../../../src/ports.ts'
import { openAccountRig } from './account-rig.ts'

describe('the questions of several processes', needs('redis'), () => {
  it('are few at rest, and many where a verdict may be due', async () => {
    const rig = openAccountRig('redis', {
      windows: [],
      concurrencyMax: 10,
      breaker: { inARow: 3, coolDownMs: 5_000, coolDownMaxMs: 5_000 },
    })
    const join = (): AccountState => {
      const state = rig.join()
      state.listen({ tokens: () => {}, verdicts: () => {} })
      return state
    }
    const judge = join()
    const [caller, third] = [join(), join()]
    /** Lets time pass; returns the questions that the three asked. */
    async function asked(ms: number): Promise<readonly number[]> {
      const before = [judge, caller, third].map(rig.questionsOf)
      await rig.pass(ms)
      return [judge, caller, third].map((state, index) => rig.questionsOf(state) - before[index]!)
    }
    async function take(): Promise<number> {
      for (let tries = 0; tries < 100; tries += 1) {
        const at = caller.freeAt(rig.now(), 0, false)
        if (at !== undefined && at <= rig.now()) return caller.take(rig.now())
        await rig.pass(1)
      }
      throw new Error('no token came')
    }
    function answer(takenAt: number, result: SendResult): void {
      caller.answered({ takenAt, leftAt: undefined }, rig.now(), result)
      caller.judge(rig.now(), result, 1, false)
      caller.end(takenAt)
    }

    await rig.pass(5_000)
    assert.deepEqual(await asked(10_000), [40, 10, 10], 'at rest')

    // A process with a call under way is not taken for dead, and is known soon after a loss.
    const takenAt = await take()
    await rig.pass(3_000)
    const [, underWay = 0] = await asked(2_000)
    assert.ok(underWay >= 8, `${underWay} questions in 2 s under way`)

    answer(takenAt, { outcome: 'failed', detail: '503' })
    const [first = 0] = await asked(400)
    assert.ok(first >= 3, `${first} questions of the judge behind a result`)
    for (let more = 0; more < 2; more += 1) answer(await take(), { outcome: 'failed', detail: '503' })
    // 20 ms until the caller tells it, 50 ms until the judge asks, and its verdict.
    await rig.pass(100)
    assert.ok(judge.isBroken, 'the judge knows of the last failure')
    const [broken = 0, others = 0] = await asked(2_000)
    assert.ok(broken >= 38 && others >= 8, `${broken} and ${others} questions while the breaker is open`)
  })

  it('soon bring the verdict on a probe to the process that made it', async () => {
    const rig = openAccountRig('redis', {
      windows: [],
      concurrencyMax: 10,
      breaker: { inARow: 1, coolDownMs: 1_000, coolDownMaxMs: 1_000 },
    })
    const [judge, caller] = [rig.join(), rig.join()]
    for (const state of [judge, caller]) state.listen({ tokens: () => {}, verdicts: () => {} })
    async function call(result: SendResult): Promise<void> {
      for (let tries = 0; tries < 3_000; tries += 1) {
        const at = caller.freeAt(rig.now(), 0, false)
        if (at !== undefined && at <= rig.now()) break
        await rig.pass(1)
      }
      const takenAt = caller.take(rig.now())
      const isProbe = caller.beginProbe()
      caller.answered({ takenAt, leftAt: undefined }, rig.now(), result)
      caller.judge(rig.now(), result, 1, isProbe)
      caller.end(takenAt)
    }
    await call({ outcome: 'failed', detail: '503' })
    await rig.pass(500)
    assert.ok(caller.isBroken)
    await call({ outcome: 'delivered' })
    // 20 ms until it is told, 50 ms until the judge asks, and 50 ms until this process asks again.
    await rig.pass(125)
    assert.ok(!caller.isBroken, 'calls wait for the verdict')
  })

  it('give a probe back that nothing was left for, so that the next call may make it', async () => {
    const rig = openAccountRig('redis', {
      windows: [],
      concurrencyMax: 10,
      breaker: { inARow: 1, coolDownMs: 1_000, coolDownMaxMs: 1_000 },
    })
    const [judge, caller, other] = [rig.join(), rig.join(), rig.join()]
    for (const state of [judge, caller, other]) state.listen({ tokens: () => {}, verdicts: () => {} })
    const isFree = (state: AccountState) => state.freeAt(rig.now(), 0, false) === rig.now()
    while (!isFree(caller)) await rig.pass(1)
    const takenAt = caller.take(rig.now())
    caller.answered({ takenAt, leftAt: undefined }, rig.now(), { outcome: 'failed', detail: '503' })
    caller.judge(rig.now(), { outcome: 'failed', detail: '503' }, 1, false)
    caller.end(takenAt)
    await rig.pass(1_500)
    assert.ok(caller.isBroken && other.isBroken)
    // A call asks for the probe, and is made by another account before the answer is here.
    isFree(caller)
    await rig.pass(1)
    await rig.pass(60)
    for (let ms = 0; !isFree(other); ms += 1) {
      assert.ok(ms < 100, 'the probe stays with a process that does not make it')
      await rig.pass(1)
    }
    assert.ok(other.beginProbe())
  })

  it('of the judge are many where calls in long windows wait for its record', async () => {
    const rig = openAccountRig('redis', {
      windows: [{ max: 1_000, windowMs: 3_600_000, text: '1000/h' }],
      breaker: { inARow: 3, coolDownMs: 5_000 },
      concurrencyMax: 10,
    })
    const judge = rig.join()
    judge.listen({ tokens: () => {}, verdicts: () => {} })
    await rig.pass(5_000)
    const before = rig.questionsOf(judge)
    await rig.pass(5_000)
    assert.equal(rig.questionsOf(judge) - before, 100)
  })

  it('tell of a block before a lost state grants tokens, also where the judge has died', async () => {
    const rig = openAccountRig('redis', {
      windows: [],
      concurrencyMax: 10,
      breaker: { inARow: 3, coolDownMs: 5_000 },
    })
    const [judge, caller, other] = [rig.join(), rig.join(), rig.join()]
    for (const state of [judge, caller, other]) state.listen({ tokens: () => {}, verdicts: () => {} })
    const isFree = (state: AccountState) => state.freeAt(rig.now(), 0, false) === rig.now()
    await rig.pass(5_000)
    rig.kill(judge)
    while (!isFree(caller)) await rig.pass(1)
    // The other one has just asked, and rests.
    const asked = rig.questionsOf(other)
    while (rig.questionsOf(other) === asked) await rig.pass(1)
    while (!isFree(caller)) await rig.pass(1)
    const takenAt = caller.take(rig.now())
    const blocked: SendResult = { outcome: 'rate_limited', retryAfter: '60', detail: '429' }
    caller.answered({ takenAt, leftAt: undefined }, rig.now(), blocked)
    caller.judge(rig.now(), blocked, 1, false)
    caller.end(takenAt)
    await rig.pass(800)
    await rig.lose()
    const calls: number[] = []
    for (let ms = 0; ms < 5_000; ms += 1) {
      if (isFree(other)) calls.push(ms)
      await rig.pass(1)
    }
    assert.deepEqual(calls, [])
  })
})
