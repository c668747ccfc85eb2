/** Serves the metrics on a port of their own, where the API is public and they are not. */
import { http } from '../node-http.ts'
import type { Metrics } from '../observability/metrics.ts'

export interface MetricsServer {
  /** Resolves with the address when requests are answered. */
  listen(): Promise<string>
  close(): Promise<void>
}

const requestTimeoutMs = 10_000
const connectionsMax = 100

export function createMetricsServer(
  metrics: Pick<Metrics, 'contentType' | 'text' | 'apart'>,
  { host, port }: { readonly host: string; readonly port: number },
): MetricsServer {
  const server = http.createServer({ requestTimeout: requestTimeoutMs }, (request, response) => {
    request.resume()
    const path = request.url?.split('?', 1)[0] ?? ''
    const text = path === '/metrics' ? metrics.text : metrics.apart.get(path)
    if (request.method !== 'GET' || text === undefined) {
      response.writeHead(request.method === 'GET' ? 404 : 405).end()
      return
    }
    text().then(
      (answer) => response.writeHead(200, { 'content-type': metrics.contentType }).end(answer),
      () => response.writeHead(500).end(),
    )
  })
  server.maxConnections = connectionsMax
  return {
    async listen() {
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject)
        server.listen(port, host, () => resolve())
      })
      const address = server.address()
      return `http://${host}:${typeof address === 'object' ? address?.port : port}`
    },
    async close() {
      if (!server.listening) return
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
