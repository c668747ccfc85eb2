/**
 * What all providers with an HTTP API have in common: a message becomes one request, its answer a result, and the
 * rest (deadlines, connections that are kept, answers that never come) is the same for all. A provider's own file
 * says how its requests look and what its answers mean.
 */
import { SluiceError } from '../../errors.ts'
import type { Channel } from '../../model.ts'
import type { Account, Message, Provider, SendResult } from '../../ports.ts'
import type { Egress } from './egress.ts'
import { PrivateAddressError } from './guarded-lookup.ts'
import {
  createHttpCaller,
  detailOf,
  failureOf,
  type HttpAnswer,
  type HttpCall,
  type NoAnswer,
} from './http-call.ts'

export interface HttpProviderOptions {
  /** From the call to the end of the answer, ms. @defaultValue 10_000 */
  readonly deadlineMs?: number
  /** @defaultValue straight, trusting whom the machine trusts */
  readonly egress?: Egress | undefined
}

export interface Composed {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  /** The recipient's own endpoint (an origin) that is called: what it is asked too much, and its failures, are its own. */
  readonly endpoint?: string
  /** Nobody knows who answers there: a refusal of the credentials says nothing about the account either. */
  readonly stranger?: boolean
}

/** What carries the calls. */
export interface Transport {
  call(call: HttpCall, account: Account): Promise<HttpAnswer | NoAnswer>
  close(): void
}

export interface HttpProviderDefinition {
  readonly name: string
  readonly channels: readonly Channel[]
  /** Whether the provider drops a repetition with the same notification id. */
  readonly idempotent: boolean
  /** The request, or why there is none. What it throws is the account's failure. */
  compose(message: Message, account: Account): Composed | SendResult | Promise<Composed | SendResult>
  judge(answer: HttpAnswer, account: Account): SendResult
  /**
   * Whether a refusal was for a credential that had run out and has a successor: then the call is composed and made
   * once more.
   */
  again?(answer: HttpAnswer, account: Account, composed: Composed): boolean
  /** Throws what keeps the account from ever working. */
  check?(account: Account): void | Promise<void>
  /** @defaultValue HTTP/1.1 over connections that are kept */
  readonly transport?: Transport
}

const idle = { idleMax: 1_024, idleMs: 55_000 } as const

export function createHttpProvider(
  definition: HttpProviderDefinition,
  { deadlineMs = 10_000, egress }: HttpProviderOptions = {},
): Provider {
  const { name, channels, idempotent } = definition
  const transport = definition.transport ?? createHttpCaller({ deadlineMs, egress, ...idle })
  let closed = false

  async function carry(
    message: Message,
    account: Account,
    way: Pick<HttpCall, 'signal' | 'onWritten'>,
    isFirst: boolean,
  ): Promise<SendResult> {
    const composed = await heeding(way.signal, definition.compose(message, account))
    if ('outcome' in composed) return composed
    const answer = await transport.call({ ...composed, ...way }, account)
    if (!answer.answered) {
      // What left and was never answered may have been carried out.
      const failure = failureOf(answer)
      if (answer.error instanceof PrivateAddressError)
        return { outcome: 'rejected', invalidAddress: true, detail: answer.error.message }
      const at = endpointIn(composed)
      if (answer.sent && composed.stranger !== true)
        return { outcome: 'unknown', detail: failure.detail, ...at }
      return { ...failure, retry: 'outage', ...at }
    }
    const heard = withoutCredential(answer, composed)
    if (isFirst && definition.again?.(heard, account, composed) === true)
      return carry(message, account, way, false)
    const result = definition.judge(heard, account)
    return blamedOn(composed, heard, result)
  }

  return {
    name,
    idempotent,
    channels,
    tellsWritten: true,
    async send(message, account, signal, onWritten) {
      if (closed) return { outcome: 'failed', detail: 'the provider is closed' }
      if (signal.aborted) return { outcome: 'failed', detail: 'no time left' }
      try {
        return await carry(message, account, { signal, onWritten }, true)
      } catch (error) {
        return { outcome: 'failed', detail: (error as Error).message }
      }
    },
    async warm(account) {
      try {
        await definition.check?.(account)
      } catch (error) {
        throw new SluiceError('INVALID_CONFIG', `${name} account ${account.id}: ${(error as Error).message}`)
      }
    },
    async close() {
      closed = true
      transport.close()
    },
  }
}

/** What a call still needs (a token) must not hold it up beyond its end. */
async function heeding<T>(signal: AbortSignal, value: T | Promise<T>): Promise<T> {
  if (!(value instanceof Promise)) return value
  return new Promise((resolve, reject) => {
    const end = (): void => reject(new Error('no time left'))
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    value.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
  })
}

/** A refusal of the credentials is the account's; all else that goes wrong at an endpoint is the endpoint's. */
function blamedOn(composed: Composed, { status }: HttpAnswer, result: SendResult): SendResult {
  if (result.outcome !== 'failed' && result.outcome !== 'rate_limited') return result
  const isRefusal = result.outcome === 'failed' && (status === 401 || status === 403)
  return isRefusal && composed.stranger !== true ? result : { ...result, ...endpointIn(composed) }
}

function endpointIn({ endpoint }: Composed): { readonly endpoint?: string } {
  return endpoint === undefined ? {} : { endpoint }
}

/** Some servers repeat what they were asked; a token that was made for the call is known here alone. */
function withoutCredential(answer: HttpAnswer, { headers }: Composed): HttpAnswer {
  const credentials = headers.authorization?.split(/[ ,]+/).slice(1) ?? []
  const repeated = credentials
    .map((each) => each.replace(/^[a-z]=/, ''))
    .filter((each) => answer.text.includes(each))
  if (repeated.length === 0) return answer
  return { ...answer, text: repeated.reduce((text, each) => text.replaceAll(each, '(secret)'), answer.text) }
}

/** An address below the account's: what its url has for a path is kept, as a gateway in front of the service needs it. */
export function urlBelow(base: string, path: string): URL {
  const url = new URL(base)
  url.pathname = url.pathname.replace(/\/$/, '') + path
  return url
}

/** The body as a JSON object of whatever form; empty where it is none. */
export function jsonOf<Form extends object>({ text }: HttpAnswer): Partial<Form> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Partial<Form>) : {}
  } catch {
    return {}
  }
}

export function rateLimited(answer: HttpAnswer, retryAfter = answer.headers['retry-after']): SendResult {
  return {
    outcome: 'rate_limited',
    ...(retryAfter === undefined ? {} : { retryAfter }),
    detail: detailOf(answer),
  }
}

export function rejected(answer: HttpAnswer, invalidAddress = false): SendResult {
  return { outcome: 'rejected', invalidAddress, detail: detailOf(answer) }
}

/** The account's failure. A service that is in trouble may be so for hours. */
export function failed(answer: HttpAnswer): SendResult {
  return {
    outcome: 'failed',
    detail: detailOf(answer),
    ...(answer.status >= 500 ? { retry: 'outage' as const } : {}),
  }
}

/** Too much for one recipient at the moment; says nothing about the account. */
export function recipientBusy(answer: HttpAnswer): SendResult {
  return { outcome: 'failed', detail: detailOf(answer), recipientFault: true }
}

/** This account cannot carry it to this recipient, which says nothing about either of them: another account may. */
export function pairFailed(answer: HttpAnswer): SendResult {
  return { outcome: 'failed', detail: detailOf(answer), pair: true }
}

/** It may or may not have been carried out. */
export function unknown(answer: HttpAnswer): SendResult {
  return { outcome: 'unknown', detail: detailOf(answer) }
}

/** An option of an account that has been checked to be a text. */
export function textOption(account: Account, name: string): string | undefined {
  const value = account.options[name]
  return typeof value === 'string' ? value : undefined
}
