/**
 * POSTs a notification as signed JSON to an address, over kept connections. The account's own url is the operator's
 * and is trusted; an account without one calls the recipient's `webhookUrl`, which came with a request and must lead
 * to the public internet. The result depends on the answer's status alone. A failure there is that endpoint's fault,
 * and no account's: the hook's where it answered or took the call, its origin's where no connection was made.
 */
import { SluiceError } from '../../errors.ts'
import { channels } from '../../model.ts'
import type { Account, Clock, Message, OnWritten, Provider, SendResult } from '../../ports.ts'
import type { Egress } from '../transport/egress.ts'
import {
  createGuardedLookup,
  PrivateAddressError,
  refusePrivateLiteral,
} from '../transport/guarded-lookup.ts'
import {
  createHttpCaller,
  detailOf,
  failureOf,
  type HttpAnswer,
  type HttpCaller,
} from '../transport/http-call.ts'
import { parseSecret, sign } from './signature.ts'

export interface WebhookOptions {
  /** Allows a recipient's `webhookUrl` to lead into a private network. @defaultValue false */
  readonly allowPrivate?: boolean
  /** Gives `webhook-timestamp`. @defaultValue the machine's clock */
  readonly clock?: Pick<Clock, 'now'>
  /** Time from the call to the end of the answer, ms. @defaultValue 10_000 */
  readonly deadlineMs?: number
  /** Bytes that are read of an answer; with more the connection is closed. @defaultValue 65_536 */
  readonly answerBytesMax?: number
  /** Proxy and authorities. @defaultValue direct, trusting the machine's authorities */
  readonly egress?: Egress | undefined
}

/**
 * Idle connections: how many to one host, and for how long, ms. A server that names no time of its own (`Keep-Alive:
 * timeout=…`) usually waits 60 s or more; addresses from requests may be thousands, each called rarely.
 */
const idleToOwn = { idleMax: 1024, idleMs: 55_000 } as const
const idleToOthers = { idleMax: 4, idleMs: 5_000 } as const

export function createWebhookProvider(options: WebhookOptions = {}): Provider {
  const { allowPrivate = false, deadlineMs = 10_000, answerBytesMax = 65_536, egress } = options
  const terms = { deadlineMs, answerBytesMax, egress }
  const clock = options.clock ?? { now: () => Date.now() }
  const lookup = createGuardedLookup()
  // Connections to the operator's own address are never used for one from a request.
  const trusted = createHttpCaller({ ...terms, ...idleToOwn })
  const guarded = createHttpCaller({ ...terms, ...idleToOthers, ...(allowPrivate ? {} : { lookup }) })
  const keys = new Map<string, Buffer>()
  let closed = false

  function keyOf(account: Account): Buffer | undefined {
    if (account.secret === undefined) return undefined
    let key = keys.get(account.secret)
    if (key === undefined) {
      key = parseSecret(account.secret)
      keys.set(account.secret, key)
    }
    return key
  }

  function headersOf(message: Message, account: Account, body: string): Record<string, string | number> {
    const timestamp = Math.floor(clock.now() / 1000)
    const key = keyOf(account)
    return {
      'content-type': 'application/json',
      'user-agent': 'Sluice',
      'webhook-id': message.id,
      'webhook-timestamp': timestamp,
      ...(key === undefined ? {} : { 'webhook-signature': sign(key, message.id, timestamp, body) }),
    }
  }

  async function call(
    url: URL,
    caller: HttpCaller,
    endpoint: string | undefined,
    message: Message,
    account: Account,
    signal: AbortSignal,
    onWritten: OnWritten | undefined,
  ): Promise<SendResult> {
    const body = JSON.stringify(bodyOf(message, account))
    const headers = headersOf(message, account, body)
    const answer = await caller.call({ url, headers, body, signal, onWritten, statusSuffices: true })
    if (answer.answered) return judge(answer, endpoint)
    if (answer.error instanceof PrivateAddressError) return refusal(answer.error)
    const blamed = endpoint === undefined || answer.sent ? endpoint : url.origin
    return { ...failureOf(answer), retry: 'outage', ...at(blamed) }
  }

  return {
    name: 'webhook',
    // A consumer that follows Standard Webhooks drops a repeated webhook-id; the gateway cannot know that this one
    // does.
    idempotent: false,
    tellsWritten: true,
    channels,
    endpointOf: ({ webhookUrl = '' }, { url }) =>
      url === undefined && URL.canParse(webhookUrl) ? nameOf(new URL(webhookUrl)) : undefined,
    async send(message, account, signal, onWritten) {
      if (closed) return { outcome: 'failed', detail: 'the provider is closed' }
      if (signal.aborted) return { outcome: 'failed', detail: 'no time left' }
      try {
        const url = parseUrl(account.url ?? message.to.webhookUrl)
        const own = account.url !== undefined
        if (!own && !allowPrivate) refusePrivateLiteral(url.hostname)
        const [caller, endpoint] = own ? [trusted, undefined] : [guarded, nameOf(url)]
        return await call(url, caller, endpoint, message, account, signal, onWritten)
      } catch (error) {
        if (error instanceof PrivateAddressError || error instanceof AddressError) return refusal(error)
        return { outcome: 'failed', detail: (error as Error).message }
      }
    },
    /**
     * Checks the account; opens no connection, because an address may be anyone's. Throws INVALID_CONFIG where the
     * account cannot work.
     */
    async warm(account) {
      keyOf(account)
      try {
        if (account.url !== undefined) parseUrl(account.url)
      } catch (error) {
        throw new SluiceError('INVALID_CONFIG', `webhook account ${account.id}: ${(error as Error).message}`)
      }
    },
    async close() {
      closed = true
      trusted.close()
      guarded.close()
    },
  }
}

/** Composes the body, in the contract's words. `recipient` is the id, as everywhere in Sluice's answers. */
function bodyOf(message: Message, account: Account): Record<string, unknown> {
  return {
    notificationId: message.id,
    tenant: message.tenant,
    recipient: message.to.id,
    channel: message.channel,
    category: message.category,
    content: message.content,
    data: message.data ?? {},
    attempt: message.attempt,
    ...(account.options.address === true ? { to: message.to } : {}),
  }
}

class AddressError extends Error {}

function parseUrl(text: string | undefined): URL {
  if (text === undefined) throw new AddressError('there is no address to call')
  if (!URL.canParse(text)) throw new AddressError('the address is no URL')
  const url = new URL(text)
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new AddressError('the address is neither http nor https')
  return url
}

function refusal(error: Error): SendResult {
  return { outcome: 'rejected', invalidAddress: true, detail: error.message }
}

/** Names a hook without its query, which may hold a secret or differ with each call. */
function nameOf({ protocol, origin, pathname }: URL): string | undefined {
  return protocol === 'http:' || protocol === 'https:' ? origin + pathname : undefined
}

/** Request Timeout, Locked, Too Early: the same request may succeed later (RFC 9110, 15.5.9; RFC 4918; RFC 8470). */
const notNow: ReadonlySet<number> = new Set([408, 423, 425])

/** @param endpoint the recipient's, where it is not the account's own */
function judge(answer: HttpAnswer, endpoint: string | undefined): SendResult {
  const { status, headers } = answer
  if (status >= 200 && status < 300) return { outcome: 'delivered', detail: String(status) }
  const detail = detailOf(answer)
  const retryAfter = headers['retry-after']
  const later = { detail, ...(retryAfter === undefined ? {} : { retryAfter }) }
  if (status === 429) return { outcome: 'rate_limited', ...later, ...at(endpoint) }
  if (status >= 500) return { outcome: 'failed', ...later, retry: 'outage', ...at(endpoint) }
  // The answer concerns this request alone, and neither the account nor all that go there.
  if (notNow.has(status)) return { outcome: 'failed', ...later, retry: 'outage', recipientFault: true }
  return { outcome: 'rejected', invalidAddress: status === 410, detail }
}

function at(endpoint: string | undefined): { readonly endpoint?: string } {
  return endpoint === undefined ? {} : { endpoint }
}
