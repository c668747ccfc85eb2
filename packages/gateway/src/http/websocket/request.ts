/** Reads the path and token of an upgrade request. */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'

export const webSocketPath = '/ws'
/** The subprotocol that the server speaks. */
export const subprotocol = 'sluice'

export function isWebSocketUpgrade({ url, headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket' && url?.split('?', 1)[0] === webSocketPath
}

/**
 * Takes the token from the request. Browsers cannot set the header Authorization on a WebSocket: there the
 * token is the second subprotocol, after `sluice`. The header is preferred where both are given.
 */
export function withToken(headers: IncomingHttpHeaders): { readonly headers: IncomingHttpHeaders } {
  if (headers.authorization !== undefined) return { headers }
  const [first, token] = (headers['sec-websocket-protocol'] ?? '').split(',').map((each) => each.trim())
  if (first !== subprotocol || token === undefined || token === '') return { headers }
  return { headers: { ...headers, authorization: `Bearer ${token}` } }
}
