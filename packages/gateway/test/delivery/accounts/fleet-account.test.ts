/** An account of a fleet, behind a shared state whose answers come late. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { defaultBreakerPolicy } from '../../../src/delivery/accounts/breaker.ts'
import { createFleetAccounts } from '../../../src/delivery/accounts/fleet-accounts.ts'
import type { SlotAsk } from '../../../src/ports/account-slots.ts'
import { defaultSlotMs } from '../../../src/ports/account-slots.ts'
import type { CountedCall } from '../../../src/ports/accounts.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

test('a call with a token that came behind its slot counts when it is written, also where that is at once', async () => {
  const answerMs = 60
  const clock = createVirtualClock(1_000)
  const told: SlotAsk[] = []
  const accounts = createFleetAccounts({
    clock,
    member: 'm1',
    isJudge: () => true,
    slots: {
      async ask({ asks }) {
        told.push(...asks)
        const slot = Math.floor(clock.now() / defaultSlotMs)
        const restMs = (slot + 1) * defaultSlotMs - clock.now()
        await new Promise<void>((resolve) => clock.at(clock.now() + answerMs, resolve))
        return {
          ...{ slot, restMs, bornAt: 1, isNewMember: false, lastVerdict: 0, lastResults: 0 },
          grants: asks.map(({ want, busy }) => ({
            ...{ tokens: Math.min(want, 1), isProbe: false, shortage: 'none', busy },
          })),
          ...{ verdicts: [], results: [], uses: [], long: [] },
        }
      },
    },
  })
  const windows = [parseWindow('4/s')]
  const account = accounts.ofPool('email/test')(
    { account: { id: 'a', options: {} }, windows, rate: '4/s', concurrencyMax: 8 },
    { marginMs: 20, breaker: defaultBreakerPolicy, adaptive: undefined, keep: undefined, isTold: true },
  )
  account.listen({ tokens: () => {}, verdicts: () => {} })
  while ((account.freeAt(clock.now(), 0, false) ?? 0) > clock.now()) await clock.runUntil(clock.now() + 1)

  const call: CountedCall = { takenAt: account.take(clock.now()), leftAt: clock.now() }
  account.left(call)
  const before = told.length
  await clock.runUntil(clock.now() + 2 * answerMs)
  const later = told.slice(before)
  assert.equal(later[0]?.late, 1, 'the next question counts it')
  assert.equal(
    later.reduce((sum, { late }) => sum + late, 0),
    1,
  )
})
