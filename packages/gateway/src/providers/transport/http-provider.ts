/**
 * Base of all providers with an HTTP API: a message becomes one request, and its answer a result. Deadlines, kept
 * connections and answers that never come are handled here; a provider's own file composes its requests and reads its
 * answers.
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
  /** Time from the call to the end of the answer, ms. @defaultValue 10_000 */
  readonly deadlineMs?: number
  /** Proxy and authorities. @defaultValue direct, trusting the machine's authorities */
  readonly egress?: Egress | undefined
}

export interface Composed {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  /**
   * The recipient's own endpoint (an origin) that is called: its rate limits and its failures are its own, not the
   * account's.
   */
  readonly endpoint?: string
  /**
   * True when the endpoint is not a known service: even its refusal of the credentials says nothing about the
   * account.
   */
  readonly untrusted?: boolean
}

/** Makes the calls: over HTTP/1.1 or HTTP/2. */
export interface Transport {
  call(call: HttpCall, account: Account): Promise<HttpAnswer | NoAnswer>
  close(): void
}

export interface HttpProviderDefinition {
  readonly name: string
  readonly channels: readonly Channel[]
  /** True when the provider drops a repetition with the same notification id. */
  readonly idempotent: boolean
  /** Composes the request, or tells why there is none. An exception counts as the account's failure. */
  compose(message: Message, account: Account): Composed | SendResult | Promise<Composed | SendResult>
  judge(answer: HttpAnswer, account: Account): SendResult
  /**
   * True when a refusal was for an expired credential that has a successor: then the call is composed and made once
   * more.
   */
  again?(answer: HttpAnswer, account: Account, composed: Composed): boolean
  /** Throws an error that keeps the account from ever working. */
  check?(account: Account): void | Promise<void>
  /** Creates the client. @defaultValue HTTP/1.1 over kept connections */
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
      // A request that left and was never answered may have been carried out.
      const failure = failureOf(answer)
      if (answer.error instanceof PrivateAddressError)
        return { outcome: 'rejected', invalidAddress: true, detail: answer.error.message }
      const at = endpointIn(composed)
      if (answer.sent && composed.untrusted !== true)
        return { outcome: 'unknown', detail: failure.detail, ...at }
      return { ...failure, retry: 'outage', ...at }
    }
    const masked = withoutCredential(answer, composed)
    if (isFirst && definition.again?.(masked, account, composed) === true)
      return carry(message, account, way, false)
    const result = definition.judge(masked, account)
    return blamedOn(composed, masked, result)
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

/** Bounds the wait for a token that the call needs by the call's own deadline. */
async function heeding<T>(signal: AbortSignal, value: T | Promise<T>): Promise<T> {
  if (!(value instanceof Promise)) return value
  return new Promise((resolve, reject) => {
    const end = (): void => reject(new Error('no time left'))
    if (signal.aborted) end()
    signal.addEventListener('abort', end, { once: true })
    value.then(resolve, reject).finally(() => signal.removeEventListener('abort', end))
  })
}

/**
 * Decides whose fault a result is: refused credentials are the account's; any other failure at an endpoint is the
 * endpoint's.
 */
function blamedOn(composed: Composed, { status }: HttpAnswer, result: SendResult): SendResult {
  if (result.outcome !== 'failed' && result.outcome !== 'rate_limited') return result
  const isRefusal = result.outcome === 'failed' && (status === 401 || status === 403)
  return isRefusal && composed.untrusted !== true ? result : { ...result, ...endpointIn(composed) }
}

function endpointIn({ endpoint }: Composed): { readonly endpoint?: string } {
  return endpoint === undefined ? {} : { endpoint }
}

/**
 * Masks the credential in a detail: some servers repeat the request, and a token that was made for the call is known
 * here alone.
 */
function withoutCredential(answer: HttpAnswer, { headers }: Composed): HttpAnswer {
  const credentials = headers.authorization?.split(/[ ,]+/).slice(1) ?? []
  const repeated = credentials
    .map((each) => each.replace(/^[a-z]=/, ''))
    .filter((each) => answer.text.includes(each))
  if (repeated.length === 0) return answer
  return { ...answer, text: repeated.reduce((text, each) => text.replaceAll(each, '(secret)'), answer.text) }
}

/** Makes an address below the account's: the path of its url is kept, as a gateway in front of the service needs it. */
export function urlBelow(base: string, path: string): URL {
  const url = new URL(base)
  url.pathname = url.pathname.replace(/\/$/, '') + path
  return url
}

/** Parses the body as a JSON object of any form; empty where it is not one. */
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

/** The account's failure. An outage of the service may last for hours. */
export function failed(answer: HttpAnswer): SendResult {
  return {
    outcome: 'failed',
    detail: detailOf(answer),
    ...(answer.status >= 500 ? { retry: 'outage' as const } : {}),
  }
}

/** Too many messages for one recipient at the moment; says nothing about the account. */
export function recipientBusy(answer: HttpAnswer): SendResult {
  return { outcome: 'failed', detail: detailOf(answer), recipientFault: true }
}

/** This account cannot deliver to this recipient, which says nothing about either of them: another account may. */
export function pairFailed(answer: HttpAnswer): SendResult {
  return { outcome: 'failed', detail: detailOf(answer), pair: true }
}

/** It may or may not have been carried out. */
export function unknown(answer: HttpAnswer): SendResult {
  return { outcome: 'unknown', detail: detailOf(answer) }
}

/** Reads an option of an account that was checked to be a text. */
export function textOption(account: Account, name: string): string | undefined {
  const value = account.options[name]
  return typeof value === 'string' ? value : undefined
}
