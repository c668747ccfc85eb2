/**
 * One connection to a mail server, from its greeting to its end: it carries one mail at a time and knows how far each
 * has come. nodemailer connects, secures and logs in. The mails themselves are sent here, because nodemailer takes a
 * turn of the event loop for each reply: under load (turns of 3 ms) a mail needed ten turns, and now three.
 */
import type { Socket } from 'node:net'
import SMTPConnection from 'nodemailer/lib/smtp-connection'
import type { OnWritten, SendResult } from '../../ports.ts'
import type { SmtpAccount } from './smtp-account.ts'
import { judgeReply, oneLine, type Stage } from './smtp-reply.ts'
import {
  type Envelope,
  type Extensions,
  parseExtensions,
  type Reply,
  Transaction,
  type Turn,
} from './smtp-transaction.ts'

export interface SessionTimes {
  /** Time to connect, greet, secure and log in, ms. */
  readonly connectMs: number
  /** Time without traffic after which the connection is closed, ms. */
  readonly idleMs: number
}

/**
 * Result of a mail; `stale` where the connection ended before the server had been given the mail, or would carry no
 * more mails.
 */
export interface Carried {
  readonly result: SendResult
  readonly stale: boolean
}

/** Errors of nodemailer. */
interface SmtpError extends Error {
  readonly responseCode?: number
  readonly response?: string
  readonly originalCode?: string
  readonly code?: string
}

interface Order {
  readonly transaction: Transaction
  readonly onWritten: OnWritten | undefined
  readonly resolve: (carried: Carried) => void
}

const tooLate = { outcome: 'failed', detail: 'it came too late to be sent' } as const

/** Most bytes of one reply: with more the other side is not a mail server. */
const replyMax = 65_536

export class Session {
  /** Resolves with `undefined` when the connection can carry mails, else with the error. */
  readonly opened: Promise<SendResult | undefined>
  readonly #connection: SMTPConnection
  #socket: Socket | undefined
  #extensions: Extensions = { pipelining: false, size: false, utf8: false }
  #order: Order | undefined
  /** True while the server waits for a mail that may not be written yet. */
  #isHeldBack = false
  #unread = ''
  #alive = true
  #carried = 0
  #carriedAt = Number.NEGATIVE_INFINITY

  constructor(account: SmtpAccount, times: SessionTimes, onEnd: (session: Session) => void) {
    this.#connection = new SMTPConnection(connectionOptions(account, times))
    const { promise, resolve } = Promise.withResolvers<SendResult | undefined>()
    this.opened = promise
    const overdue = setTimeout(
      () => fail(Object.assign(new Error('no connection in time'), { code: 'ETIMEDOUT' }), 'connect'),
      times.connectMs,
    )
    const fail = (error: SmtpError, stage: Stage): void => {
      resolve(judge(error, stage))
      this.destroy(error.originalCode ?? error.message)
    }
    this.#connection.on('error', (error: SmtpError) => fail(error, 'connect'))
    this.#connection.on('end', () => {
      clearTimeout(overdue)
      resolve({ outcome: 'failed', detail: 'the server ended the connection', retry: 'outage' })
      this.destroy('the server ended the connection')
      onEnd(this)
    })
    const ready = (): void => {
      clearTimeout(overdue)
      this.#takeOver()
      resolve(undefined)
    }
    this.#connection.connect((error) => {
      if (error) return fail(error as SmtpError, 'connect')
      this.#extensions = parseExtensions(String(this.#connection.lastServerResponse))
      if (account.user === undefined) return ready()
      this.#connection.login({ user: account.user, pass: account.password }, (refusal) => {
        if (refusal) fail(refusal as SmtpError, 'auth')
        else ready()
      })
    })
  }

  get alive(): boolean {
    return this.#alive
  }

  /** Mails so far, whatever their result. */
  get carried(): number {
    return this.#carried
  }

  /** When the connection last got a mail, on the clock of `performance.now()`, ms. */
  get carriedAt(): number {
    return this.#carriedAt
  }

  /**
   * Sends a mail; one at a time. Never rejects. `onWritten` is asked before the envelope, and just before the mail itself
   * is written, which waits for its answer: where that is false, the connection is closed, because the server waits for a
   * mail.
   */
  carry(envelope: Envelope, onWritten?: OnWritten): Promise<Carried> {
    if (envelope.international && !this.#extensions.utf8) {
      const detail = 'the server does not take addresses beyond ASCII (SMTPUTF8)'
      return Promise.resolve({ result: { outcome: 'rejected', invalidAddress: false, detail }, stale: false })
    }
    if (onWritten?.('envelope') === false) return Promise.resolve({ result: tooLate, stale: false })
    this.#carried += 1
    this.#carriedAt = performance.now()
    return new Promise((resolve) => {
      const transaction = new Transaction(envelope, this.#extensions)
      this.#order = { transaction, onWritten, resolve }
      this.#socket!.write(transaction.open())
    })
  }

  /** Closes the connection at once; a mail under way is settled by how far it had come. */
  destroy(why: string): void {
    if (!this.#alive) return
    this.#alive = false
    const order = this.#order
    this.#order = undefined
    this.#connection.close()
    this.#socket?.destroy()
    if (order === undefined) return
    const given = order.transaction.given && !this.#isHeldBack
    order.resolve({
      result: given
        ? { outcome: 'unknown', detail: oneLine(`${why}, after the mail was sent and before the answer`) }
        : { outcome: 'failed', detail: oneLine(why) },
      stale: !given,
    })
  }

  /** Ends the session with QUIT; no mail may be under way. */
  quit(): void {
    this.#alive = false
    this.#socket?.end('QUIT\r\n')
    this.#connection.close()
  }

  /** Reads replies here from now on; nodemailer still watches the socket's end, its errors and its idleness. */
  #takeOver(): void {
    const socket = this.#connection._socket
    if (!socket) {
      this.destroy('the connection has no socket')
      return
    }
    this.#socket = socket
    socket.removeAllListeners('data')
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.prependListener('error', (error: NodeJS.ErrnoException) =>
      this.destroy(error.code ?? error.message),
    )
  }

  #read(chunk: Buffer): void {
    this.#unread += chunk.toString('latin1')
    for (let reply = this.#nextReply(); reply !== undefined; reply = this.#nextReply()) {
      // An unrequested reply: the server announces that it is about to close.
      if (this.#order === undefined || this.#isHeldBack) this.destroy(oneLine(reply.text))
      else this.#hear(this.#order, reply)
      if (!this.#alive) return
    }
    if (this.#unread.length > replyMax) this.destroy('the server’s reply is too long')
  }

  #hear(order: Order, reply: Reply): void {
    const { transaction, onWritten } = order
    const wasGiven = transaction.given
    const turn = transaction.hear(reply)
    const mayBeWritten = transaction.given && !wasGiven ? (onWritten?.() ?? true) : true
    if (typeof mayBeWritten === 'boolean') {
      this.#go(order, turn, mayBeWritten)
      return
    }
    this.#isHeldBack = true
    void mayBeWritten.then((answer) => {
      if (this.#order !== order) return
      this.#isHeldBack = false
      this.#go(order, turn, answer)
    })
  }

  /** Goes on with a mail after a reply of the server. */
  #go({ transaction, resolve }: Order, turn: Turn, mayBeWritten: boolean): void {
    const { say, result, close = false, elsewhere = false } = turn
    if (!mayBeWritten) {
      this.#order = undefined
      this.destroy(tooLate.detail)
      resolve({ result: tooLate, stale: false })
      return
    }
    if (say !== undefined) this.#socket!.write(say)
    if (result === undefined) return
    this.#order = undefined
    if (close) this.destroy('the server ended the connection')
    resolve({ result, stale: elsewhere || (close && !transaction.given) })
  }

  /** Takes one whole reply. It may have several lines; the last one has no dash after its code. */
  #nextReply(): Reply | undefined {
    for (let from = 0; ; ) {
      const end = this.#unread.indexOf('\n', from)
      if (end < 0) return undefined
      const continues = this.#unread[from + 3] === '-'
      from = end + 1
      if (continues) continue
      const text = Buffer.from(this.#unread.slice(0, end), 'latin1').toString('utf8').trimEnd()
      this.#unread = this.#unread.slice(from)
      const code = Number(text.slice(0, 3))
      // Bytes that are not a reply are handled like a broken server: the connection is closed.
      return { code: code >= 200 && code < 600 ? code : 421, text }
    }
  }
}

/** Errors of a server that cannot be reached; an untrusted certificate is not one of them. */
const away: ReadonlySet<string> = new Set([
  'ECONNECTION',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ETIMEDOUT',
  'EPIPE',
  'EDNS',
  'ENOTFOUND',
  'EAI_AGAIN',
])

function connectionOptions(account: SmtpAccount, { connectMs, idleMs }: SessionTimes) {
  const { tls, loopback, user } = account
  const without = tls === 'off' || (loopback && tls === 'auto')
  const needed = tls === 'required' || (user !== undefined && !loopback && tls !== 'off')
  return {
    host: account.host,
    port: account.port,
    secure: account.secure,
    ignoreTLS: without,
    requireTLS: needed && !account.secure,
    ...(tls === 'unverified' ? { tls: { rejectUnauthorized: false } } : {}),
    connectionTimeout: connectMs,
    greetingTimeout: connectMs,
    dnsTimeout: connectMs,
    socketTimeout: idleMs,
    socketCloseTimeout: 1_000,
    // A machine with loopback alone still reaches its own mail server.
    allowInternalNetworkInterfaces: true,
  }
}

function judge(error: SmtpError, stage: Stage): SendResult {
  if (error.responseCode !== undefined)
    return judgeReply(error.responseCode, error.response ?? error.message, stage)
  const isAway = stage === 'connect' && (away.has(error.originalCode ?? '') || away.has(error.code ?? ''))
  return {
    outcome: 'failed',
    detail: oneLine(error.originalCode ?? error.message),
    ...(isAway ? { retry: 'outage' } : {}),
  }
}
