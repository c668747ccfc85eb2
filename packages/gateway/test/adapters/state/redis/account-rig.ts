/** Processes that call one account over Redis, in one virtual time. */
import { after } from 'node:test'
import { createRedisAccountSlots } from '../../../../src/adapters/state/redis/redis-account-slots.ts'
import type { AccountTerms } from '../../../../src/conformance/accounts.ts'
import type { AccountPolicy } from '../../../../src/delivery/accounts/account.ts'
import { defaultBreakerPolicy } from '../../../../src/delivery/accounts/breaker.ts'
import { createFleetAccounts, type FleetAccounts } from '../../../../src/delivery/accounts/fleet-accounts.ts'
import type { AccountState } from '../../../../src/ports/accounts.ts'
import type { UseRecord } from '../../../../src/ports.ts'
import { createVirtualClock } from '../../../../src/simulation/clock.ts'
import { type Engine, newPrefix, openAdmin, openRedis } from './open.ts'

class LostByTest extends Error {}

/** Time stands while a question is under way. */
export function openAccountRig(
  engine: Engine,
  { windows, concurrencyMax, breaker, adaptive }: AccountTerms & Partial<Pick<AccountPolicy, 'adaptive'>>,
) {
  const clock = createVirtualClock(1_000_000)
  const prefix = newPrefix()
  const asking = new Set<Promise<unknown>>()
  const opened = new Map<AccountState, FleetAccounts>()
  const dead = new Set<AccountState>()
  const members = new Map<AccountState, string>()
  let judge = 'm0'
  const questions = new Map<AccountState, number>()
  let loses: 'question' | 'answer' | undefined
  let joined = 0
  /** The use of the account that is on record. */
  let recorded: UseRecord | undefined
  function keep(account: AccountState): void {
    clock.soon(() => {
      recorded = account.record(clock.now()).use
      account.recorded()
    })
  }
  after(() => Promise.all(Array.from(opened.values(), (each) => each.close())))
  // One connection for all of them, so that a question is answered in the order in which it was sent.
  const redis = openRedis(engine, { prefix, clock, isVirtual: true })
  return {
    /** Ends a process as a kill does: it asks nothing any more, and hears nothing. */
    kill(state: AccountState) {
      dead.add(state)
      opened.delete(state)
    },
    /** Lets another process judge; the first one does at the beginning. */
    judgeBy(state: AccountState) {
      judge = members.get(state)!
    },
    /** Loses questions that tell of results, or their answers, until it is called again. */
    loseResults(what: typeof loses) {
      loses = what
    },
    /** Lets nobody judge. */
    judgeByNobody() {
      judge = ''
    },
    /** Loses everything that is in Redis. */
    async lose() {
      const admin = await openAdmin(engine)
      await admin.remove(`${prefix}{a/email/test}`)
      admin.close()
    },
    /** Returns how many calls the use on record has, and how many it has ahead. */
    recorded: () => ({
      calls: recorded?.calls.reduce((sum, [, count]) => sum + count, 0) ?? 0,
      ahead: recorded?.ahead ?? 0,
    }),
    /** Returns how many questions a process has asked. */
    questionsOf: (state: AccountState) => questions.get(state) ?? 0,
    /** Lets a process join; with other windows than those of the others where it has another configuration. */
    join(own: Pick<AccountTerms, 'windows'> & Partial<Pick<AccountPolicy, 'marginMs'>> = { windows }) {
      const slots = createRedisAccountSlots({ redis })
      const member = `m${joined}`
      joined += 1
      const accounts = createFleetAccounts({
        slots: {
          ask(question) {
            if (dead.has(state)) return new Promise(() => {})
            questions.set(state, (questions.get(state) ?? 0) + 1)
            const lost = question.results === undefined ? undefined : loses
            const answer =
              lost === undefined
                ? slots.ask(question)
                : (lost === 'answer' ? slots.ask(question) : Promise.resolve()).then(() => {
                    throw new LostByTest(`the ${lost} was lost`)
                  })
            asking.add(answer)
            answer.catch(() => {}).finally(() => asking.delete(answer))
            return answer
          },
        },
        clock,
        member,
        callMs: 2_000,
        isJudge: () => member === judge,
        readUse: async () => new Map(recorded === undefined ? [] : [['a', recorded]]),
        onError: (error) => (error instanceof LostByTest ? undefined : console.error(error)),
      })
      const state: AccountState = accounts.ofPool('email/test')(
        {
          account: { id: 'a', options: {} },
          windows: own.windows,
          rate: own.windows.map(({ text }) => text).join(', '),
          concurrencyMax,
        },
        {
          marginMs: own.marginMs ?? 0,
          breaker: { ...defaultBreakerPolicy, ...breaker, of: 1_000 },
          adaptive,
          keep,
        },
      )
      opened.set(state, accounts)
      members.set(state, member)
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
