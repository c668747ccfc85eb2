/**
 * Notes under which ids and addresses providers were given notifications, so that feedback that names only those is
 * correlated. It listens at the providers' answers and writes in batches beside the commits: a kill loses what was
 * sent in the last 50 ms, and that is then found by its notification id alone. What the store refuses while it is away
 * waits here until it is back: STOP names nothing but the address.
 */
import { concernsAll } from '../errors.ts'
import { addressField, type Channel } from '../model.ts'
import type { FeedbackRecord, SentRecord } from '../ports/feedback.ts'
import type { Account, Clock, Message, Provider, SendResult } from '../ports.ts'
import type { SentKeys } from './sent-keys.ts'

export interface SentIndexOptions {
  readonly record: Pick<FeedbackRecord, 'keepSent'>
  readonly keys: SentKeys
  /** True for an account whose inbound messages name a recipient by the address alone. */
  readonly findsByAddress: (channel: Channel, account: Account) => boolean
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly onError: (what: string, error: unknown) => void
}

export interface SentIndex {
  /** The provider, whose sent messages are noted. */
  watched(provider: Provider): Provider
  /** Writes what is not written yet. */
  close(): Promise<void>
}

/** Records wait this long for others of their batch, ms. */
const waitMs = 50
/** Delay until a batch is written again that the store has refused, ms. */
const againMs = 1_000
/** Records of one batch at most. */
const batchMax = 500
/** Records that wait at most: further ones are left out while the store does not answer. */
const waitingMax = 20_000

export function createSentIndex(options: SentIndexOptions): SentIndex {
  const { record, keys, findsByAddress, clock, onError } = options
  let waiting: SentRecord[] = []
  let writing: Promise<void> | undefined
  let disarm: (() => void) | undefined
  /** True between a refusal of the store and the next try. */
  let isResting = false
  let isClosed = false

  function note(message: Message, account: Account, result: SendResult): void {
    if (result.outcome !== 'delivered') return
    const { tenant, id: notificationId, channel, to } = message
    const add = (key: string): void => {
      if (waiting.length < waitingMax) waiting.push({ key, tenant, notificationId, sentAt: clock.now() })
    }
    if (result.providerMessageId !== undefined) add(keys.ofMessage(result.providerMessageId))
    const address = to[addressField[channel]]
    if (address !== undefined && findsByAddress(channel, account))
      add(keys.ofAddress(channel, account.id, address))
    if (waiting.length >= batchMax && !isResting) flush()
    else if (waiting.length > 0) disarm ??= clock.at(clock.now() + waitMs, flush)
  }

  function flush(): void {
    disarm?.()
    disarm = undefined
    isResting = false
    writing ??= write().finally(() => {
      writing = undefined
    })
  }

  async function write(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, batchMax)
      waiting = waiting.slice(batchMax)
      try {
        await record.keepSent(batch)
      } catch (error) {
        onError('note the ids of sent messages', error)
        if (!concernsAll(error)) continue
        waiting = [...batch, ...waiting]
        if (!isClosed) rest()
        return
      }
    }
  }

  function rest(): void {
    isResting = true
    disarm?.()
    disarm = clock.at(clock.now() + againMs, flush)
  }

  return {
    watched: (provider) => ({
      ...provider,
      async send(message, account, signal, onWritten) {
        const result = await provider.send(message, account, signal, onWritten)
        note(message, account, result)
        return result
      },
    }),
    async close() {
      isClosed = true
      flush()
      await writing
    },
  }
}
