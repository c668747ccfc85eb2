/**
 * A value of each tenant in Redis that is filled from the record where it is unknown. Who meets an unknown value first
 * is told to fill it: it takes the next generation of the value from the store, reads the record, and writes the value
 * under that generation, unless its claim was lost meanwhile. The claim is renewed while the record is read, which takes
 * seconds where very many wait; others ask again meanwhile. An acceptance bears the generation under which it was decided,
 * and the store refuses one from before: so no acceptance is missed that was on its way while the record was read. A
 * process whose claim was lost may take its generation after the one that fills the value; all that is decided under the
 * value is refused then, until a process that hears of it has the value filled again.
 */
import { randomBytes } from 'node:crypto'
import type { Clock } from '../../../ports.ts'
import { type ClaimRenewal, keepClaim } from './claim-renewal.ts'
import { isOverBy } from './is-over-by.ts'
import { type Reply, unavailable } from './redis-answers.ts'
import type { RedisState } from './redis-state.ts'
import type { Script } from './scripts.ts'

export interface TenantValueOptions {
  readonly redis: RedisState
  readonly clock: Pick<Clock, 'monotonic'>
  readonly script: Script
  /** The name of the value behind the tenant in the key. */
  readonly name: string
  /**
   * Takes the next generation and reads the record: the arguments of the operation `fill`, as JSON, in as many parts as
   * are asked one after the other. The value is unknown until the last one is answered.
   */
  readonly read: (tenant: string) => Promise<readonly string[]>
  readonly onError?: ((error: unknown) => void) | undefined
}

/** The answer of a script behind its `ok`. */
export interface TenantAnswer {
  readonly generation: number
  readonly rest: readonly Reply[]
}

export interface TenantValue {
  /** Runs an operation. Rejects with STATE_UNAVAILABLE within the deadline, or with the error of the record. */
  ask(tenant: string, operation: string, payload: string): Promise<TenantAnswer>
  /** Hears the newest generation on record. A value of an earlier one is unknown from now on. */
  expect(tenant: string, generation: number): void
}

/** Pauses before the next question while another process fills the value, ms. */
const pausesMs = [5, 10, 20] as const
/** A part of a fill may take longer than a question: it goes on when nobody waits for it. */
const fillDeadlineMs = 2_000
/** A claim lapses 2 s after it was renewed last (room-operations.lua, throttle-queue.lua). */
const renewal: ClaimRenewal = { everyMs: 500, timesMax: 60 }

export function createTenantValue(options: TenantValueOptions): TenantValue {
  const { redis, clock, script, name, read, onError } = options
  /** The newest fill of each tenant by this process. */
  const filling = new Map<string, Promise<void>>()
  /** The least generation that the record accepts, of tenants whose value has not been met in it since. */
  const least = new Map<string, number>()
  const ownToken = randomBytes(8).toString('hex')
  let questions = 0

  const keyOf = (tenant: string) => ({ subject: `T/${tenant}`, name: `:${name}` })

  /** Fills the value once, under a claim. A fill is never repeated: its record is read for the generation that it took. */
  function fill(tenant: string, claim: string): Promise<void> {
    const endRenewal = keepClaim(() => {
      redis.ask(script, keyOf(tenant), ['keep', '{}', claim]).catch(() => undefined)
    }, renewal)
    const under = (async () => {
      for (const part of await read(tenant)) {
        const reply = await redis.ask(script, keyOf(tenant), ['fill', part, claim], fillDeadlineMs)
        // The claim is lost, and all other parts with it: whoever waits asks again.
        if (String(reply) === 'late') return
      }
    })().finally(() => {
      endRenewal()
      if (filling.get(tenant) === under) filling.delete(tenant)
    })
    under.catch((error: unknown) => onError?.(error))
    filling.set(tenant, under)
    return under
  }

  /** Waits for the work, at most until the deadline. */
  async function until(endsAt: number, work: Promise<void>): Promise<void> {
    if (!(await isOverBy(clock, endsAt, work))) throw unavailable(name, 'it is being filled')
  }

  return {
    async ask(tenant, operation, payload) {
      const endsAt = clock.monotonic() + redis.deadlineMs
      for (let tries = 0; ; tries += 1) {
        questions += 1
        const claim = `${ownToken} ${questions}`
        const args = [operation, payload, claim, String(least.get(tenant) ?? 0)]
        const reply = await redis.ask(script, keyOf(tenant), args, endsAt - clock.monotonic())
        if (!Array.isArray(reply)) throw unavailable(name, `it answers ${String(reply)}`)
        const [kind, generation, ...rest] = reply as readonly Reply[]
        if (kind === 'ok') {
          if (Number(generation) >= (least.get(tenant) ?? 0)) least.delete(tenant)
          return { generation: Number(generation), rest }
        }
        // The generation stands where the script says whether this caller is to fill the value. A fill that is under way
        // then is of a claim that was lost.
        const own = generation === 1 ? fill(tenant, claim) : filling.get(tenant)
        if (own !== undefined) await until(endsAt, own)
        else {
          const pauseMs = pausesMs[Math.min(tries, pausesMs.length - 1)]!
          await until(endsAt, new Promise((resolve) => setTimeout(resolve, pauseMs)))
        }
      }
    },
    expect(tenant, generation) {
      if (generation > (least.get(tenant) ?? 0)) least.set(tenant, generation)
    },
  }
}
