/**
 * The sandbox's mail server (RFC 5321, with PIPELINING, 8BITMIME, SMTPUTF8 and AUTH PLAIN): takes one mail after
 * another, and the fake provider decides about each when its last byte has arrived. The user name of AUTH is the
 * account; a client without a login is the account `smtp`. Bytes are handled as Latin-1: one letter a byte.
 */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import type { FakeProvider } from '../../sandbox/fake-provider.ts'
import type { SandboxMessage } from '../../sandbox/record.ts'
import type { Told } from '../emulator.ts'

export interface SmtpDoor {
  listen(host: string, port: number): Promise<void>
  port(): number
  close(): Promise<void>
}

const bytesMax = 33_554_432
const extensions = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'AUTH PLAIN']

export function createSmtpDoor({ side }: { readonly side: FakeProvider<SandboxMessage> }): SmtpDoor {
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    converse(socket, side)
  })
  return {
    listen: (host, port) =>
      new Promise((resolve, reject) => {
        server.once('error', reject)
        server.listen(port, host, resolve)
      }),
    port: () => (server.address() as AddressInfo).port,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function converse(socket: Socket, side: FakeProvider<SandboxMessage>): void {
  let unread = ''
  let account = 'smtp'
  let to: string | undefined
  let inBody = false
  let working = false
  let taken = 0

  socket.write('220 sandbox ESMTP\r\n')
  socket.on('data', (bytes: Buffer) => {
    unread += bytes.toString('latin1')
    if (unread.length > bytesMax) socket.destroy()
    else if (!working) void work()
  })

  /** Runs commands in order; a mail that waits for its answer holds up the commands that were pipelined behind it. */
  async function work(): Promise<void> {
    working = true
    for (;;) {
      // A mail without any line ends where it begins.
      const atOnce = inBody && unread.startsWith('.\r\n')
      const mark = inBody ? '\r\n.\r\n' : '\r\n'
      const end = atOnce ? 0 : unread.indexOf(mark)
      if (end < 0) break
      const read = unread.slice(0, end)
      unread = unread.slice(end + (atOnce ? 3 : mark.length))
      if (inBody) await take(read)
      else say(obey(read))
    }
    working = false
  }

  /** Answers a command with its reply. */
  function obey(line: string): string {
    const [verb = '', ...rest] = line.split(' ')
    switch (verb.toUpperCase()) {
      case 'EHLO':
        return ['250-sandbox', ...extensions.map((name) => `250-${name}`), '250 SIZE 33554432'].join('\r\n')
      case 'HELO':
        return '250 sandbox'
      case 'AUTH': {
        const [, user] = Buffer.from(rest[1] ?? '', 'base64')
          .toString()
          .split('\0')
        account = user || account
        return '235 2.7.0 welcome'
      }
      case 'MAIL':
      case 'RSET':
        to = undefined
        return '250 2.1.0 ok'
      case 'RCPT':
        to = /<([^>]*)>/.exec(line)?.[1]
        return to === undefined ? '501 5.1.3 no address' : '250 2.1.5 ok'
      case 'DATA':
        if (to === undefined) return '503 5.5.1 RCPT first'
        inBody = true
        return '354 go ahead'
      case 'NOOP':
        return '250 2.0.0 ok'
      case 'QUIT':
        return '221 2.0.0 bye'
      default:
        return '500 5.5.2 unknown'
    }
  }

  async function take(mail: string): Promise<void> {
    inBody = false
    const id = /^X-Notification-Id: (\S+)/im.exec(mail)?.[1] ?? ''
    const email = Buffer.from(to ?? '', 'latin1').toString('utf8')
    to = undefined
    const message: SandboxMessage = { id, tenant: '', channel: 'email', to: { id: email, email } }
    const { fate, retryAfter, delayMs } = side.receive(message, account)
    if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs))
    if (fate === 'hang' || fate === 'hang_after_accept') return
    if (fate === 'reset' || fate === 'reset_after_accept') socket.resetAndDestroy()
    else {
      taken += 1
      say(replyTo(fate, retryAfter, taken))
    }
  }

  function say(line: string): void {
    if (socket.destroyed) return
    socket.write(`${line}\r\n`)
    if (line.startsWith('221')) socket.end()
  }
}

/** Enhanced codes by RFC 3463. */
function replyTo(fate: Told, retryAfter: string, number: number): string {
  switch (fate) {
    case 'deliver':
      return `250 2.0.0 Ok: queued as SANDBOX${number}`
    case 'rate_limit':
      return `450 4.7.0 sending rate limit exceeded${retryAfter === '' ? '' : `, retry after ${retryAfter} seconds`}`
    case 'fail':
      return '451 4.3.0 local error'
    case 'suspend':
      return '421 4.7.0 the account is suspended'
    case 'reject':
      return '554 5.7.1 message refused'
    case 'reject_address':
      return '550 5.1.1 no such user'
  }
}
