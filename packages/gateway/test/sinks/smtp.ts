/**
 * A mail server for tests: speaks SMTP on a real socket, keeps every mail with the instant at which its last byte
 * arrived, and does what its rules say: refuse, delay, hang, reset. It shares no code with the provider it is
 * there to judge. Also a program: `node smtp.ts [port]` prints `{"port":…}` and then obeys lines on its standard
 * input (`dump`, `clear`, `rules <json>`, `stop`), answering each with one line of JSON.
 */
import { createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'

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
}

const now = (): number => performance.timeOrigin + performance.now()

export async function createSmtpSink(options: SmtpSinkOptions = {}): Promise<SmtpSink> {
  const extensions = options.extensions ?? [
    'PIPELINING',
    '8BITMIME',
    'SMTPUTF8',
    'ENHANCEDSTATUSCODES',
    'SIZE 10485760',
  ]
  const sockets = new Map<number, Socket>()
  const used = new Map<SmtpRule, number>()
  let server: Server

  function ruleFor(step: SmtpStep, said: string): SmtpRule | undefined {
    for (const rule of sink.rules) {
      if (rule.at !== step || (rule.match !== undefined && !new RegExp(rule.match, 'i').test(said))) continue
      const count = used.get(rule) ?? 0
      used.set(rule, count + 1)
      const after = rule.after ?? 0
      if (count >= after && count < after + (rule.times ?? Number.POSITIVE_INFINITY)) return rule
    }
    return undefined
  }

  function serve(socket: Socket): void {
    sink.connections.opened += 1
    sink.connections.open += 1
    const connection = sink.connections.opened
    sockets.set(connection, socket)
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.on('close', () => {
      sockets.delete(connection)
      sink.connections.open -= 1
    })

    let unread = ''
    let inBody = false
    let from = ''
    let to: string[] = []
    let _busy: Promise<void> | undefined

    /** Says `usual`, or what a rule says instead; false where nothing must follow. */
    async function reply(step: SmtpStep, said: string, usual: string, take?: () => void): Promise<boolean> {
      const rule = ruleFor(step, said)
      if (rule?.delayMs !== undefined) await new Promise((resolve) => setTimeout(resolve, rule.delayMs))
      const act = rule?.do ?? usual
      if (act === 'take-reset' || act === 'take-hang') take?.()
      if (act.endsWith('reset')) socket.resetAndDestroy()
      else if (!act.endsWith('hang')) {
        if (/^2/.test(act)) take?.()
        socket.write(`${act}\r\n`)
        if (act.startsWith('421')) socket.end()
      }
      return /^[23]/.test(act)
    }

    async function obey(line: string): Promise<void> {
      sink.commands.push(line)
      const verb = line.slice(0, 4).toUpperCase()
      const argument = /<(.*)>/.exec(line)?.[1] ?? ''
      if (verb === 'EHLO' || verb === 'HELO') {
        const lines = ['sink', ...extensions, ...(options.login === undefined ? [] : ['AUTH PLAIN'])]
        const text = lines
          .map((each, index) => `250${index === lines.length - 1 ? ' ' : '-'}${each}`)
          .join('\r\n')
        await reply('ehlo', line, text)
      } else if (verb === 'AUTH') {
        const said = Buffer.from(line.split(' ')[2] ?? '', 'base64')
          .toString()
          .split('\0')
          .slice(1)
          .join(':')
        await reply('auth', said, said === options.login ? '235 2.7.0 ok' : '535 5.7.8 wrong')
      } else if (verb === 'MAIL') {
        if (from !== '') socket.write('503 5.5.1 nested MAIL command\r\n')
        else if (await reply('mail', argument, '250 2.1.0 ok')) from = argument
      } else if (verb === 'RCPT') {
        if (await reply('rcpt', argument, '250 2.1.5 ok')) to.push(argument)
      } else if (verb === 'DATA') {
        if (to.length === 0) socket.write('554 5.5.1 no valid recipients\r\n')
        else if (await reply('data', to.join(' '), '354 go on')) inBody = true
      } else if (verb === 'RSET') {
        from = ''
        to = []
        socket.write('250 2.0.0 ok\r\n')
      } else if (verb === 'QUIT') socket.end('221 2.0.0 bye\r\n')
      else socket.write('500 5.5.2 what?\r\n')
    }

    async function swallow(raw: string): Promise<void> {
      const mail = { at: now(), connection, from, to, raw: raw.replace(/^\.\./gm, '.') }
      const number = sink.mails.length + 1
      inBody = false
      from = ''
      to = []
      await reply('body', mail.to.join(' '), `250 2.0.0 Ok: queued as SINK${number}`, () =>
        sink.mails.push(mail),
      )
    }

    async function work(): Promise<void> {
      for (;;) {
        if (inBody) {
          const end = unread.startsWith('.\r\n') ? 0 : unread.indexOf('\r\n.\r\n')
          if (end < 0) return
          const raw = end === 0 ? '' : unread.slice(0, end + 2)
          unread = unread.slice(end === 0 ? 3 : end + 5)
          await swallow(raw)
        } else {
          const end = unread.indexOf('\r\n')
          if (end < 0) return
          const line = unread.slice(0, end)
          unread = unread.slice(end + 2)
          await obey(line)
        }
      }
    }

    socket.on('data', (chunk) => {
      unread += chunk.toString('latin1')
      _busy ??= work().finally(() => {
        _busy = undefined
      })
    })
    void reply('connect', '', '220 sink ESMTP')
  }

  const sink = {
    port: 0,
    url: '',
    mails: [] as SunkMail[],
    connections: { opened: 0, open: 0 },
    commands: [] as string[],
    rules: [...(options.rules ?? [])],
    hangUp(line?: string) {
      for (const socket of sockets.values()) socket.end(line === undefined ? '' : `${line}\r\n`)
    },
    async close() {
      for (const socket of sockets.values()) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  server = createServer(serve)
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  sink.port = (server.address() as { port: number }).port
  sink.url = `smtp://127.0.0.1:${sink.port}`
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
