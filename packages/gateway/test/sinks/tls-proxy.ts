/** Speaks TLS for an engine that was started without it: what a client sends through it reaches the engine in plain. */
import { type AddressInfo, connect, type Socket } from 'node:net'
import { createServer } from 'node:tls'
import { certificate, certificateKey } from './certificate.ts'

export interface TlsProxy {
  /** Host and port, for which the certificate is valid. */
  readonly node: string
  /** Connections that were made with TLS. */
  readonly secured: () => number
  close(): void
}

/** @param node host and port of the engine */
export async function startTlsProxy(node: string): Promise<TlsProxy> {
  const { hostname, port } = new URL(`tcp://${node}`)
  const sockets = new Set<Socket>()
  let secured = 0
  const server = createServer({ cert: certificate, key: certificateKey }, (client) => {
    secured += 1
    const behind = connect(Number(port), hostname)
    for (const [socket, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      sockets.add(socket)
      socket.pipe(other)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
  })
  // A client that does not trust the certificate ends its handshake.
  server.on('tlsClientError', () => {})
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    node: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    secured: () => secured,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
