/**
 * Tests what becomes late while a gateway runs, with the limiter's state in Redis: the runs and the oracle of
 * admission/late-runs.ts. Time is virtual, and stands still while Redis is asked.
 */
import process from 'node:process'
import { describe, test } from 'node:test'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createRedisLimits } from '../../../../src/adapters/state/redis/redis-limits.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { createVirtualClock, type VirtualClock } from '../../../../src/simulation/clock.ts'
import { runLate } from '../../../admission/late-runs.ts'
import { type HarnessOptions, testSeed } from '../../../harness.ts'
import { openRedis } from './open.ts'

const runs = Number(process.env.SLUICE_RUNS ?? 3)
const start = Date.UTC(2026, 10, 21, 12)

/** A clock that moves on only when no question to Redis is open, and nothing waits to ask again. */
function createPatientClock() {
  const clock = createVirtualClock(start)
  let open = 0
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  async function settle(): Promise<void> {
    await clock.settle()
    while (open > 0) {
      await turn()
      await clock.settle()
    }
  }
  const patient: VirtualClock = {
    ...clock,
    settle,
    async runUntil(instant) {
      await settle()
      for (let next = clock.next(); next !== undefined && next <= instant; next = clock.next()) {
        await clock.runUntil(next)
        await settle()
      }
      await clock.runUntil(instant)
    },
  }
  /** Keeps the clock while the work lasts. */
  async function during<T>(work: Promise<T>): Promise<T> {
    open += 1
    try {
      return await work
    } finally {
      open -= 1
    }
  }
  return { clock: patient, during }
}

function optionsOf(): HarnessOptions {
  const { clock, during } = createPatientClock()
  const opened = openRedis('redis', { clock, isVirtual: true })
  const redis: RedisState = { ...opened, ask: (...question) => during(opened.ask(...question)) }
  return {
    clock,
    parts: {
      limitsOf(options) {
        const state = createRedisLimits({ ...options, redis, clock, member: 'one' })
        // One that is held up while its subject is planned asks again after some real milliseconds.
        return { ...state, fire: (requests) => during(state.fire(requests)) }
      },
    },
  }
}

describe('limits in Redis', needs('redis'), () => {
  test(`what becomes late while a gateway runs leaves in the order of its promises, none later than it must, in ${runs} random runs (seed ${testSeed})`, () =>
    runLate(runs, optionsOf))
})
