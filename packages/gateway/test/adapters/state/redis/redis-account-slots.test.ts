/** Accounts of several processes over Redis: the suite of the port, in virtual time on a real server and a cluster. */
import { after, describe } from 'node:test'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createRedisAccountSlots } from '../../../../src/adapters/state/redis/redis-account-slots.ts'
import { type AccountTerms, exerciseAccounts } from '../../../../src/conformance/accounts.ts'
import { defaultBreakerPolicy } from '../../../../src/delivery/accounts/breaker.ts'
import { createFleetAccounts, type FleetAccounts } from '../../../../src/delivery/accounts/fleet-accounts.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { type Engine, engines, newPrefix, openRedis } from './open.ts'

// Side by side: each waits for its server most of the time.
describe('accounts of several processes', { concurrency: engines.length }, () => {
  for (const engine of engines)
    describe(`on ${engine}`, needs(engine), () => {
      exerciseAccounts('accounts of several processes in Redis', (terms) => openRig(engine, terms), {
        newsMs: 1_200,
        usedMin: 0.9,
        isShared: true,
      })
    })
})

/** Processes in one virtual time; it stands while a question is under way. */
function openRig(engine: Engine, { windows, concurrencyMax, breaker }: AccountTerms) {
  const clock = createVirtualClock(1_000_000)
  const prefix = newPrefix()
  const asking = new Set<Promise<unknown>>()
  const opened: FleetAccounts[] = []
  after(() => Promise.all(opened.map((each) => each.close())))
  // One connection for all of them, so that a question is answered in the order in which it was sent.
  const redis = openRedis(engine, { prefix, clock, isVirtual: true })
  return {
    join() {
      const slots = createRedisAccountSlots({ redis })
      const member = `m${opened.length}`
      const accounts = createFleetAccounts({
        slots: {
          ask(question) {
            const answer = slots.ask(question)
            asking.add(answer)
            answer.catch(() => {}).finally(() => asking.delete(answer))
            return answer
          },
        },
        clock,
        member,
        isJudge: () => member === 'm0',
        onError: (error) => console.error(error),
      })
      opened.push(accounts)
      const state = accounts.ofPool('email/test')(
        {
          account: { id: 'a', options: {} },
          windows,
          rate: windows.map(({ text }) => text).join(', '),
          concurrencyMax,
        },
        {
          marginMs: 0,
          breaker: { ...defaultBreakerPolicy, ...breaker, of: 1_000 },
          adaptive: undefined,
          keep: undefined,
        },
      )
      return state
    },
    now: clock.now,
    async pass(ms: number) {
      const until = clock.now() + ms
      for (;;) {
        await clock.settle()
        while (asking.size > 0) {
          await Promise.allSettled(asking)
          await clock.settle()
        }
        const next = clock.next()
        if (next === undefined || next > until) break
        await clock.runUntil(next)
      }
      await clock.runUntil(until)
    },
  }
}
