/**
 * Alerts to Apple's devices over APNs: HTTP/2, a token for the team, one request a device. APNs throttles by taking
 * longer and says nothing; the account's concurrency answers that, and the connections follow it (`resize`). Sources:
 * https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns,
 * https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
 */
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import type { HttpAnswer } from '../transport/http-call.ts'
import {
  type Composed,
  createHttpProvider,
  failed,
  type HttpProviderOptions,
  jsonOf,
  rateLimited,
  recipientBusy,
  rejected,
  type Transport,
  textOption,
  urlBelow,
} from '../transport/http-provider.ts'
import { createHttp2Caller, type Http2Caller, type Http2CallerOptions } from '../transport/http2-call.ts'
import { expiryOf, fit, shownOf, uuidOf } from '../transport/push-payload.ts'
import { createApnsTokens } from './apns-token.ts'

export interface ApnsOptions extends HttpProviderOptions {
  readonly clock: Pick<Clock, 'now'>
  /** Options of the HTTP/2 connections; set by tests. */
  readonly connections?: Partial<Omit<Http2CallerOptions, 'origin' | 'deadlineMs'>>
}

const usualUrl = 'https://api.push.apple.com'
/** Longest device token that is tried, characters. Apple's tokens are shorter, and their length may change. */
const deviceToken = /^(?:[0-9a-fA-F]{2}){16,100}$/
const payloadBytesMax = 4_096
const collapseBytesMax = 64

/**
 * Reasons that say that the device, or its token, is of no use any more. BadDeviceToken and DeviceTokenNotForTopic
 * are left out: the server of the other environment, and an account with another app's topic, answer the same for a
 * good token.
 */
const deadDevice: ReadonlySet<string> = new Set(['ExpiredToken', 'MissingDeviceToken', 'Unregistered'])
/** Reasons that every message of the account would meet: its topic, its key or its environment is wrong. */
const accountFaults: ReadonlySet<string> = new Set([
  'BadTopic',
  'MissingTopic',
  'TopicDisallowed',
  'BadPath',
  'MethodNotAllowed',
  'IdleTimeout',
])

export function createApnsProvider({ clock, connections, ...options }: ApnsOptions): Provider {
  const { deadlineMs = 10_000, egress } = options
  const tokens = createApnsTokens(clock)
  const callers = new Map<string, Http2Caller>()

  function callerOf(account: Account): Http2Caller {
    const { origin } = new URL(account.url ?? usualUrl)
    const key = `${origin} ${account.id}`
    let caller = callers.get(key)
    if (caller === undefined) {
      caller = createHttp2Caller({ ...connections, origin, deadlineMs, egress })
      callers.set(key, caller)
    }
    return caller
  }

  const transport: Transport = {
    call: (call, account) => callerOf(account).call(call),
    close() {
      for (const caller of callers.values()) caller.close()
    },
  }

  async function compose(message: Message, account: Account): Promise<Composed | SendResult> {
    const device = message.to.pushToken ?? ''
    if (!deviceToken.test(device))
      return { outcome: 'rejected', invalidAddress: true, detail: 'the device token is not hexadecimal' }
    const payload = fit(message.data, payloadBytesMax, (data) => payloadOf(message, data))
    if (!payload.fits) {
      const detail = `the payload has ${payload.bytes} of ${payloadBytesMax} bytes`
      return { outcome: 'rejected', invalidAddress: false, detail }
    }
    return {
      url: urlBelow(account.url ?? usualUrl, `/3/device/${device}`),
      headers: {
        authorization: `bearer ${await tokens.of(account)}`,
        'content-type': 'application/json',
        'apns-id': uuidOf(message.id),
        'apns-topic': textOption(account, 'topic') ?? '',
        'apns-push-type': 'alert',
        'apns-priority': message.priority === 'low' ? '5' : '10',
        'apns-expiration': String(Math.floor(expiryOf(message, account.options.ttlMs, clock.now()) / 1_000)),
        // A retry that arrives besides the first attempt takes its place on the screen.
        ...(Buffer.byteLength(message.id) <= collapseBytesMax ? { 'apns-collapse-id': message.id } : {}),
      },
      body: payload.json,
    }
  }

  const provider = createHttpProvider(
    {
      name: 'apns',
      channels: ['push'],
      idempotent: false,
      compose,
      judge,
      again: (answer, account, { headers }) =>
        isTokenRefused(answer) && tokens.refused(account, (headers.authorization ?? '').slice(7)),
      async check(account) {
        if (textOption(account, 'topic') === undefined) throw new Error('a topic is expected')
        await tokens.of(account)
        callerOf(account).open()
      },
      transport,
    },
    options,
  )
  return {
    ...provider,
    resize: (account, concurrency) => callerOf(account).resize(concurrency),
  }
}

function payloadOf(message: Message, data: Message['data']): unknown {
  const { title, body } = shownOf(message)
  return {
    aps: {
      alert: { ...(title === undefined ? {} : { title }), ...(body === undefined ? {} : { body }) },
      ...(message.priority === 'low' ? {} : { sound: 'default' }),
    },
    notificationId: message.id,
    ...(data === undefined ? {} : { data }),
  }
}

function reasonOf(answer: HttpAnswer): string {
  return jsonOf<{ reason: string }>(answer).reason ?? ''
}

/** Reads the instant at which Apple last found the token to be of no use, epoch ms. */
function sinceOf(answer: HttpAnswer): { readonly invalidSince?: number } {
  const { timestamp } = jsonOf<{ timestamp: number }>(answer)
  return typeof timestamp === 'number' && timestamp > 0 ? { invalidSince: timestamp } : {}
}

function isTokenRefused(answer: HttpAnswer): boolean {
  return answer.status === 403 && /^(Expired|Invalid)ProviderToken$/.test(reasonOf(answer))
}

function judge(answer: HttpAnswer): SendResult {
  const { status, headers } = answer
  if (status === 200) {
    // Only Apple's development servers tell the id under which their console lists the notification.
    const id = headers['apns-unique-id'] ?? headers['apns-id']
    return { outcome: 'delivered', ...(typeof id === 'string' ? { providerMessageId: id } : {}) }
  }
  const reason = reasonOf(answer)
  if (status === 429) {
    return reason === 'TooManyRequests' ? recipientBusy(answer) : rateLimited(answer)
  }
  if (status === 410 || deadDevice.has(reason)) return { ...rejected(answer, true), ...sinceOf(answer) }
  if (status === 403 || status === 404 || status === 405 || status >= 500 || accountFaults.has(reason))
    return failed(answer)
  return rejected(answer)
}
