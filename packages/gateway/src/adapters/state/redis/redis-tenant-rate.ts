/**
 * A rate of each tenant over all processes, by the windows of `@sluice/limits` in Redis: of what its WebSocket clients
 * publish, or of its requests that send nothing. A count that Redis has lost is filled with what each process still knows
 * of its own.
 */
import type { Limit, RestoredEntry } from '@sluice/limits'
import type { Peers } from '../../../ports/fleet.ts'
import type { Clock } from '../../../ports.ts'
import { createLimitCalls } from './limit-calls.ts'
import { unavailable } from './redis-answers.ts'
import type { RedisState } from './redis-state.ts'

export interface RedisTenantRateOptions {
  /** The name of the units that are counted, as no other rate of tenants has it. */
  readonly name: 'websocket' | 'reads' | 'writes'
  readonly redis: RedisState
  readonly peers: Pick<Peers, 'ask' | 'answer'>
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  /** The name of this process, as no other process has it. */
  readonly member: string
  /** Each window is kept this much longer, ms. */
  readonly marginMs: number
  /** The units of this process that the windows of a tenant still count. */
  readonly counted: (tenant: string) => readonly RestoredEntry[]
  readonly onError: (what: string, error: unknown) => void
}

interface TakenUnits {
  readonly taken: number
  readonly waitMs: number
}

/** Takes as many of the units as the windows admit; one question of a tenant at a time. Rejects with STATE_UNAVAILABLE. */
export type TenantRate = (tenant: string, rules: readonly Limit[], count: number) => Promise<TakenUnits>

export function createRedisTenantRate(options: RedisTenantRateOptions): TenantRate {
  const { name, redis, peers, clock, member, marginMs, counted, onError } = options
  const topic = `counted:${name}`

  /** Questions under way: they may have been granted. At most one of each tenant. */
  const underWay = new Map<string, Pick<RestoredEntry, 'id' | 'streams' | 'weight'>>()
  let serial = 0

  const ownOf = (tenant: string): readonly RestoredEntry[] =>
    counted(tenant).map((entry) => ({ ...entry, id: `${member}:${entry.id}` }))

  peers.answer(topic, (question) => {
    const tenant = question as string
    // A request that is refused although there is room is worse than one too many after a loss; a message only waits.
    const asked = name === 'websocket' ? underWay.get(tenant) : undefined
    const at = Math.ceil(clock.now())
    return [...ownOf(tenant), ...(asked === undefined ? [] : [{ ...asked, at, fired: true }])]
  })

  const calls = createLimitCalls({
    redis,
    clock,
    member,
    marginMs,
    async recover({ tenant }) {
      const { answers, silent } = await peers.ask(topic, tenant)
      if (silent.length > 0) throw unavailable(`the rate of ${tenant} (${name})`, 'a process does not answer')
      const others = [...answers.values()] as readonly (readonly RestoredEntry[])[]
      return { entries: [ownOf(tenant), ...others].flat(), fingerprints: [], waitlist: [] }
    },
    // The rules stand in the configuration, which is the same for every process.
    rulesName: () => '',
    onOutdated: () => {},
    onError,
  })

  return async (tenant, rules, count) => {
    // Keys of recipients have a slash.
    const subject = { key: `${name}:${Buffer.from(tenant).toString('base64url')}`, tenant }
    const ask = async (weight: number) => {
      serial += 1
      const asked = { id: `${member}:asked:${serial}`, streams: rules.map(({ stream }) => stream), weight }
      underWay.set(tenant, asked)
      try {
        const { answer } = await calls.ask({ operation: 'take', subject, hasRules: true }, (limits) =>
          limits.take(subject.key, rules, { weight }),
        )
        if (answer === undefined) throw unavailable(subject.key, 'it did not decide')
        return answer
      } finally {
        // The caller counts what it was granted within this turn of the event loop.
        setImmediate(() => {
          if (underWay.get(tenant) === asked) underWay.delete(tenant)
        })
      }
    }
    let asked = count
    let answer = await ask(asked)
    while (!answer.allowed) {
      // A process whose clock is ahead has taken places that count from a later instant: they remain, and are not available.
      const left = Math.min(...answer.rules.map(({ available }) => available))
      if (left <= 0 || left >= asked) break
      // Other processes may take meanwhile what is left: it is asked for until somebody has it.
      asked = left
      answer = await ask(asked)
    }
    const taken = answer.allowed ? asked : 0
    if (taken === count) return { taken, waitMs: 0 }
    const freesAt = Math.max(...answer.rules.map((row) => row.freesAt))
    return { taken, waitMs: Math.max(1, freesAt - clock.now()) }
  }
}
