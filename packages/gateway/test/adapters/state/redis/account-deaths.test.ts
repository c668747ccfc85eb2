/** An account that several processes call, of which one is killed behind the writing of a call. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { AccountState } from '../../../../src/ports/accounts.ts'
import type { SendResult } from '../../../../src/ports.ts'
import { openAccountRig } from './account-rig.ts'
import { engines } from './open.ts'

for (const engine of engines)
  describe(`a call of a killed process on ${engine}`, needs(engine), () => {
    it('is in the window of its account for as long as it may have been written behind the slot that counts it', async () => {
      const windows = [parseWindow('1/s')]
      const rig = openAccountRig(engine, {
        windows,
        concurrencyMax: 10,
        breaker: { inARow: 3, coolDownMs: 1_000 },
      })
      const join = (): AccountState => {
        const state = rig.join()
        state.listen({ tokens: () => {}, verdicts: () => {} })
        return state
      }
      const [other, killed] = [join(), join()]
      async function take(state: AccountState): Promise<number> {
        for (let waited = 0; waited < 5_000; waited += 1) {
          const at = state.freeAt(rig.now(), 0, false)
          if (at !== undefined && at <= rig.now()) return state.take(rig.now())
          await rig.pass(1)
        }
        throw new Error('no token came')
      }

      const call = { takenAt: await take(killed), leftAt: undefined }
      killed.expect(call)
      await rig.pass(100)
      rig.kill(killed)
      let writtenAt = 0
      for (; killed.mayLeave!(call, rig.now()); await rig.pass(1)) writtenAt = rig.now()
      assert.ok(writtenAt > call.takenAt + 200, 'it is written late, and nobody hears of it')
      const next = await take(other)
      assert.ok(next >= writtenAt + 1_000, `the next one is made ${next - writtenAt} ms later`)
      assert.ok(next < writtenAt + 1_200)
    })
  })

for (const engine of engines)
  describe(`an account on ${engine} whose judge was killed`, needs(engine), () => {
    it('is out when it fails, and back when a probe is delivered, before another process judges', async () => {
      const rig = openAccountRig(engine, {
        windows: [],
        concurrencyMax: 10,
        breaker: { inARow: 3, coolDownMs: 2_000, coolDownMaxMs: 2_000 },
      })
      const [judge, caller, other] = [rig.join(), rig.join(), rig.join()]
      for (const state of [judge, caller, other]) state.listen({ tokens: () => {}, verdicts: () => {} })
      async function call(result: SendResult): Promise<boolean> {
        for (let waited = 0; waited < 3_000; waited += 1) {
          const at = caller.freeAt(rig.now(), 0, false)
          if (at !== undefined && at <= rig.now()) {
            const takenAt = caller.take(rig.now())
            const isProbe = caller.beginProbe()
            caller.judge(rig.now(), result, 1, isProbe)
            caller.end(takenAt)
            return isProbe
          }
          await rig.pass(1)
        }
        throw new Error('no token came')
      }
      await call({ outcome: 'delivered' })
      await rig.pass(1_000)
      rig.kill(judge)
      for (let calls = 0; calls < 3; calls += 1) await call({ outcome: 'failed', detail: '503' })
      await rig.pass(1_500)
      assert.ok(caller.isBroken && other.isBroken, 'nobody opens its breaker')
      assert.equal(await call({ outcome: 'delivered' }), true)
      await rig.pass(500)
      assert.ok(!caller.isBroken && !other.isBroken, 'nobody closes it')
    })
  })
