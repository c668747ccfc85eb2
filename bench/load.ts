/**
 * The load generator, a process of its own so that it takes no time from what is measured: raw sockets, requests made
 * beforehand, one in flight a connection. Closed loop, or open loop at a rate, where latency counts from the instant
 * at which a request was due.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { content, dataOf, scattered } from './message.ts'
import { answer } from './process.ts'

export interface Load {
  /** Connections take turns at several. */
  readonly port: number | readonly number[]
  readonly path: string
  readonly connections: number
  /** Messages in all; number `first` and those that follow. */
  readonly total: number
  readonly first: number
  /** Messages a request. @defaultValue 1, and then the body has `recipient` in place of `recipients` */
  readonly batch?: number
  /** Messages a second; absent: as fast as answers come. */
  readonly rate?: number
  /** Absent: a new person each time. */
  readonly recipients?: number
  readonly category?: string
  readonly sendAt?: string
}

export interface Loaded {
  /** By message, ms on the machine's monotonic clock. */
  readonly sent: Float64Array
  readonly acknowledged: Float64Array
  readonly statuses: Readonly<Record<string, number>>
}

/** The same in every process. */
const now = (): number => Number(process.hrtime.bigint()) / 1e6

interface Request {
  readonly bytes: Buffer
  readonly from: number
  readonly to: number
}

function requestsOf(load: Load): Request[] {
  const { total, first, batch = 1, recipients, category = 'marketing', sendAt } = load
  const recipient = (n: number) => {
    const id = `user-${recipients === undefined ? n : scattered(n, recipients)}`
    return { id, email: `${id}@example.com` }
  }
  const requests: Request[] = []
  for (let from = 0; from < total; from += batch) {
    const to = Math.min(from + batch, total)
    const message = { channel: 'email', category, priority: 'normal', content, ...(sendAt ? { sendAt } : {}) }
    const body = JSON.stringify(
      load.batch === undefined
        ? { recipient: recipient(first + from), ...message, data: dataOf(first + from) }
        : {
            recipients: Array.from({ length: to - from }, (_, i) => ({
              ...recipient(first + from + i),
              data: dataOf(first + from + i),
            })),
            ...message,
          },
    )
    const tenant = `tenant-${requests.length % 10}`
    const head = `POST ${load.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nX-Tenant-Id: ${tenant}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n`
    requests.push({ bytes: Buffer.from(head + body), from, to })
  }
  return requests
}

interface Connection {
  readonly socket: Socket
  request: Request | undefined
}

/** Calls back with the status of each answer; bodies are passed over unread. */
function onAnswers(socket: Socket, done: (status: string) => void): void {
  let text = ''
  let missing = 0
  let status = ''
  socket.setEncoding('latin1')
  socket.on('data', (chunk: string) => {
    if (missing > 0) {
      missing -= chunk.length
      if (missing <= 0) done(status)
      return
    }
    text += chunk
    const end = text.indexOf('\r\n\r\n')
    if (end < 0) return
    status = text.slice(9, 12)
    const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, end))?.[1]
    missing = end + 4 + Number(length) - text.length
    text = ''
    if (missing <= 0) done(status)
  })
}

async function run(load: Load): Promise<Loaded> {
  const requests = requestsOf(load)
  const ports = [load.port].flat()
  const sent = new Float64Array(load.total)
  const acknowledged = new Float64Array(load.total)
  const statuses: Record<string, number> = {}
  const all = Promise.withResolvers<void>()
  const idle: Connection[] = []
  let next = 0
  let done = 0
  let begun = 0
  const dueAt = (index: number): number =>
    load.rate === undefined ? 0 : begun + (requests[index]!.from / load.rate) * 1_000

  function send(connection: Connection): void {
    const request = requests[next]!
    sent.fill(load.rate === undefined ? now() : dueAt(next), request.from, request.to)
    next += 1
    connection.request = request
    connection.socket.write(request.bytes)
  }

  const connections = await Promise.all(
    Array.from({ length: load.connections }, async (_, n): Promise<Connection> => {
      const socket = connect(ports[n % ports.length]!, '127.0.0.1').setNoDelay()
      await once(socket, 'connect')
      const connection: Connection = { socket, request: undefined }
      socket.on('error', all.reject)
      onAnswers(socket, (status) => {
        const { from, to } = connection.request!
        acknowledged.fill(now(), from, to)
        statuses[status] = (statuses[status] ?? 0) + 1
        done += 1
        if (done === requests.length) all.resolve()
        else if (next < requests.length && dueAt(next) <= now()) send(connection)
        else idle.push(connection)
      })
      return connection
    }),
  )
  begun = now() + 1
  let timer: NodeJS.Timeout | undefined
  if (load.rate === undefined) {
    for (const connection of connections) if (next < requests.length) send(connection)
  } else {
    idle.push(...connections)
    timer = setInterval(() => {
      while (next < requests.length && idle.length > 0 && dueAt(next) <= now()) send(idle.pop()!)
    }, 1)
  }
  await all.promise
  clearInterval(timer)
  for (const { socket } of connections) socket.destroy()
  return { sent, acknowledged, statuses }
}

answer({ run })
