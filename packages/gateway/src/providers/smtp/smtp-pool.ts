/**
 * The connections of one account, and the mails that wait for them. A mail takes the free connection that was used
 * last; when none is free, it waits in order while another is opened, and goes with whichever is ready first. A
 * connection that was used lately is opened again when the server closes it; an unused one is not, so without mail
 * there are no logins.
 */
import type { OnWritten, SendResult } from '../../ports.ts'
import type { SmtpAccount } from './smtp-account.ts'
import { Session, type SessionTimes } from './smtp-session.ts'
import type { Envelope } from './smtp-transaction.ts'

export interface PoolOptions extends SessionTimes {
  /** Time from `send` to its result, ms. */
  readonly deadlineMs: number
  /** Most mails that wait for a connection; above it they fail at once. */
  readonly waitingMax: number
}

interface Job {
  readonly envelope: Envelope
  readonly onWritten: OnWritten | undefined
  readonly resolve: (result: SendResult) => void
  session: Session | undefined
  /** True when its time is up: the mail gets no further connection. */
  over: boolean
  done: boolean
}

/** How long a start waits for connections, ms: an unreachable server must not keep the gateway from starting. */
const warmMs = 1_500
/** A lost connection is opened again when it carried a mail within this time, ms. */
const lateMs = 30_000
/** First and longest delay before a connection is opened again after one was lost or refused, ms. */
const reopenMs = 500
const reopenMsMax = 60_000

export class SmtpPool {
  readonly #account: SmtpAccount
  readonly #options: PoolOptions
  readonly #sessions = new Set<Session>()
  readonly #idle: Session[] = []
  #waiting: Job[] = []
  #opening = 0
  /** Connections that were used lately and lost; at most as many as the account may have. */
  #lost = 0
  #failures = 0
  /** Time on the clock of `performance.now()`, ms. */
  #restUntil = 0
  #reopening: NodeJS.Timeout | undefined
  #closed = false

  constructor(account: SmtpAccount, options: PoolOptions) {
    this.#account = account
    this.#options = options
  }

  /** Resolves when every connection is open or has failed, or after a while. */
  async warm(): Promise<void> {
    const missing = this.#account.connections - this.#sessions.size
    const opening = Array.from({ length: missing }, () => this.#open())
    const { promise: patience, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, warmMs)
    await Promise.race([Promise.all(opening), patience])
    clearTimeout(timer)
  }

  send(envelope: Envelope, signal: AbortSignal, onWritten?: OnWritten): Promise<SendResult> {
    if (this.#closed) return Promise.resolve({ outcome: 'failed', detail: 'the provider is closed' })
    if (this.#waiting.length >= this.#options.waitingMax) {
      return Promise.resolve({ outcome: 'failed', detail: 'too many mails wait for a connection' })
    }
    if (signal.aborted) return Promise.resolve({ outcome: 'failed', detail: 'no time left' })
    return new Promise((resolve) => {
      const giveUp = (): void => this.#giveUp(job)
      const timer = setTimeout(giveUp, this.#options.deadlineMs)
      const job: Job = {
        envelope,
        onWritten,
        session: undefined,
        over: false,
        done: false,
        resolve: (result) => {
          if (job.done) return
          job.done = true
          clearTimeout(timer)
          signal.removeEventListener('abort', giveUp)
          resolve(result)
        },
      }
      signal.addEventListener('abort', giveUp, { once: true })
      this.#waiting.push(job)
      this.#serve()
    })
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#reopening)
    for (const job of this.#waiting.splice(0))
      job.resolve({ outcome: 'failed', detail: 'the provider is closed' })
    const idle = new Set(this.#idle)
    for (const session of [...this.#sessions]) {
      if (idle.has(session)) session.quit()
      else session.destroy('the provider is closed')
    }
  }

  #serve(): void {
    while (this.#waiting.length > 0 && this.#idle.length > 0) {
      const session = this.#idle.pop()!
      if (session.alive) void this.#carry(session, this.#waiting.shift()!)
    }
    // One connection is opened for each waiting mail, those that are being opened included. A server that has just
    // refused one is not asked for more while others are open.
    while (this.#waiting.length > this.#opening && this.#mayOpen()) void this.#open()
  }

  #mayOpen(): boolean {
    const open = this.#sessions.size
    return open === 0 || (open < this.#account.connections && performance.now() >= this.#restUntil)
  }

  async #carry(session: Session, job: Job): Promise<void> {
    job.session = session
    const used = session.carried > 0
    const { result, stale } = await session.carry(job.envelope, job.onWritten)
    if (session.alive) this.#idle.push(session)
    if (stale && used && result.outcome === 'failed' && !job.over && !job.done) {
      // The kept connection had ended unnoticed. The server has seen no mail, so another connection may carry it; a
      // new one at the latest shows whether the server is reachable at all.
      job.session = undefined
      this.#waiting.unshift(job)
    } else {
      job.resolve(result)
    }
    this.#serve()
  }

  async #open(): Promise<void> {
    if (this.#closed) return
    this.#opening += 1
    const session = new Session(this.#account, this.#options, (ended) => this.#forget(ended))
    this.#sessions.add(session)
    const trouble = await session.opened
    this.#opening -= 1
    if (trouble === undefined && session.alive) {
      this.#failures = 0
      this.#idle.push(session)
      this.#serve()
      return
    }
    this.#failures += 1
    this.#restUntil = performance.now() + this.#waitMs()
    this.#forget(session)
    // With no other connection to wait for, all waiting mails get the error of this one.
    if (this.#sessions.size === 0 && trouble !== undefined)
      for (const job of this.#waiting.splice(0)) job.resolve(trouble)
  }

  #forget(session: Session): void {
    if (!this.#sessions.delete(session)) return
    const at = this.#idle.indexOf(session)
    if (at >= 0) this.#idle.splice(at, 1)
    if (session.carriedAt < performance.now() - lateMs) return
    this.#lost = Math.min(this.#lost + 1, this.#account.connections)
    this.#refill()
  }

  /**
   * Opens lost connections again one after the other: a server that is down gets one attempt at a time, and the next
   * mail makes another.
   */
  #refill(): void {
    if (this.#closed || this.#reopening !== undefined || this.#lost === 0) return
    this.#reopening = setTimeout(() => {
      this.#reopening = undefined
      this.#lost -= 1
      if (this.#sessions.size >= this.#account.connections) this.#lost = 0
      else
        void this.#open().then(() => {
          if (this.#failures > 0) this.#lost = 0
          this.#refill()
        })
    }, this.#waitMs())
    this.#reopening.unref()
  }

  #waitMs(): number {
    return Math.min(reopenMs * 2 ** Math.min(this.#failures, 10), reopenMsMax)
  }

  #giveUp(job: Job): void {
    if (job.session !== undefined) {
      job.over = true
      job.session.destroy('no answer in time')
      return
    }
    const at = this.#waiting.indexOf(job)
    if (at >= 0) this.#waiting.splice(at, 1)
    job.resolve({ outcome: 'failed', detail: 'no connection in time', retry: 'outage' })
  }
}
