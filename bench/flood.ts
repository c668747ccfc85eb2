/**
 * The slowdown of one sequential client by a flood of valid requests. The flood is of one tenant, in a
 * process of its own and in a closed loop: on few connections with many requests each behind one another (pipelined),
 * and on many connections with one each. The gateway and the one who behaves are a process each, too.
 *
 *     npm run bench -- flood [--rounds 3] [--seconds 3]
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { options } from './catalogue.ts'
import { median, percentile } from './figures.ts'
import type { Cost } from './host.ts'
import { answer, start } from './process.ts'

interface Flood {
  readonly port: number
  readonly connections: number
  /** Requests of a connection that are sent before the first of them is answered. */
  readonly depth: number
  readonly kind: 'GET' | 'POST'
}

interface Found {
  readonly name: string
  readonly p50: number[]
  readonly p99: number[]
  readonly perSecond: number[]
  /** CPU time of the gateway, µs a request of either. */
  readonly cpu: number[]
}

const role = process.argv[2]
if (role === 'flood') flood()
else if (role === 'neighbour') neighbour()
else await measure()

/** Sends `bytes` and resolves with the status once the answer is there as a whole. */
function requestOf(kind: Flood['kind'], tenant: string, recipient: number): string {
  const head = `X-Tenant-Id: ${tenant}\r\nHost: localhost\r\n`
  if (kind === 'GET') return `GET /api/v1/notifications/none HTTP/1.1\r\n${head}\r\n`
  const body = JSON.stringify({
    recipient: { id: `user-${recipient}`, email: `user-${recipient}@example.com` },
    channel: 'email',
    category: 'marketing',
    content: { subject: 'Hello', text: 'World' },
  })
  return `POST /api/v1/notifications HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
}

/** Calls back for each answer, many in one chunk or one in many. */
function onAnswers(socket: Socket, done: (status: string) => void): void {
  let text = ''
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    text += chunk
    let from = 0
    for (;;) {
      const end = text.indexOf('\r\n\r\n', from)
      if (end < 0) break
      const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(from, end))?.[1]
      const next = end + 4 + Number(length ?? 0)
      if (next > text.length) break
      done(text.slice(from + 9, from + 12))
      from = next
    }
    text = text.slice(from)
  })
}

function flood(): void {
  const sockets: Socket[] = []
  let answered = 0
  let recipient = 0
  answer({
    async begin({ port, connections, depth, kind }: Flood) {
      const many = (): string =>
        Array.from({ length: depth }, () => requestOf(kind, 'noisy', recipient++ % 10_000)).join('')
      for (let n = 0; n < connections; n += 1) {
        const socket = connect(port, '127.0.0.1').setNoDelay()
        socket.on('error', () => {})
        await once(socket, 'connect')
        sockets.push(socket)
      }
      answered = 0
      for (const socket of sockets) {
        let open = depth
        onAnswers(socket, () => {
          answered += 1
          open -= 1
          if (open > 0 || !socket.writable) return
          open = depth
          socket.write(many())
        })
        socket.write(many())
      }
    },
    end() {
      for (const socket of sockets.splice(0)) socket.destroy()
      return answered
    },
  })
}

function neighbour(): void {
  answer({
    async run({ port, seconds, kind }: { port: number; seconds: number; kind: Flood['kind'] }) {
      const socket = connect(port, '127.0.0.1').setNoDelay()
      await once(socket, 'connect')
      let answered: (status: string) => void = () => {}
      onAnswers(socket, (status) => answered(status))
      const tookMs: number[] = []
      for (const end = performance.now() + seconds * 1_000; performance.now() < end; ) {
        const began = performance.now()
        const status = new Promise<string>((resolve) => {
          answered = resolve
        })
        socket.write(requestOf(kind, 'quiet', tookMs.length))
        const expected = kind === 'GET' ? '404' : '202'
        if ((await status) !== expected) throw new Error(`${await status} instead of ${expected}`)
        tookMs.push(performance.now() - began)
      }
      socket.destroy()
      return Float64Array.from(tookMs).sort()
    },
  })
}

async function measure(): Promise<void> {
  const { rounds, seconds } = options('flood')
  const gateway = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide' }))
  const crowd = start('flood.ts', 'flood')
  const quiet = start('flood.ts', 'neighbour')
  const port = await gateway.ask<number>('port')
  const cases = [
    undefined,
    { connections: 20, depth: 20, kind: 'GET' },
    { connections: 20, depth: 20, kind: 'POST' },
    { connections: 20, depth: 200, kind: 'GET' },
    { connections: 20, depth: 1, kind: 'POST' },
    { connections: 200, depth: 1, kind: 'GET' },
    { connections: 200, depth: 1, kind: 'POST' },
    { connections: 1_000, depth: 1, kind: 'POST' },
  ] as const
  const found: Found[] = cases.map((each) => ({
    name:
      each === undefined
        ? 'alone'
        : `beside ${each.connections} connections × ${each.depth} ${each.kind} under way`,
    p50: [],
    p99: [],
    perSecond: [],
    cpu: [],
  }))
  await quiet.ask('run', { port, seconds: 1, kind: 'POST' })
  for (let round = 0; round < rounds; round += 1) {
    for (const [index, each] of cases.entries()) {
      if (each !== undefined) await crowd.ask('begin', { port, ...each } satisfies Flood)
      const before = await gateway.ask<Cost>('cost')
      const sorted = await quiet.ask<Float64Array>('run', { port, seconds, kind: 'POST' })
      const answered = each === undefined ? 0 : await crowd.ask<number>('end')
      const after = await gateway.ask<Cost>('cost')
      found[index]!.perSecond.push(answered / seconds)
      found[index]!.cpu.push((after.cpuMicros - before.cpuMicros) / (answered + sorted.length))
      found[index]!.p50.push(percentile(sorted, 0.5))
      found[index]!.p99.push(percentile(sorted, 0.99))
      await gateway.ask('take')
    }
  }
  for (const { name, p50, p99, perSecond, cpu } of found) {
    const figures = `p50 ${median(p50).toFixed(1)} ms  p99 ${median(p99).toFixed(1)} ms`
    console.log(
      `${name.padEnd(48)} ${figures}  (the others ${median(perSecond).toFixed(0)}/s, ${median(cpu).toFixed(0)} µs a request)`,
    )
  }
  await Promise.all([gateway.stop(), crowd.stop(), quiet.stop()])
}
