/** A provider for every channel with scripted answers, for cases that the sandbox’s odds cannot express. */
import { channels } from '../../src/model.ts'
import type { Message, Provider, SendResult } from '../../src/ports.ts'

export interface Call {
  readonly message: Message
  readonly account: string
}

export interface Scripted {
  /** Goes into the `parts` of a harness in place of the sandbox. */
  readonly provider: Provider
  readonly calls: readonly Call[]
}

export const delivered: SendResult = { outcome: 'delivered' }
export const broken: SendResult = { outcome: 'failed', detail: '503 Service Unavailable' }
export const refused: SendResult = { outcome: 'rejected', invalidAddress: false, detail: '422 refused' }
export const throttled = (retryAfter: string): SendResult => ({
  outcome: 'rate_limited',
  retryAfter,
  detail: '429 Too Many Requests',
})

/** Creates the provider; `answer` gets the number of the call, from 1. */
export function createScripted(answer: (number: number, call: Call) => SendResult): Scripted {
  const calls: Call[] = []
  return {
    calls,
    provider: {
      name: 'sandbox',
      idempotent: false,
      channels,
      async send(message, account) {
        const call = { message, account: account.id }
        calls.push(call)
        return answer(calls.length, call)
      },
      close: () => Promise.resolve(),
    },
  }
}
