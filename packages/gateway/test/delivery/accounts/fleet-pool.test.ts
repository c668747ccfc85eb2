/** The record that a process reads for its accounts' long windows, beside a need that comes while it is read. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { defaultBreakerPolicy } from '../../../src/delivery/accounts/breaker.ts'
import { createFleetAccounts } from '../../../src/delivery/accounts/fleet-accounts.ts'
import type { LongUse, SlotAnswer } from '../../../src/ports/account-slots.ts'
import type { UseRecord } from '../../../src/ports.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

const start = 1_000_000
const windowMs = 10_000

test('an account that needs the record while it is read has it read again', async () => {
  const clock = createVirtualClock(start)
  const reads: PromiseWithResolvers<ReadonlyMap<string, UseRecord>>[] = []
  let long: readonly LongUse[] = []
  const accounts = createFleetAccounts({
    slots: {
      ask: async ({ asks }): Promise<SlotAnswer> => ({
        ...{ slot: 1, restMs: 20, bornAt: start, lastVerdict: 0, lastResults: 0, isNewMember: false },
        grants: asks.map(() => ({ tokens: 0, isProbe: false, shortage: 'record', busy: 0 })),
        ...{ verdicts: [], results: [], uses: [], long },
      }),
    },
    ...{ clock, member: 'm0', callMs: 2_000, isJudge: () => false },
    readUse() {
      const reading = Promise.withResolvers<ReadonlyMap<string, UseRecord>>()
      reads.push(reading)
      return reading.promise
    },
    onError: (error) => assert.fail(String(error)),
  })
  const [, second] = ['a', 'b'].map((id) =>
    accounts.ofPool('email/test')(
      { account: { id, options: {} }, windows: [parseWindow('400/10s')], rate: '400/10s', concurrencyMax: 4 },
      { marginMs: 0, breaker: { ...defaultBreakerPolicy, of: 1_000 }, adaptive: undefined, keep: () => {} },
    ),
  )
  const pass = async (ms: number): Promise<void> => {
    for (const until = clock.now() + ms; clock.now() < until; ) {
      await clock.settle()
      await clock.runUntil(Math.min(until, clock.now() + 10))
    }
    await clock.settle()
  }
  const use = (account: number): LongUse => ({ account, total: 10, unused: 0, covered: 30, isFilled: true })
  const recordOf = (count: number): UseRecord => ({ calls: [[clock.now(), count]], ahead: 20, windowMs })

  long = [use(0)]
  await pass(2_000)
  assert.equal(reads.length, 1)
  long = [use(0), use(1)]
  await pass(2_000)
  assert.equal(reads.length, 1, 'one is read at a time')
  reads[0]!.resolve(new Map([['b', recordOf(1)]]))
  await pass(2_000)
  assert.equal(reads.length, 2, 'the first may be older than what the second account has to know')
  reads[1]!.resolve(new Map([['b', recordOf(10)]]))
  await pass(2_000)
  assert.equal(reads.length, 2)
  const made = second!.record(clock.now()).use!.calls.reduce((sum, [, count]) => sum + count, 0)
  assert.equal(made, 10)
  await accounts.close()
})
