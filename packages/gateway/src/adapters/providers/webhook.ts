/**
 * POSTs a notification as JSON to an address, signed, over connections that are kept. The account's own url is the
 * operator's and is trusted; an account without one calls the recipient's `webhookUrl`, which came with a request
 * and must lead to the public internet. An answer is judged by its status alone.
 */
import http from 'node:http'
import https from 'node:https'
import type { Socket } from 'node:net'
import { SluiceError } from '../../errors.ts'
import { channels } from '../../model.ts'
import type { Account, Clock, Message, Provider, SendResult } from '../../ports.ts'
import { createGuardedLookup, PrivateAddressError, refusePrivateLiteral } from './guarded-lookup.ts'
import { parseSecret, sign } from './webhook-signature.ts'

export interface WebhookOptions {
  /** Whether a recipient's `webhookUrl` may lead into a private network. @defaultValue false */
  readonly allowPrivate?: boolean
  /** Gives `webhook-timestamp`. @defaultValue the machine's */
  readonly clock?: Pick<Clock, 'now'>
  /** From the call to the end of the answer, ms. @defaultValue 10_000 */
  readonly deadlineMs?: number
  /** Bytes of an answer that are read; with more the connection is given up. @defaultValue 65_536 */
  readonly answerBytesMax?: number
}

/** Of an answer, in a timeline. */
const detailMax = 200
/**
 * Idle connections: how many to one host, and for how long, ms. A server that names no time of its own
 * (`Keep-Alive: timeout=…`) usually waits 60 s or more; addresses from requests may be thousands, each called rarely.
 */
const idleToOwn = { maxFreeSockets: 1024, timeout: 55_000 } as const
const idleToOthers = { maxFreeSockets: 4, timeout: 5_000 } as const

interface Door {
  readonly http: http.Agent
  readonly https: https.Agent
}

export function createWebhookProvider(options: WebhookOptions = {}): Provider {
  const { allowPrivate = false, deadlineMs = 10_000, answerBytesMax = 65_536 } = options
  const clock = options.clock ?? { now: () => Date.now() }
  const lookup = createGuardedLookup()
  // Connections that were opened for the operator's own address are never used for one from a request.
  const trusted = openDoor(idleToOwn)
  const guarded = openDoor({ ...idleToOthers, ...(allowPrivate ? {} : { lookup }) })
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
      'content-length': Buffer.byteLength(body),
      'user-agent': 'Sluice',
      'webhook-id': message.id,
      'webhook-timestamp': timestamp,
      ...(key === undefined ? {} : { 'webhook-signature': sign(key, message.id, timestamp, body) }),
    }
  }

  function call(
    url: URL,
    door: Door,
    message: Message,
    account: Account,
    signal: AbortSignal,
    leaving: (() => void) | undefined,
  ): Promise<SendResult> {
    const body = JSON.stringify(bodyOf(message, account))
    const secure = url.protocol === 'https:'
    return new Promise((resolve) => {
      const request = (secure ? https : http).request(url, {
        method: 'POST',
        agent: secure ? door.https : door.http,
        headers: headersOf(message, account, body),
      })
      let heard = false
      let late = false
      const giveUp = (): void => {
        late = true
        request.destroy()
      }
      const timer = setTimeout(giveUp, deadlineMs)
      signal.addEventListener('abort', giveUp, { once: true })
      if (leaving !== undefined) request.on('socket', (socket) => onceOpen(socket, secure, leaving))
      request.on('response', (response) => {
        heard = true
        read(response, answerBytesMax, resolve)
      })
      request.on('error', (error) => {
        // Once there is a status, it is what counts: `read` resolves at the end of the answer, however that comes.
        if (!heard) resolve(failureOf(error, late, request.writableFinished))
      })
      request.on('close', () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', giveUp)
        if (!heard) resolve(failureOf(undefined, late, request.writableFinished))
      })
      request.end(body)
    })
  }

  return {
    name: 'webhook',
    // A consumer that keeps to Standard Webhooks drops a repeated webhook-id; nobody can know that this one does.
    idempotent: false,
    tellsLeaving: true,
    channels,
    async send(message, account, signal, leaving) {
      if (closed) return { outcome: 'failed', detail: 'the provider is closed' }
      if (signal.aborted) return { outcome: 'failed', detail: 'no time left' }
      try {
        const url = parseUrl(account.url ?? message.to.webhookUrl)
        const own = account.url !== undefined
        if (!own && !allowPrivate) refusePrivateLiteral(url.hostname)
        return await call(url, own ? trusted : guarded, message, account, signal, leaving)
      } catch (error) {
        if (error instanceof PrivateAddressError || error instanceof AddressError) return refusal(error)
        return { outcome: 'failed', detail: (error as Error).message }
      }
    },
    /** Opens nothing: an address may be anyone's. Throws INVALID_CONFIG where the account cannot work. */
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
      for (const agent of [trusted.http, trusted.https, guarded.http, guarded.https]) agent.destroy()
    },
  }
}

/**
 * Calls back just before the request is written: to a new connection when it is open, to a kept one in the next tick,
 * because Node corks the connection until then, and others' requests may stand between.
 */
function onceOpen(socket: Socket, secure: boolean, then: () => void): void {
  if (socket.connecting) socket.once(secure ? 'secureConnect' : 'connect', then)
  else process.nextTick(then)
}

function openDoor(more: https.AgentOptions): Door {
  const settings = {
    keepAlive: true,
    scheduling: 'lifo',
    ...more,
  } as const
  return { http: new http.Agent(settings), https: new https.Agent(settings) }
}

/** What is sent, in the contract's words. `recipient` is the id, as everywhere in Sluice's answers. */
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

/** Reads an answer to its bounded end, so that its connection can be used again. */
function read(response: http.IncomingMessage, bytesMax: number, settle: (result: SendResult) => void): void {
  const { statusCode = 0 } = response
  // What was taken is taken: the rest of the answer cannot change it.
  if (statusCode >= 200 && statusCode < 300) settle({ outcome: 'delivered', detail: String(statusCode) })
  let bytes = 0
  let text = ''
  response.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (text.length < detailMax) text += chunk.toString('utf8')
    if (bytes > bytesMax) response.destroy()
  })
  response.on('error', () => {})
  response.on('end', () => settle(judge(response, text)))
  response.on('close', () => settle(judge(response, text)))
}

function judge({ statusCode = 0, headers }: http.IncomingMessage, text: string): SendResult {
  const said = text
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, detailMax)
  const detail = said === '' ? String(statusCode) : `${statusCode} ${said}`
  if (statusCode === 429) {
    const retryAfter = headers['retry-after']
    return { outcome: 'rate_limited', ...(retryAfter === undefined ? {} : { retryAfter }), detail }
  }
  if (statusCode >= 500) return { outcome: 'failed', detail }
  return { outcome: 'rejected', invalidAddress: statusCode === 410, detail }
}

/** The contract counts every one of these as a failure of the account; the detail tells how far it had come. */
function failureOf(error: Error | undefined, late: boolean, sent: boolean): SendResult {
  if (error instanceof PrivateAddressError) return refusal(error)
  const what = late
    ? 'no answer in time'
    : ((error as NodeJS.ErrnoException | undefined)?.code ?? error?.message ?? 'no answer')
  return sent
    ? { outcome: 'failed', detail: `${what}, after the request was sent`, unheard: true }
    : { outcome: 'failed', detail: what }
}
