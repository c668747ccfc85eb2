/** Gets what messages of Amazon SNS refer to: certificates, and the confirmation of a subscription. */
import { SluiceError } from '../../errors.ts'
import type { Egress } from '../transport/egress.ts'
import { createGuardedLookup } from '../transport/guarded-lookup.ts'
import { createHttpCaller } from '../transport/http-call.ts'

/** A provider's webhook waits this long for its answer, ms: SNS gives up after 15 s. */
const deadlineMs = 8_000
const idleMs = 30_000

export interface SnsClient {
  /**
   * Gets a text.
   * @throws SluiceError STORE_UNAVAILABLE where there is no answer of 200, so that SNS calls again
   */
  get(url: string): Promise<string>
  close(): void
}

export interface SnsClientOptions {
  /** False refuses names that lead to a private network. */
  readonly allowPrivate: boolean
  /** Proxy and authorities. */
  readonly egress: Egress
}

export function createSnsClient({ allowPrivate, egress }: SnsClientOptions): SnsClient {
  const caller = createHttpCaller({
    deadlineMs,
    idleMax: 1,
    idleMs,
    ...(allowPrivate ? {} : { lookup: createGuardedLookup() }),
    egress,
  })
  return {
    async get(url) {
      const signal = AbortSignal.timeout(deadlineMs)
      const answer = await caller.call({ url: new URL(url), method: 'GET', headers: {}, body: '', signal })
      if (answer.answered && answer.status === 200) return answer.text
      const why = answer.answered ? `it answered ${answer.status}` : (answer.error?.message ?? 'no answer')
      throw new SluiceError('STORE_UNAVAILABLE', `${new URL(url).hostname} cannot be asked: ${why}.`, {
        retryAfterMs: 30_000,
      })
    },
    close: () => caller.close(),
  }
}
