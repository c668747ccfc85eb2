/**
 * One connection to a mail server, from its greeting to its end: it carries one mail at a time and knows of each how
 * far it had come. That is the whole difference between a mail that may be sent again and one that may not: until
 * the server has been given the mail itself nothing can have been delivered.
 */
import { Readable } from 'node:stream'
import SMTPConnection from 'nodemailer/lib/smtp-connection'
import type { SendResult } from '../../ports.ts'
import type { SmtpAccount } from './smtp-account.ts'
import { judgeReply, messageIdOf, oneLine, type Stage } from './smtp-reply.ts'

export interface SessionTimes {
  /** To connect, greet, secure and log in, ms. */
  readonly connectMs: number
  /** Without traffic until the connection is given up, ms. */
  readonly idleMs: number
}

export interface Envelope {
  readonly from: string
  readonly to: string
  readonly international: boolean
  readonly mail: Buffer
}

/** How a mail went; `stale` where the connection ended before the server had seen anything of it but its envelope. */
export interface Carried {
  readonly result: SendResult
  readonly stale: boolean
}

export interface Session {
  /** Resolves with `undefined` when it can carry mails, else with what went wrong. */
  readonly opened: Promise<SendResult | undefined>
  readonly alive: boolean
  /** Mails carried so far. */
  readonly carried: number
  /** One at a time. Never rejects. */
  carry(envelope: Envelope): Promise<Carried>
  /** Ends it at once; what is under way settles as far as it had come. */
  destroy(why: string): void
  /** Says good-bye. */
  quit(): void
}

/** nodemailer's errors. */
interface SmtpError extends Error {
  readonly responseCode?: number
  readonly response?: string
  readonly command?: string
  readonly originalCode?: string
  readonly code?: string
}

const stages: Readonly<Record<string, Stage>> = { 'MAIL FROM': 'mail', 'RCPT TO': 'recipient', DATA: 'data' }

export function openSession(
  account: SmtpAccount,
  times: SessionTimes,
  onEnd: (session: Session) => void,
): Session {
  const connection = new SMTPConnection(connectionOptions(account, times))
  let alive = true
  let carried = 0
  let given = false
  let abandon: ((why: string) => void) | undefined

  const opened = new Promise<SendResult | undefined>((resolve) => {
    const fail = (error: SmtpError, stage: Stage): void => {
      connection.close()
      resolve(judge(error, stage, false))
    }
    const overdue = setTimeout(() => fail(new Error('no connection in time'), 'connect'), times.connectMs)
    connection.on('error', (error: SmtpError) => fail(error, 'connect'))
    connection.on('end', () => {
      alive = false
      clearTimeout(overdue)
      resolve({ outcome: 'failed', detail: 'the server ended the connection' })
      onEnd(session)
    })
    connection.connect((error) => {
      if (error) return fail(error as SmtpError, 'connect')
      const ready = (): void => {
        clearTimeout(overdue)
        resolve(undefined)
      }
      if (account.user === undefined) return ready()
      connection.login({ user: account.user, pass: account.password }, (refusal) => {
        if (refusal) fail(refusal as SmtpError, 'auth')
        else ready()
      })
    })
  })

  const session: Session = {
    opened,
    get alive() {
      return alive
    },
    get carried() {
      return carried
    },
    carry({ from, to, international, mail }) {
      given = false
      return new Promise((resolve) => {
        const settle = (outcome: Carried): void => {
          abandon = undefined
          resolve(outcome)
        }
        abandon = (why) => settle({ result: cut(why, given), stale: false })
        const message = new Readable({
          // Read first when the server has said 354: from here on it may have the mail.
          read() {
            given = true
            this.push(mail)
            this.push(null)
          },
        })
        connection.send({ from, to: [to], size: mail.length }, message, (failure, info) => {
          if (abandon === undefined) return
          carried += 1
          if (failure === null || failure === undefined) {
            const reply = info!.response
            const providerMessageId = messageIdOf(reply)
            const detail = oneLine(reply)
            return settle({
              result: {
                outcome: 'delivered',
                ...(providerMessageId === undefined ? {} : { providerMessageId }),
                detail,
              },
              stale: false,
            })
          }
          const error = failure as SmtpError
          const result = judge(error, stages[error.command ?? ''] ?? 'connect', given)
          const gone = error.responseCode === undefined || error.responseCode === 421
          if (gone || !alive) {
            if (alive) connection.close()
            return settle({ result, stale: gone && !given })
          }
          // A refused envelope leaves a transaction open; the next MAIL would be answered “503 nested”.
          connection.reset((trouble) => {
            if (trouble) connection.close()
            settle({ result, stale: false })
          })
        })
        void international
      })
    },
    destroy(why) {
      abandon?.(why)
      connection.close()
    },
    quit() {
      connection.quit()
    },
  }
  return session
}

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

function judge(error: SmtpError, stage: Stage, given: boolean): SendResult {
  if (error.responseCode !== undefined)
    return judgeReply(error.responseCode, error.response ?? error.message, stage)
  return cut(error.originalCode ?? error.message, given)
}

function cut(why: string, given: boolean): SendResult {
  return given
    ? { outcome: 'unknown', detail: oneLine(`${why}, after the mail was sent and before the answer`) }
    : { outcome: 'failed', detail: oneLine(why) }
}
