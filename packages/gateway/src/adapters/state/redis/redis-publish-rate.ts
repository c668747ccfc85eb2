/**
 * The rate of a tenant's published WebSocket messages over all processes, by the windows of `@sluice/limits` in Redis. A
 * count that Redis has lost is filled with what each process still knows of its own messages.
 */
import type { Limit, RestoredEntry } from '@sluice/limits'
import type { Peers } from '../../../ports/fleet.ts'
import type { Clock } from '../../../ports.ts'
import { createLimitCalls } from './limit-calls.ts'
import { unavailable } from './redis-answers.ts'
import type { RedisState } from './redis-state.ts'

export interface RedisPublishRateOptions {
  readonly redis: RedisState
  readonly peers: Pick<Peers, 'ask' | 'answer'>
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  /** The name of this process, as no other process has it. */
  readonly member: string
  /** Each window is kept this much longer, ms. */
  readonly marginMs: number
  /** The messages of this process that the windows of a tenant still count. */
  readonly counted: (tenant: string) => readonly RestoredEntry[]
  readonly onError: (what: string, error: unknown) => void
}

interface TakenMessages {
  readonly taken: number
  readonly waitMs: number
}

/** Takes as many of the messages as the windows admit; one question of a tenant at a time. Rejects with STATE_UNAVAILABLE. */
export type PublishRate = (tenant: string, rules: readonly Limit[], count: number) => Promise<TakenMessages>

const topic = 'counted'

export function createRedisPublishRate(options: RedisPublishRateOptions): PublishRate {
  const { redis, peers, clock, member, marginMs, counted, onError } = options

  /** Questions under way: they may have been granted. At most one of each tenant. */
  const underWay = new Map<string, Pick<RestoredEntry, 'id' | 'streams' | 'weight'>>()
  let serial = 0

  const ownOf = (tenant: string): readonly RestoredEntry[] =>
    counted(tenant).map((entry) => ({ ...entry, id: `${member}:${entry.id}` }))

  peers.answer(topic, (name) => {
    const tenant = name as string
    const asked = underWay.get(tenant)
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
      if (silent.length > 0) throw unavailable(`the rate of ${tenant}`, 'a process does not answer')
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
    const subject = { key: `websocket:${Buffer.from(tenant).toString('base64url')}`, tenant }
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
    const whole = await ask(count)
    if (whole.allowed) return { taken: count, waitMs: 0 }
    const left = Math.min(...whole.rules.map(({ remaining }) => remaining))
    // Other processes may have taken meanwhile what was left.
    const part = left > 0 ? await ask(left) : whole
    const freesAt = Math.max(...part.rules.map((row) => row.freesAt))
    return { taken: part !== whole && part.allowed ? left : 0, waitMs: Math.max(1, freesAt - clock.now()) }
  }
}
