/** A provider for every channel whose answers a test writes down: what the sandbox's odds cannot say exactly. */
import { channels } from '../../src/model.ts'
import type { Message, Provider, SendResult } from '../../src/ports.ts'

export interface Call {
  readonly message: Message
  readonly account: string
}

export interface Scripted {
  /** For the `parts` of a harness. It stands in the sandbox's place. */
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

/** `answer` is told which call of the provider it is, from 1. */
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
