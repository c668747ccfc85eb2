/**
 * A mail server for tests: speaks SMTP on a real socket, keeps every mail with the instant at which its last byte
 * arrived, and does what its rules say: refuse, delay, hang, reset. It shares no code with the provider it is
 * there to judge. Also a program: `node smtp.ts [port]` prints `{"port":…}` and then obeys lines on its standard
 * input (`dump`, `clear`, `rules <json>`, `stop`), answering each with one line of JSON.
 */
import { createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { createSecureContext, createServer as createTlsServer, TLSSocket } from 'node:tls'
import { certificate, certificateKey } from './certificate.ts'

export type SmtpStep = 'connect' | 'ehlo' | 'auth' | 'mail' | 'rcpt' | 'data' | 'body'

export interface SmtpRule {
  readonly at: SmtpStep
  /** Regular expression over what the client said; for `data` and `body`, over the recipients. @defaultValue all */
  readonly match?: string
  /** How often it holds. @defaultValue always */
  readonly times?: number
  /** Calls that pass before it holds. @defaultValue 0 */
  readonly after?: number
  /** A reply line such as `450 4.7.1 later`; `hang`; `reset`; at `body` also `take-reset` and `take-hang`: the mail is kept. */
  readonly do?: string
  /** Before the reply, ms. */
  readonly delayMs?: number
}

export interface SunkMail {
  /** When the last byte of the mail arrived, epoch ms with fractions. */
  readonly at: number
  readonly connection: number
  readonly from: string
  readonly to: readonly string[]
  /** As it came, dots undone, in latin1: one letter a byte. */
  readonly raw: string
  readonly encrypted: boolean
}

export interface SmtpSink {
  readonly port: number
  readonly url: string
  readonly mails: SunkMail[]
  /** Opened so far, and open now. */
  readonly connections: { opened: number; open: number }
  /** Every line that a client said, in order. */
  readonly commands: string[]
  rules: SmtpRule[]
  /** Ends every open connection, as a server does that is restarted. */
  hangUp(line?: string): void
  close(): Promise<void>
}

export interface SmtpSinkOptions {
  readonly port?: number
  /** Lines of the EHLO answer. */
  readonly extensions?: readonly string[]
  readonly rules?: readonly SmtpRule[]
  /** `user:password` that AUTH PLAIN must bring. */
  readonly login?: string
  /** TLS from the first byte on, or offered by STARTTLS. @defaultValue none */
  readonly tls?: 'at-once' | 'offered'
}

const tlsKeys = { key: certificateKey, cert: certificate }
const now = (): number => performance.timeOrigin + performance.now()

/** State that all conversations of a sink share. */
interface Hall {
  readonly extensions: readonly string[]
  readonly login: string | undefined
  readonly offersTls: boolean
  readonly mails: SunkMail[]
  readonly commands: string[]
  ruleFor(step: SmtpStep, said: string): SmtpRule | undefined
}

/** One connection, from its greeting on. Bytes are handled as latin1: one letter a byte. */
class Conversation {
  readonly #hall: Hall
  readonly #number: number
  #socket: Socket
  #unread = ''
  #working = false
  #inBody = false
  #from = ''
  #to: string[] = []

  constructor(socket: Socket, number: number, hall: Hall) {
    this.#hall = hall
    this.#number = number
    this.#socket = socket
    socket.setNoDelay(true)
    this.#listen()
    void this.#reply('connect', '', '220 sink ESMTP')
  }

  #listen(): void {
    this.#socket.on('error', () => {})
    this.#socket.on('data', (chunk: Buffer) => {
      this.#unread += chunk.toString('latin1')
      if (!this.#working) void this.#work()
    })
  }

  async #work(): Promise<void> {
    this.#working = true
    for (let taken = this.#take(); taken !== undefined; taken = this.#take()) {
      if (this.#inBody) await this.#swallow(taken)
      else await this.#obey(taken)
    }
    this.#working = false
  }

  /** The next line, or the next mail without the dot that ends it. */
  #take(): string | undefined {
    if (this.#inBody && this.#unread.startsWith('.\r\n')) {
      this.#unread = this.#unread.slice(3)
      return ''
    }
    const mark = this.#inBody ? '\r\n.\r\n' : '\r\n'
    const end = this.#unread.indexOf(mark)
    if (end < 0) return undefined
    const taken = this.#unread.slice(0, end + (this.#inBody ? 2 : 0))
    this.#unread = this.#unread.slice(end + mark.length)
    return taken
  }

  /** Says `usual`, or what a rule says instead. Answers true if the client may go on. */
  async #reply(step: SmtpStep, said: string, usual: string, keep?: () => void): Promise<boolean> {
    const rule = this.#hall.ruleFor(step, said)
    if (rule?.delayMs !== undefined) await new Promise((resolve) => setTimeout(resolve, rule.delayMs))
    const act = rule?.do ?? usual
    if (act.startsWith('take-')) keep?.()
    if (act.endsWith('reset')) this.#socket.resetAndDestroy()
    else if (!act.endsWith('hang')) {
      if (act.startsWith('2')) keep?.()
      this.#socket.write(`${act}\r\n`)
      if (act.startsWith('421')) this.#socket.end()
    }
    return /^[23]/.test(act)
  }

  async #obey(line: string): Promise<void> {
    this.#hall.commands.push(line)
    const argument = /<(.*)>/.exec(line)?.[1] ?? ''
    switch (line.split(' ', 1)[0]!.toUpperCase()) {
      case 'EHLO':
      case 'HELO':
        await this.#reply('ehlo', line, this.#introduction())
        break
      case 'STARTTLS':
        this.#encrypt()
        break
      case 'AUTH':
        await this.#logIn(line)
        break
      case 'MAIL':
        if (this.#from !== '') this.#socket.write('503 5.5.1 nested MAIL command\r\n')
        else if (await this.#reply('mail', argument, '250 2.1.0 ok')) this.#from = argument
        break
      case 'RCPT':
        if (await this.#reply('rcpt', argument, '250 2.1.5 ok')) this.#to.push(argument)
        break
      case 'DATA':
        if (this.#to.length === 0) this.#socket.write('554 5.5.1 no valid recipients\r\n')
        else this.#inBody = await this.#reply('data', this.#to.join(' '), '354 go on')
        break
      case 'RSET':
        this.#forget()
        this.#socket.write('250 2.0.0 ok\r\n')
        break
      case 'QUIT':
        this.#socket.end('221 2.0.0 bye\r\n')
        break
      default:
        this.#socket.write('500 5.5.2 what?\r\n')
    }
  }

  #introduction(): string {
    const { extensions, login, offersTls } = this.#hall
    const lines = ['sink', ...extensions]
    if (login !== undefined) lines.push('AUTH PLAIN')
    if (offersTls && !(this.#socket instanceof TLSSocket)) lines.push('STARTTLS')
    return lines.map((line, index) => `250${index === lines.length - 1 ? ' ' : '-'}${line}`).join('\r\n')
  }

  #encrypt(): void {
    this.#socket.write('220 2.0.0 go ahead\r\n')
    this.#socket.removeAllListeners('data')
    this.#socket = new TLSSocket(this.#socket, {
      isServer: true,
      secureContext: createSecureContext(tlsKeys),
    })
    this.#listen()
  }

  async #logIn(line: string): Promise<void> {
    const [, user, password] = Buffer.from(line.split(' ')[2] ?? '', 'base64')
      .toString()
      .split('\0')
    const said = `${user}:${password}`
    await this.#reply('auth', said, said === this.#hall.login ? '235 2.7.0 ok' : '535 5.7.8 wrong')
  }

  async #swallow(raw: string): Promise<void> {
    const mail: SunkMail = {
      at: now(),
      connection: this.#number,
      from: this.#from,
      to: this.#to,
      raw: raw.replace(/^\.\./gm, '.'),
      encrypted: this.#socket instanceof TLSSocket,
    }
    const { mails } = this.#hall
    this.#inBody = false
    this.#forget()
    const usual = `250 2.0.0 Ok: queued as SINK${mails.length + 1}`
    await this.#reply('body', mail.to.join(' '), usual, () => mails.push(mail))
  }

  #forget(): void {
    this.#from = ''
    this.#to = []
  }
}

export async function createSmtpSink(options: SmtpSinkOptions = {}): Promise<SmtpSink> {
  const sockets = new Set<Socket>()
  const used = new Map<SmtpRule, number>()
  const hall: Hall = {
    extensions: options.extensions ?? [
      'PIPELINING',
      '8BITMIME',
      'SMTPUTF8',
      'ENHANCEDSTATUSCODES',
      'SIZE 10485760',
    ],
    login: options.login,
    offersTls: options.tls === 'offered',
    mails: [],
    commands: [],
    ruleFor(step, said) {
      for (const rule of sink.rules) {
        if (rule.at !== step || (rule.match !== undefined && !new RegExp(rule.match, 'i').test(said)))
          continue
        const count = used.get(rule) ?? 0
        used.set(rule, count + 1)
        const after = rule.after ?? 0
        if (count >= after && count < after + (rule.times ?? Number.POSITIVE_INFINITY)) return rule
      }
      return undefined
    },
  }

  function serve(socket: Socket): void {
    sink.connections.opened += 1
    sink.connections.open += 1
    sockets.add(socket)
    socket.on('close', () => {
      sockets.delete(socket)
      sink.connections.open -= 1
    })
    new Conversation(socket, sink.connections.opened, hall)
  }

  const server = options.tls === 'at-once' ? createTlsServer(tlsKeys, serve) : createServer(serve)
  const sink = {
    port: 0,
    url: '',
    mails: hall.mails,
    commands: hall.commands,
    connections: { opened: 0, open: 0 },
    rules: [...(options.rules ?? [])],
    hangUp(line?: string) {
      for (const socket of sockets) socket.end(line === undefined ? '' : `${line}\r\n`)
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  sink.port = (server.address() as { port: number }).port
  sink.url = `${options.tls === 'at-once' ? 'smtps' : 'smtp'}://127.0.0.1:${sink.port}`
  return sink
}

if (import.meta.main) {
  const sink = await createSmtpSink({ port: Number(process.argv[2] ?? 0) })
  const say = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value)}\n`)
  say({ port: sink.port })
  for await (const line of createInterface({ input: process.stdin })) {
    const [order, ...rest] = line.split(' ')
    if (order === 'dump') say({ mails: sink.mails, connections: sink.connections })
    else if (order === 'clear') say({ cleared: sink.mails.splice(0).length })
    else if (order === 'rules') {
      sink.rules = JSON.parse(rest.join(' ')) as SmtpRule[]
      say({ rules: sink.rules.length })
    } else if (order === 'stop') break
    else say({ error: `unknown order ${order}` })
  }
  await sink.close()
  process.stdin.destroy()
}
