/** An account that several processes call, of which one has another rate, as in a rolling deployment. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import type { AccountState } from '../../../../src/ports/accounts.ts'
import { openAccountRig } from './account-rig.ts'
import { engines } from './open.ts'

interface Rollout {
  readonly title: string
  readonly before: string
  readonly behind: string
  /** By which the windows are kept longer behind it. */
  readonly marginMs?: number
}

const rollouts: readonly Rollout[] = [
  { title: 'another margin', before: '10/s', behind: '10/s', marginMs: 30 },
  { title: 'a longer window', before: '10/s', behind: '10/1500ms' },
  { title: 'a shorter window', before: '10/1500ms', behind: '10/s' },
  { title: 'a longer long window', before: '10/4s', behind: '10/6s' },
  { title: 'a shorter long window', before: '10/6s', behind: '10/4s' },
]

for (const engine of engines)
  describe(`a rate that a deployment changes on ${engine}`, needs(engine), () => {
    for (const { title, before, behind, marginMs = 0 } of rollouts)
      it(`counts the calls of before in ${title}`, async () => {
        const [old, own] = [parseWindow(before), parseWindow(behind)]
        const rig = openAccountRig(engine, {
          windows: [old],
          concurrencyMax: 100,
          breaker: { inARow: 3, coolDownMs: 1_000 },
        })
        const calls: number[] = []
        function take(state: AccountState): void {
          for (let at = state.freeAt(rig.now(), 0, false); at !== undefined && at <= rig.now(); ) {
            const takenAt = state.take(rig.now())
            calls.push(rig.now())
            state.judge(rig.now(), { outcome: 'delivered' }, 1, false)
            state.end(takenAt)
            at = state.freeAt(rig.now(), 0, false)
          }
        }
        const listened = (state: AccountState): AccountState => {
          state.listen({ tokens: () => {}, verdicts: () => {} })
          return state
        }
        const older = listened(rig.join())
        for (let waited = 0; calls.length < 10 && waited < 10_000; waited += 5) {
          take(older)
          await rig.pass(5)
        }
        assert.equal(calls.length, 10)
        await rig.pass(200)
        const newer = listened(rig.join({ windows: [own], marginMs }))
        rig.judgeBy(newer)
        for (const until = rig.now() + 3 * own.windowMs; rig.now() < until; await rig.pass(5)) take(newer)
        for (let index = 10; index < calls.length; index += 1)
          assert.ok(
            calls[index]! - calls[index - 10]! >= Math.min(old.windowMs, own.windowMs),
            `11 calls within ${calls[index]! - calls[index - 10]!} ms`,
          )
        assert.ok(calls.length >= 30, `${calls.length} calls`)
      })
  })
