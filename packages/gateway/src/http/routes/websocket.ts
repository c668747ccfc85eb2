/** Routes about the WebSocket: its description, and the answer to plain HTTP requests. */
import { SluiceError } from '../../errors.ts'
import { version } from '../openapi.ts'
import type { Route } from '../route.ts'
import { asyncApiDocument } from '../websocket/asyncapi.ts'
import { webSocketPath } from '../websocket/request.ts'

export function webSocketRoutes(): readonly Route[] {
  const published = asyncApiDocument(version)
  return [
    {
      method: 'GET',
      path: webSocketPath,
      operation: 'openWebSocket',
      tag: 'Events',
      summary: 'The WebSocket: see /asyncapi.json',
      access: 'caller',
      answers: { 101: { description: 'The connection speaks WebSocket from here on' } },
      problems: ['UPGRADE_REQUIRED', 'FORBIDDEN', 'WS_UNAVAILABLE'],
      handle(_request, reply) {
        reply.header('upgrade', 'websocket')
        throw new SluiceError('UPGRADE_REQUIRED', 'Ask for an upgrade to websocket (RFC 6455).')
      },
    },
    {
      method: 'GET',
      path: '/asyncapi.json',
      operation: 'getAsyncApi',
      tag: 'Events',
      summary: 'What is said over the WebSocket',
      access: 'open',
      answers: { 200: { description: 'AsyncAPI 3.1', type: 'application/json' } },
      handle: () => published,
    },
  ]
}
