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

/** An account over a state that grants one token with each answer; each answer comes so much later, ms. */
function open(rate: string, answerMs: number) {
  const clock = createVirtualClock(1_000)
  const told: SlotAsk[] = []
  const state = { bornAt: 1 }
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
          ...{ slot, restMs, bornAt: state.bornAt, isNewMember: false, lastVerdict: 0, lastResults: 0 },
          grants: asks.map(({ want, busy }) => ({
            ...{ tokens: Math.min(want, 1), isProbe: false, shortage: 'none', busy },
          })),
          ...{ verdicts: [], results: [], uses: [], long: [] },
        }
      },
    },
  })
  const account = accounts.ofPool('email/test')(
    { account: { id: 'a', options: {} }, windows: [parseWindow(rate)], rate, concurrencyMax: 8 },
    { marginMs: 20, breaker: defaultBreakerPolicy, adaptive: undefined, keep: undefined, isTold: true },
  )
  account.listen({ tokens: () => {}, verdicts: () => {} })
  async function take(): Promise<number> {
    while ((account.freeAt(clock.now(), 0, false) ?? 0) > clock.now()) await clock.runUntil(clock.now() + 1)
    return account.take(clock.now())
  }
  return { clock, told, state, account, take }
}

test('a call with a token that came behind its slot counts when it is written, also where that is at once', async () => {
  const answerMs = 60
  const { clock, told, account, take } = open('4/s', answerMs)
  const call: CountedCall = { takenAt: await take(), leftAt: clock.now() }
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

for (const [rate, leaves] of [
  ['40/10s', false],
  ['4/s', true],
] as const)
  test(`a call under ${rate} ${leaves ? 'may' : 'may not'} be written behind a loss of the state that granted its token`, async () => {
    const { clock, state, account, take } = open(rate, 1)
    const call: CountedCall = { takenAt: await take(), leftAt: clock.now() }
    account.expect?.(call)
    await clock.runUntil(clock.now() + 60)
    assert.ok(account.mayLeave?.(call, clock.now()), 'its token is carried on')
    // The state of a long window is filled with it as made by now.
    state.bornAt = 2
    await clock.runUntil(clock.now() + 60)
    assert.equal(account.mayLeave?.(call, clock.now()), leaves)
  })
