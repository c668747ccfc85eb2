/**
 * Counts the settled calls of the last minute by channel and provider: it tells whether a trouble is the gateway's
 * own or a provider's. Memory: two counters a second for each pool.
 */
import type { TimelineEvent } from '../model.ts'

export interface CallCount {
  readonly channel: string
  readonly provider: string
  readonly calls: number
  /** Calls that were answered by an error or a 429, or not at all; a refused message is no trouble. */
  readonly troubled: number
}

const keptSeconds = 60

interface Counter {
  readonly channel: string
  readonly provider: string
  readonly calls: Uint32Array
  readonly troubled: Uint32Array
  readonly seconds: Float64Array
}

export function createProviderCalls(now: () => number) {
  const counters = new Map<string, Counter>()

  return {
    note(channel: string, { status, reason, provider, attempt }: TimelineEvent): void {
      if (provider === undefined || attempt === undefined || status === 'sending') return
      const key = `${channel}\n${provider}`
      let counter = counters.get(key)
      if (counter === undefined) {
        counter = {
          channel,
          provider,
          calls: new Uint32Array(keptSeconds),
          troubled: new Uint32Array(keptSeconds),
          seconds: new Float64Array(keptSeconds),
        }
        counters.set(key, counter)
      }
      const second = Math.floor(now() / 1_000)
      const slot = second % keptSeconds
      if (counter.seconds[slot] !== second) {
        counter.seconds[slot] = second
        counter.calls[slot] = 0
        counter.troubled[slot] = 0
      }
      counter.calls[slot]! += 1
      const isAnswered = status === 'delivered' || status === 'failed'
      if (!isAnswered || reason === 'retry' || reason === 'provider_capacity') counter.troubled[slot]! += 1
    },

    /** The counts of the last minute, the most troubled first. */
    read(): readonly CallCount[] {
      const from = Math.floor(now() / 1_000) - keptSeconds + 1
      return [...counters.values()]
        .map(({ channel, provider, calls, troubled, seconds }) => {
          const sum = (of: Uint32Array): number =>
            of.reduce((total, count, slot) => total + (seconds[slot]! >= from ? count : 0), 0)
          return { channel, provider, calls: sum(calls), troubled: sum(troubled) }
        })
        .filter(({ calls }) => calls > 0)
        .sort((a, b) => b.troubled - a.troubled)
    },
  }
}
