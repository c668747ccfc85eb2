/**
 * A wire between a client and its server that tests can make long, and on which they see what passes: each chunk comes
 * out as late as the wire is long, in the order in which it went in.
 */
import { connect, createServer, type Socket } from 'node:net'

export interface Wire {
  readonly port: number
  /** The delay of each chunk, each way, ms. */
  delayMs: number
  /**
   * How often somebody spoke who had waited for an answer: the first words after an answer, or the first of all.
   * What is sent together, in however many chunks, is one turn.
   */
  turns: number
  /** Bytes from the client. */
  bytes: number
  close(): Promise<void>
}

export async function startWire(to: { readonly host: string; readonly port: number }): Promise<Wire> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(to.port, to.host)
    let answered = true
    for (const socket of [client, upstream]) {
      sockets.add(socket.setNoDelay(true))
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.on('data', (chunk) => {
      if (answered) wire.turns += 1
      answered = false
      wire.bytes += chunk.length
      later(() => upstream.write(chunk))
    })
    upstream.on('data', (chunk) => {
      later(() => {
        answered = true
        client.write(chunk)
      })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const wire: Wire = {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    delayMs: 0,
    turns: 0,
    bytes: 0,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
  const later = (pass: () => void): void => {
    if (wire.delayMs === 0) pass()
    else setTimeout(pass, wire.delayMs)
  }
  return wire
}
