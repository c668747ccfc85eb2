/** Classifies single answers of a service over a real socket: the answer is given to the letter. */
import type { Account, Message, Provider, SendResult } from '../../src/ports.ts'
import { createHttpSink, type HttpRule } from '../sinks/http.ts'

export interface Answers {
  /** Sends to a service that answers so. */
  to(answer: HttpRule): Promise<SendResult>
  /** The bodies that it was sent. */
  bodies(): readonly string[]
  close(): Promise<void>
}

export async function openAnswers(
  provider: Provider,
  account: (url: string) => Account,
  message: () => Message,
): Promise<Answers> {
  const sink = await createHttpSink()
  return {
    to(answer) {
      sink.rules = [answer]
      return provider.send(message(), account(sink.url), AbortSignal.timeout(10_000))
    },
    bodies: () => sink.requests.map(({ body }) => body),
    async close() {
      await provider.close()
      await sink.close()
    },
  }
}

/** Names the party at fault in a word. */
export function blameOf(result: SendResult): string {
  if (result.outcome === 'rejected') return result.invalidAddress ? 'address' : 'message'
  if (result.outcome === 'failed') return result.recipientFault === true ? 'recipient' : 'account'
  return result.outcome
}
