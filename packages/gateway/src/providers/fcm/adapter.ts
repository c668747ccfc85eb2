/**
 * Messages to apps on Android, Apple's devices and the web over Firebase Cloud Messaging, HTTP v1: one message a
 * request, because the batch endpoint was shut down on 21 June 2024. Sources:
 * https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send,
 * https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode,
 * https://firebase.google.com/support/faq#deprecated-api-shutdown
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
  urlBelow,
} from '../transport/http-provider.ts'
import { expiryOf, fit, shownOf } from '../transport/push-payload.ts'
import { createGoogleTokens, type ServiceAccount } from './google-token.ts'

export interface FcmOptions extends HttpProviderOptions {
  readonly clock: Pick<Clock, 'now'>
}

interface Refusal {
  readonly error: {
    readonly status?: string
    readonly message?: string
    readonly details?: readonly Detail[]
  }
}

/** One detail of an error: FcmError, google.rpc.BadRequest or google.rpc.QuotaFailure. */
interface Detail {
  readonly errorCode?: string
  readonly fieldViolations?: readonly { readonly field?: string }[]
  readonly violations?: readonly { readonly subject?: string; readonly description?: string }[]
}

const usualUrl = 'https://fcm.googleapis.com'
const usualTokenUri = 'https://oauth2.googleapis.com/token'
const scope = 'https://www.googleapis.com/auth/firebase.messaging'
const payloadBytesMax = 4_096
/** Longest time that FCM keeps a message, s: 28 days. */
const ttlSecondsMax = 2_419_200
/** Characters of a registration token. The token goes into a body, so this check only saves a call. */
const registrationToken = /^[A-Za-z0-9_:=.-]{1,4096}$/

export function createFcmProvider({ clock, ...options }: FcmOptions): Provider {
  const { deadlineMs = 10_000, egress } = options
  const tokens = createGoogleTokens({ clock, scope, deadlineMs, egress })
  const read = new WeakMap<Account, ServiceAccount>()

  function serviceOf(account: Account): ServiceAccount {
    let service = read.get(account)
    if (service === undefined) {
      service = parseServiceAccount(account)
      read.set(account, service)
    }
    return service
  }

  function compose(message: Message, account: Account): Composed | SendResult | Promise<Composed> {
    const device = message.to.pushToken ?? ''
    if (!registrationToken.test(device))
      return { outcome: 'rejected', invalidAddress: true, detail: 'this is no registration token' }
    const payload = fit(message.data, payloadBytesMax, (data) => payloadOf(message, data))
    if (!payload.fits) {
      const detail = `the payload has ${payload.bytes} of ${payloadBytesMax} bytes`
      return { outcome: 'rejected', invalidAddress: false, detail }
    }
    const service = serviceOf(account)
    const body = JSON.stringify({
      message: {
        token: device,
        ...(JSON.parse(payload.json) as object),
        ...platforms(message, account, clock.now()),
      },
    })
    const url = urlBelow(account.url ?? usualUrl, `/v1/projects/${service.project_id}/messages:send`)
    const compose = (token: string): Composed => ({
      url,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body,
    })
    const token = tokens.of(service)
    return typeof token === 'string' ? compose(token) : token.then(compose)
  }

  const provider = createHttpProvider(
    {
      name: 'fcm',
      channels: ['push'],
      idempotent: false,
      compose,
      judge,
      again: (answer, account, { headers }) =>
        codeOf(answer) === 'UNAUTHENTICATED' &&
        tokens.refused(serviceOf(account), (headers.authorization ?? '').slice(7)),
      check: (account) => void serviceOf(account),
    },
    options,
  )
  return {
    ...provider,
    async close() {
      tokens.close()
      await provider.close()
    },
  }
}

function parseServiceAccount({ secret }: Account): ServiceAccount {
  const expected = 'the JSON of a service account (secret) is expected'
  let value: Partial<ServiceAccount> | undefined
  try {
    value = JSON.parse(secret ?? '') as Partial<ServiceAccount>
  } catch {
    throw new Error(expected)
  }
  const { project_id, client_email, private_key, private_key_id, token_uri = usualTokenUri } = value ?? {}
  if (!isText(project_id) || !isText(client_email) || !isText(private_key))
    throw new Error(`${expected}, with project_id, client_email and private_key`)
  if (!/^[a-z0-9:.-]+$/i.test(project_id)) throw new Error('project_id is none')
  if (!private_key.startsWith('-----BEGIN PRIVATE KEY-----')) throw new Error('private_key is no key in PEM')
  if (!URL.canParse(token_uri)) throw new Error('token_uri is no URL')
  return {
    project_id,
    client_email,
    private_key,
    token_uri,
    ...(isText(private_key_id) ? { private_key_id } : {}),
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/**
 * Measures the bytes that count towards FCM's 4,096. Data is text by key there and many keys are reserved, so the
 * data is sent as one text.
 */
function payloadOf(message: Message, data: Message['data']): unknown {
  return {
    notification: shownOf(message),
    data: { notificationId: message.id, ...(data === undefined ? {} : { data: JSON.stringify(data) }) },
  }
}

/**
 * Writes priority and expiry in the words of each platform. A retry takes the place of the first attempt on the
 * screen.
 */
function platforms(message: Message, account: Account, now: number): object {
  const low = message.priority === 'low'
  const expiry = expiryOf(message, account.options.ttlMs, now)
  const ttl = Math.min(ttlSecondsMax, Math.max(0, Math.floor((expiry - now) / 1_000)))
  return {
    android: { priority: low ? 'NORMAL' : 'HIGH', ttl: `${ttl}s`, notification: { tag: message.id } },
    apns: {
      headers: {
        'apns-priority': low ? '5' : '10',
        'apns-expiration': String(Math.floor(expiry / 1_000)),
        'apns-collapse-id': message.id.slice(0, 64),
      },
      // Without a sound an alert arrives silently, and only one of low priority is meant to.
      ...(low ? {} : { payload: { aps: { sound: 'default' } } }),
    },
    webpush: { headers: { TTL: String(ttl), Urgency: low ? 'low' : 'high' } },
  }
}

/** Reads FCM's own error code where it names one, else Google's. */
function codeOf(answer: HttpAnswer): string {
  const { error } = jsonOf<Refusal>(answer)
  return detailsOf(answer).find(({ errorCode }) => errorCode !== undefined)?.errorCode ?? error?.status ?? ''
}

function detailsOf(answer: HttpAnswer): readonly Detail[] {
  const details = jsonOf<Refusal>(answer).error?.details
  return Array.isArray(details) ? details : []
}

function judge(answer: HttpAnswer): SendResult {
  const { status, headers } = answer
  if (status === 200) {
    const { name } = jsonOf<{ name: string }>(answer)
    return { outcome: 'delivered', ...(typeof name === 'string' ? { providerMessageId: name } : {}) }
  }
  switch (codeOf(answer)) {
    case 'UNREGISTERED':
    // The only requested resource is the token: FCM does not always add that it is unregistered. An HTML page names
    // no code.
    case 'NOT_FOUND':
      return rejected(answer, true)
    // This is a good token of another project: the account here may be the wrong one.
    case 'SENDER_ID_MISMATCH':
      return rejected(answer)
    case 'INVALID_ARGUMENT':
      return rejected(answer, isAboutToken(answer))
  }
  if (status === 429) return isAboutDevice(answer) ? recipientBusy(answer) : rateLimited(answer)
  // Google asks senders to keep the pause; without one the answer is an ordinary failure.
  if (status === 503 && headers['retry-after'] !== undefined) return rateLimited(answer)
  // A withdrawn key, a project that does not exist, or a project without credentials for Apple or the web.
  if (status === 401 || status === 403 || status === 404 || status >= 500) return failed(answer)
  return rejected(answer)
}

function isAboutToken(answer: HttpAnswer): boolean {
  const { message = '' } = jsonOf<Refusal>(answer).error ?? {}
  const fields = detailsOf(answer).flatMap(({ fieldViolations = [] }) => fieldViolations)
  return fields.some(({ field }) => field === 'message.token') || /registration token/i.test(message)
}

function isAboutDevice(answer: HttpAnswer): boolean {
  const violations = detailsOf(answer).flatMap(({ violations = [] }) => violations)
  return violations.some(({ subject = '', description = '' }) => /device/i.test(`${subject} ${description}`))
}
