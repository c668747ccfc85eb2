/**
 * Messages to browsers over their push services (RFC 8030), encrypted for the browser (RFC 8291). The recipient's
 * `pushToken` is the browser's subscription, so the called address came with a request: it must be public. A push
 * service that fails or is rate limited is blocked by itself; refused credentials count for the account where the
 * host is a known push service.
 */
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import {
  createGuardedLookup,
  PrivateAddressError,
  refusePrivateLiteral,
} from '../transport/guarded-lookup.ts'
import { createHttpCaller, type HttpAnswer } from '../transport/http-call.ts'
import {
  type Composed,
  createHttpProvider,
  failed,
  type HttpProviderOptions,
  rateLimited,
  rejected,
} from '../transport/http-provider.ts'
import { expiryOf, fit, shownOf } from '../transport/push-payload.ts'
import { encrypt, plainBytesMax, type SubscriptionKeys } from './encryption.ts'
import { createVapid } from './vapid.ts'

export interface WebPushOptions extends HttpProviderOptions {
  readonly clock: Pick<Clock, 'now'>
  /** Allows an endpoint to lead into a private network, without TLS. @defaultValue false */
  readonly allowPrivate?: boolean
}

/** Most hosts with state: services are few, hosts in requests may be many. */
const idle = { idleMax: 64, idleMs: 15_000 } as const
const urgencies = { critical: 'high', high: 'high', normal: 'normal', low: 'low' } as const
/** Form of a topic (RFC 8030, 5.4). */
const topic = /^[A-Za-z0-9_-]{1,32}$/
/** Words of services for a subscription that was made for another key. */
const otherKey = /do not correspond to the credentials|VapidPkHashMismatch/i

export function createWebPushProvider(options: WebPushOptions): Provider {
  const { clock, allowPrivate = false, deadlineMs = 10_000, egress } = options
  const vapid = createVapid(clock)

  function compose(message: Message, account: Account): Composed | SendResult | Promise<Composed> {
    const subscription = parseSubscription(message.to.pushToken, allowPrivate)
    if (typeof subscription === 'string')
      return { outcome: 'rejected', invalidAddress: true, detail: subscription }
    const payload = fit(message.data, plainBytesMax, (data) => ({
      notificationId: message.id,
      ...shownOf(message),
      ...(data === undefined ? {} : { data }),
    }))
    if (!payload.fits) {
      const detail = `the payload has ${payload.bytes} of ${plainBytesMax} bytes`
      return { outcome: 'rejected', invalidAddress: false, detail }
    }
    const body = encrypted(payload.json, subscription.keys)
    if (body === undefined)
      return { outcome: 'rejected', invalidAddress: true, detail: 'the key of the subscription is none' }
    const { endpoint } = subscription
    const now = clock.now()
    const ttlMs = expiryOf(message, account.options.ttlMs, now) - now
    const compose = (authorization: string): Composed => ({
      url: endpoint,
      headers: {
        authorization,
        'content-type': 'application/octet-stream',
        'content-encoding': 'aes128gcm',
        ttl: String(Math.max(0, Math.floor(ttlMs / 1_000))),
        urgency: urgencies[message.priority ?? 'normal'],
        // While the first attempt waits at the service, a retry replaces it.
        ...(topic.test(message.id) ? { topic: message.id } : {}),
      },
      body,
      endpoint: endpoint.origin,
      untrusted: !isKnown(endpoint.hostname, account),
    })
    const header = vapid.headerFor(account, endpoint.origin)
    return typeof header === 'string' ? compose(header) : header.then(compose)
  }

  const provider = createHttpProvider(
    {
      name: 'webpush',
      channels: ['push'],
      idempotent: false,
      compose,
      judge,
      check: async (account) => void (await vapid.headerFor(account, 'https://push.example.com')),
      transport: createHttpCaller({
        deadlineMs,
        egress,
        ...idle,
        ...(allowPrivate ? {} : { lookup: createGuardedLookup() }),
      }),
    },
    options,
  )
  return {
    ...provider,
    endpointOf(to) {
      const subscription = parseSubscription(to.pushToken, allowPrivate)
      return typeof subscription === 'string' ? undefined : subscription.endpoint.origin
    },
  }
}

/** Parses a subscription, or tells the error. */
function parseSubscription(
  text: string | undefined,
  allowPrivate: boolean,
): { readonly endpoint: URL; readonly keys: SubscriptionKeys } | string {
  const expected = 'a subscription is expected: {endpoint, keys: {p256dh, auth}}'
  let value: { endpoint?: unknown; keys?: { p256dh?: unknown; auth?: unknown } } | null
  try {
    value = JSON.parse(text ?? '')
  } catch {
    return expected
  }
  const { endpoint, keys } = value ?? {}
  if (typeof endpoint !== 'string' || !URL.canParse(endpoint)) return expected
  const url = new URL(endpoint)
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:'))
    return 'the endpoint of the subscription is no https URL'
  const p256dh = Buffer.from(String(keys?.p256dh), 'base64url')
  const auth = Buffer.from(String(keys?.auth), 'base64url')
  if (p256dh.length !== 65 || auth.length !== 16) return expected
  if (!allowPrivate) {
    try {
      refusePrivateLiteral(url.hostname)
    } catch (error) {
      if (error instanceof PrivateAddressError) return error.message
      throw error
    }
  }
  return { endpoint: url, keys: { p256dh, auth } }
}

function encrypted(json: string, keys: SubscriptionKeys): Buffer | undefined {
  try {
    return encrypt(Buffer.from(json), keys)
  } catch {
    return undefined
  }
}

function isKnown(host: string, { options: { services } }: Account): boolean {
  if (!Array.isArray(services)) return false
  return services.some((name) => {
    const known = String(name)
    return known.startsWith('*.') ? host.endsWith(known.slice(1)) : host === known
  })
}

function judge(answer: HttpAnswer): SendResult {
  const { status, headers, text } = answer
  if (status >= 200 && status < 300) {
    const { location } = headers
    return {
      outcome: 'delivered',
      ...(location === undefined ? {} : { providerMessageId: location.slice(-200) }),
    }
  }
  if (status === 429) return rateLimited(answer)
  if (status === 404 || status === 410 || otherKey.test(text)) return rejected(answer, true)
  if (status === 401 || status === 403 || status >= 500) return failed(answer)
  return rejected(answer)
}
