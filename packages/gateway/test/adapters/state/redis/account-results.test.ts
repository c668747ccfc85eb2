/** Results of calls that several processes tell each other: each is heard once, whatever is lost on the way. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { AccountState } from '../../../../src/ports/accounts.ts'
import { openAccountRig } from './account-rig.ts'
import { engines } from './open.ts'

for (const engine of engines)
  describe(`the result of a call on ${engine}`, needs(engine), () => {
    /** A judge, a caller, and an account whose breaker opens by three failures in a row. */
    async function open() {
      const rig = openAccountRig(engine, {
        windows: [],
        concurrencyMax: 10,
        breaker: { inARow: 3, coolDownMs: 60_000, coolDownMaxMs: 60_000 },
      })
      const join = (): AccountState => {
        const state = rig.join()
        state.listen({ tokens: () => {}, verdicts: () => {} })
        return state
      }
      const [judge, caller] = [join(), join()]
      await rig.pass(1_000)
      const tell = (outcome: 'failed' | 'delivered') =>
        caller.judge(rig.now(), outcome === 'failed' ? { outcome, detail: '503' } : { outcome }, 1, false)
      return { rig, judge, caller, tell }
    }

    for (const lost of ['question', 'answer'] as const)
      it(`is heard once where the ${lost} that tells it is lost`, async () => {
        const { rig, judge, caller, tell } = await open()
        for (let failures = 1; failures <= 3; failures += 1) {
          rig.loseResults(lost)
          tell('failed')
          await rig.pass(120)
          rig.loseResults(undefined)
          await rig.pass(500)
          assert.deepEqual(
            [judge.isBroken, caller.isBroken],
            [failures === 3, failures === 3],
            `behind ${failures} failures`,
          )
        }
      })

    it('is heard where it is the first behind a loss of the state, whose numbers begin anew', async () => {
      const { rig, judge, caller, tell } = await open()
      for (let calls = 0; calls < 5; calls += 1) {
        tell('delivered')
        await rig.pass(500)
      }
      await rig.lose()
      for (let failures = 0; failures < 3; failures += 1) tell('failed')
      await rig.pass(1_500)
      assert.deepEqual([judge.isBroken, caller.isBroken], [true, true])
    })
  })
