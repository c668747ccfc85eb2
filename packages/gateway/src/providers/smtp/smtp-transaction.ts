/**
 * One mail on an open connection, as a conversation: which lines to write, what each reply means, when it is over.
 * With PIPELINING (RFC 2920) the envelope leaves in one segment, so that the mail itself follows one round trip
 * later. Pure: bytes are moved by the session.
 */
import type { SendResult } from '../../ports.ts'
import { isConnectionSpent, judgeReply, messageIdOf, oneLine, type Stage } from './smtp-reply.ts'

export interface Envelope {
  readonly from: string
  readonly to: string
  /** True when the recipient's name cannot be written in ASCII. */
  readonly international: boolean
  /** The mail with CRLF line ends, dots not doubled. */
  readonly mail: string
}

/** Extensions that the server announced. */
export interface Extensions {
  readonly pipelining: boolean
  readonly size: boolean
  readonly utf8: boolean
}

export interface Reply {
  readonly code: number
  /** All lines of the reply. */
  readonly text: string
}

/** The next step after a reply. An empty step waits for the next reply. */
export interface Turn {
  readonly say?: string
  /** The outcome is known; the connection is free again unless `close`. */
  readonly result?: SendResult
  /** The connection must not carry another mail. */
  readonly close?: boolean
  /** Only this connection refused the mail: another one may carry it at once. */
  readonly elsewhere?: boolean
}

export function parseExtensions(ehlo: string): Extensions {
  const offers = (name: string): boolean => new RegExp(`^250[ -]${name}\\b`, 'im').test(ehlo)
  return { pipelining: offers('PIPELINING'), size: offers('SIZE'), utf8: offers('SMTPUTF8') }
}

type Awaited = 'mail' | 'recipient' | 'data' | 'end' | 'nothing' | 'reset'

export class Transaction {
  readonly #envelope: Envelope
  readonly #lines: readonly [mail: string, recipient: string, data: string]
  readonly #pipelined: boolean
  #awaited: Awaited = 'mail'
  #refused: SendResult | undefined
  #given = false

  constructor(envelope: Envelope, extensions: Extensions) {
    this.#envelope = envelope
    this.#pipelined = extensions.pipelining
    const size = extensions.size ? ` SIZE=${Buffer.byteLength(envelope.mail)}` : ''
    const utf8 = envelope.international ? ' SMTPUTF8' : ''
    this.#lines = [
      `MAIL FROM:<${envelope.from}>${size}${utf8}\r\n`,
      `RCPT TO:<${envelope.to}>\r\n`,
      'DATA\r\n',
    ]
  }

  /** True when the server was given the mail itself: before that, nothing can have been delivered. */
  get given(): boolean {
    return this.#given
  }

  /** The first lines to write. */
  open(): string {
    return this.#pipelined ? this.#lines.join('') : this.#lines[0]
  }

  hear(reply: Reply): Turn {
    if (isConnectionSpent(reply.code, reply.text))
      return { result: this.#refused ?? this.#judge(reply), close: true, elsewhere: true }
    // A 421 announces that the server closes the connection, whatever the command was (RFC 5321, 4.2.1).
    if (reply.code === 421) return { result: this.#refused ?? this.#judge(reply), close: true }
    switch (this.#awaited) {
      case 'mail':
        if (!isYes(reply)) this.#refused = this.#judge(reply)
        return this.#next('recipient', this.#lines[1])
      case 'recipient':
        if (!isYes(reply)) this.#refused ??= this.#judge(reply)
        return this.#next('data', this.#lines[2])
      case 'data':
        return this.#hearData(reply)
      case 'end':
        return { result: isYes(reply) ? delivered(reply) : this.#judge(reply) }
      case 'nothing':
        return this.#reset()
      case 'reset':
        return { result: this.#refused!, close: !isYes(reply) }
    }
  }

  #next(awaited: Awaited, line: string): Turn {
    if (this.#refused !== undefined && !this.#pipelined) return this.#reset()
    this.#awaited = awaited
    return this.#pipelined ? {} : { say: line }
  }

  #hearData(reply: Reply): Turn {
    if (reply.code < 200 || reply.code >= 400) {
      this.#refused ??= this.#judge(reply)
      return this.#reset()
    }
    if (this.#refused !== undefined) {
      // The server accepts DATA without any recipient: the empty mail goes to no one, and ends the transaction.
      this.#awaited = 'nothing'
      return { say: '.\r\n' }
    }
    this.#awaited = 'end'
    this.#given = true
    const { mail } = this.#envelope
    return { say: `${mail.replace(/^\./gm, '..')}${mail.endsWith('\r\n') ? '' : '\r\n'}.\r\n` }
  }

  /** Resets the transaction that a refused envelope leaves open; without it, the next one is answered “503 nested”. */
  #reset(): Turn {
    this.#awaited = 'reset'
    return { say: 'RSET\r\n' }
  }

  #judge({ code, text }: Reply): SendResult {
    const stage: Stage = this.#awaited === 'mail' || this.#awaited === 'recipient' ? this.#awaited : 'data'
    return judgeReply(code, text, stage, this.#envelope)
  }
}

function isYes({ code }: Reply): boolean {
  return code >= 200 && code < 300
}

function delivered({ text }: Reply): SendResult {
  const providerMessageId = messageIdOf(text)
  return {
    outcome: 'delivered',
    ...(providerMessageId === undefined ? {} : { providerMessageId }),
    detail: oneLine(text),
  }
}
