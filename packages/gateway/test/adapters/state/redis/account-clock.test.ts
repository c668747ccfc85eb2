/** The state of accounts on a Redis whose clock is set while processes ask. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { createRedisAccountSlots } from '../../../../src/adapters/state/redis/redis-account-slots.ts'
import type { SlotQuestion } from '../../../../src/ports/account-slots.ts'
import { newPrefix, openRedis } from './open.ts'

const question: Omit<SlotQuestion, 'member' | 'lastResults'> = {
  pool: 'email/test',
  slotMs: 20,
  silentMs: 17_000,
  coldMs: 600,
  probeMs: 20_000,
  isJudge: false,
  roster: {
    id: 'r',
    names: ['a'],
    concurrency: [10],
    rules: [{ windowMs: 1_020, width: 1, run: 52, max: [5] }],
  },
  bornAt: 0,
  lastVerdict: 0,
  results: undefined,
  withUses: false,
  asks: [{ account: 0, want: 1, kept: 0, busy: 0, late: 0, back: [] }],
  verdicts: [],
  remembered: [],
  untold: [],
  blocks: [],
  abandoned: [],
  probing: [],
  covered: [],
  fills: [],
}

describe('accounts on a Redis whose clock is set', needs('redis'), () => {
  const system = createSystemClock()
  const prefix = newPrefix()
  /** A process that reads the clock of the server so far ahead of the fleet's time. */
  function join(member: string) {
    let serverAheadMs = 0
    const clock = { ...system, now: () => system.now() - serverAheadMs }
    const slots = createRedisAccountSlots({ redis: openRedis('redis', { prefix, clock }) })
    const bornAt = async (): Promise<number> => {
      const ask = () => slots.ask({ ...question, member, lastResults: 0 })
      // The first answer behind a step may count as lost.
      return (await ask().catch(ask)).bornAt
    }
    return {
      bornAt,
      set(byMs: number) {
        serverAheadMs += byMs
      },
    }
  }

  it('are born anew where it was set by more than windows are kept longer, and not where two processes differ by as much', async () => {
    const [first, second] = [join('m0'), join('m1')]
    second.set(60)
    const born = await first.bornAt()
    assert.equal(await second.bornAt(), born, 'the second one reads another time')
    assert.equal(await first.bornAt(), born)
    for (const ms of [60, -60]) {
      const before = await first.bornAt()
      first.set(ms)
      const after = await first.bornAt()
      assert.notEqual(after, before, `set by ${ms} ms`)
      second.set(ms)
      const then = await second.bornAt()
      assert.equal(await first.bornAt(), then)
      assert.equal(await second.bornAt(), then)
    }
  })
})
