/**
 * Generates the description of the WebSocket (AsyncAPI 3.1) from the schemas that check the messages. The
 * described application is the gateway: it receives the clients' messages, and sends the others.
 */
import type { TSchema } from '@sinclair/typebox'
import { clientMessages, closeCodes, serverMessages } from './messages.ts'
import { subprotocol, webSocketPath } from './request.ts'

type Schemas = Readonly<Record<string, TSchema>>

export function asyncApiDocument(version: string): object {
  const client: Schemas = clientMessages
  const server: Schemas = serverMessages
  const all = { ...client, ...server }
  return {
    asyncapi: '3.1.0',
    info: {
      title: 'Sluice',
      version,
      description: [
        'Channels of a tenant, and the notifications of the channel `websocket`.',
        `The token goes in the header Authorization, or as the second subprotocol: new WebSocket(url, ['${subprotocol}', token]).`,
        `Close codes: ${closeCodes.shutdown} shutdown, ${closeCodes.tooLarge} message too large, ${closeCodes.expired} token expired, ${closeCodes.unread} does not read, ${closeCodes.tooMany} too many connections of the tenant.`,
      ].join('\n\n'),
      contact: { name: 'Sluice', url: 'https://github.com/sluice/sluice' },
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
      tags: [{ name: 'Events', description: 'Channels of a tenant.' }],
    },
    defaultContentType: 'application/json',
    servers: {
      gateway: {
        host: 'localhost:8080',
        protocol: 'ws',
        description: 'The gateway that serves this document, at its own host and port.',
        security: [{ $ref: '#/components/securitySchemes/bearer' }],
      },
    },
    channels: {
      socket: {
        address: webSocketPath,
        title: 'One connection',
        messages: Object.fromEntries(
          Object.keys(all).map((name) => [name, { $ref: `#/components/messages/${name}` }]),
        ),
        bindings: {
          ws: {
            method: 'GET',
            headers: {
              type: 'object',
              properties: {
                Authorization: { type: 'string', description: 'Bearer, and a JWT.' },
                'Sec-WebSocket-Protocol': { type: 'string', description: `${subprotocol}, and a JWT.` },
              },
            },
          },
        },
      },
    },
    operations: {
      hear: operation('receive', 'Messages that clients send', client),
      say: operation('send', 'Messages that clients receive', server),
    },
    components: {
      messages: Object.fromEntries(
        Object.entries(all).map(([name, schema]) => [
          name,
          {
            name,
            contentType: 'application/json',
            ...(schema.description === undefined ? {} : { summary: schema.description }),
            payload: { $ref: `#/components/schemas/${name}` },
          },
        ]),
      ),
      schemas: plain(all),
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
    },
  }
}

function operation(action: 'receive' | 'send', summary: string, messages: Schemas): object {
  return {
    action,
    summary,
    description: `${summary}: ${Object.keys(messages).join(', ')}.`,
    channel: { $ref: '#/channels/socket' },
    messages: Object.keys(messages).map((name) => ({ $ref: `#/channels/socket/messages/${name}` })),
  }
}

/** Converts schemas to JSON, without TypeBox's own keys and without formats that only this program knows. */
function plain(schemas: Schemas): object {
  return JSON.parse(JSON.stringify(schemas, (key, value) => (key === 'format' ? undefined : value)))
}
