/**
 * An HTTP server for tests: keeps every request with the instant at which its last byte arrived, and does what its
 * rules say: any status with any headers, delays, hangs, resets, bodies without end. It shares no code with the
 * provider it is there to judge. Also a program: `node http.ts [port]` prints `{"port":…}` and then obeys lines on
 * its standard input (`dump [from]`, `clear`, `rules <json>`, `stop`), answering each with one line of JSON.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createInterface } from 'node:readline'

export interface HttpRule {
  /** Regular expression over method and path, as in `POST /in`. @defaultValue all */
  readonly match?: string
  /** How often it holds. @defaultValue always */
  readonly times?: number
  /** Requests that pass before it holds. @defaultValue 0 */
  readonly after?: number
  /** @defaultValue 200 */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** Before the answer, ms. */
  readonly delayMs?: number
  /**
   * Instead of an answer: `hang`; `reset` once the request has arrived; `reset-early` at its head; `stall`: the head
   * and no end; `flood`: a body without end.
   */
  readonly do?: 'hang' | 'reset' | 'reset-early' | 'stall' | 'flood'
}

export interface SunkRequest {
  /** When the last byte of the request arrived, epoch ms with fractions. */
  readonly at: number
  /** Number of the connection that it came over, from 1. */
  readonly connection: number
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

export interface HttpSink {
  readonly port: number
  readonly url: string
  readonly requests: SunkRequest[]
  readonly connections: { opened: number; open: number }
  rules: HttpRule[]
  /** Ends every open connection, as a server does that is restarted. */
  hangUp(): void
  close(): Promise<void>
}

/** A time in which the event loop stood still: what arrived in it is stamped with its end. */
interface Stall {
  /** Its end, on the clock of the stamps, epoch ms. */
  readonly at: number
  readonly ms: number
}

const now = (): number => performance.timeOrigin + performance.now()

/** How even the clock of the stamps ran. */
export interface StampClock {
  /** The stalls above 20 ms. */
  readonly stalls: readonly Stall[]
  /** By how much the wall clock of the machine moved against the stamps, which never step, ms. */
  readonly wallShiftMs: number
}

/** Watches the clock of this process. Keeps a timer for as long as the process lives. */
function watchClock(): () => StampClock {
  const everyMs = 5
  const stalls: Stall[] = []
  let last = now()
  const shift = { least: 0, most: 0 }
  const before = Date.now() - last
  setInterval(() => {
    const at = now()
    const ms = at - last - everyMs
    if (ms > 20) stalls.push({ at, ms })
    last = at
    const moved = Date.now() - at - before
    shift.least = Math.min(shift.least, moved)
    shift.most = Math.max(shift.most, moved)
  }, everyMs).unref()
  return () => ({ stalls, wallShiftMs: shift.most - shift.least })
}

export async function createHttpSink(
  options: { port?: number; rules?: readonly HttpRule[] } = {},
): Promise<HttpSink> {
  const numbers = new Map<Socket, number>()
  const used = new Map<HttpRule, number>()

  function ruleFor(said: string): HttpRule {
    for (const rule of sink.rules) {
      if (rule.match !== undefined && !new RegExp(rule.match).test(said)) continue
      const count = used.get(rule) ?? 0
      used.set(rule, count + 1)
      const after = rule.after ?? 0
      if (count >= after && count < after + (rule.times ?? Number.POSITIVE_INFINITY)) return rule
    }
    return {}
  }

  function answer(response: ServerResponse, rule: HttpRule): void {
    if (rule.do === 'hang') return
    if (rule.do === 'reset') {
      response.socket?.resetAndDestroy()
      return
    }
    response.writeHead(rule.status ?? 200, rule.headers)
    if (rule.do === 'stall') response.write(rule.body ?? 'and then')
    else if (rule.do === 'flood') flood(response)
    else response.end(rule.body ?? 'ok')
  }

  function serve(request: IncomingMessage, response: ServerResponse): void {
    const rule = ruleFor(`${request.method} ${request.url}`)
    if (rule.do === 'reset-early') {
      request.socket.resetAndDestroy()
      return
    }
    const chunks: Buffer[] = []
    request.on('error', () => {})
    response.on('error', () => {})
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      sink.requests.push({
        at: now(),
        connection: numbers.get(request.socket)!,
        method: request.method ?? '',
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks).toString('utf8'),
      })
      if (rule.delayMs === undefined) answer(response, rule)
      else setTimeout(() => answer(response, rule), rule.delayMs)
    })
  }

  const server = createServer(serve)
  server.on('connection', (socket) => {
    sink.connections.opened += 1
    sink.connections.open += 1
    numbers.set(socket, sink.connections.opened)
    socket.on('close', () => {
      numbers.delete(socket)
      sink.connections.open -= 1
    })
  })
  const sink = {
    port: 0,
    url: '',
    requests: [] as SunkRequest[],
    connections: { opened: 0, open: 0 },
    rules: [...(options.rules ?? [])],
    hangUp: () => server.closeAllConnections(),
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, '127.0.0.1', resolve))
  sink.port = (server.address() as { port: number }).port
  sink.url = `http://127.0.0.1:${sink.port}`
  return sink
}

function flood(response: ServerResponse): void {
  const chunk = Buffer.alloc(16_384, 'x')
  const more = (): void => {
    while (!response.destroyed && response.write(chunk)) {}
  }
  response.on('drain', more)
  more()
}

if (import.meta.main) {
  const sink = await createHttpSink({ port: Number(process.argv[2] ?? 0) })
  const say = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value)}\n`)
  const clock = watchClock()
  say({ port: sink.port })
  for await (const line of createInterface({ input: process.stdin })) {
    const [order, ...rest] = line.split(' ')
    if (order === 'dump')
      say({
        requests: sink.requests.slice(Number(rest[0] ?? 0)),
        connections: sink.connections,
        clock: clock(),
      })
    else if (order === 'clear') say({ cleared: sink.requests.splice(0).length })
    else if (order === 'rules') {
      sink.rules = JSON.parse(rest.join(' ')) as HttpRule[]
      say({ rules: sink.rules.length })
    } else if (order === 'stop') break
    else say({ error: `unknown order ${order}` })
  }
  await sink.close()
  process.stdin.destroy()
}
