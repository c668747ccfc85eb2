/**
 * The messages of a WebSocket, in both directions, as schemas: they check the clients' messages, are the types
 * here, and make the published document (asyncapi.ts). Every message is one JSON object in one text frame.
 */
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { SluiceError } from '../../errors.ts'
import { isDeeperThan, parseJson } from '../json.ts'
import { type Check, compileCheck } from '../validation.ts'

/** The close codes of the server; 4000 and above are for applications (RFC 6455, 7.4.2). */
export const closeCodes = {
  shutdown: 1001,
  tooLarge: 1009,
  expired: 4401,
  unread: 4408,
  tooMany: 4429,
} as const

const channelLengthMax = 300
const dataLevelsMax = 32

const closed = { additionalProperties: false } as const

const channel = Type.String({
  minLength: 1,
  maxLength: channelLengthMax,
  format: 'channel-name',
  description: 'Without the prefix of the tenant, which nobody sees.',
})
const data = Type.Unknown({ description: `Any JSON, at most ${dataLevelsMax} levels deep.` })

export const clientMessages = {
  subscribe: Type.Object(
    { type: Type.Literal('subscribe'), channel },
    { ...closed, description: 'From here on what is published to the channel comes to this connection.' },
  ),
  unsubscribe: Type.Object(
    { type: Type.Literal('unsubscribe'), channel },
    { ...closed, description: 'From here on no more of it.' },
  ),
  publish: Type.Object(
    { type: Type.Literal('publish'), channel, data },
    { ...closed, description: 'To everybody subscribed to the channel; needs the scope sluice:publish.' },
  ),
  ping: Type.Object(
    { type: Type.Literal('ping') },
    { ...closed, description: 'Whether somebody is there; answered by pong.' },
  ),
} as const

export type ClientMessage =
  | Static<typeof clientMessages.subscribe>
  | Static<typeof clientMessages.unsubscribe>
  | Static<typeof clientMessages.publish>
  | Static<typeof clientMessages.ping>

const text = Type.String({ description: 'For people; may change.' })

export const serverMessages = {
  message: Type.Object(
    { type: Type.Literal('message'), channel, data },
    { ...closed, description: 'Something was published, or is for the person of `recipient:<id>`.' },
  ),
  subscribed: Type.Object({ type: Type.Literal('subscribed'), channel }, closed),
  unsubscribed: Type.Object({ type: Type.Literal('unsubscribed'), channel }, closed),
  pong: Type.Object({ type: Type.Literal('pong') }, closed),
  warning: Type.Object(
    { type: Type.Literal('warning'), code: Type.Literal('WS_RATE_LIMITED'), message: text },
    { ...closed, description: 'What this connection publishes is late; at most once a second.' },
  ),
  error: Type.Object(
    {
      type: Type.Literal('error'),
      code: Type.Union([
        Type.Literal('WS_BAD_MESSAGE'),
        Type.Literal('WS_TOO_MANY_SUBSCRIPTIONS'),
        Type.Literal('WS_BUFFER_FULL'),
        Type.Literal('WS_FORBIDDEN'),
      ]),
      message: text,
      channel: Type.Optional(channel),
    },
    { ...closed, description: 'A message of the client had no effect. The connection stays.' },
  ),
} as const

export type ServerMessage = {
  [Name in keyof typeof serverMessages]: Static<(typeof serverMessages)[Name]>
}[keyof typeof serverMessages]

const checks = new Map<string, Check>(
  Object.entries(clientMessages).map(([type, schema]: [string, TSchema]) => [type, compileCheck(schema)]),
)
const types = [...checks.keys()].join(', ')

export function badMessage(detail: string): SluiceError {
  return new SluiceError('WS_BAD_MESSAGE', detail)
}

/** Parses a client's message. Throws WS_BAD_MESSAGE. */
export function readClientMessage(bytes: Buffer): ClientMessage {
  const value = parse(bytes)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badMessage('A message is a JSON object with a type.')
  const { type } = value as { readonly type?: unknown }
  const check = typeof type === 'string' ? checks.get(type) : undefined
  if (check === undefined) throw badMessage(`/type must be one of ${types}.`)
  const [fault] = check(value) ?? []
  if (fault !== undefined) throw badMessage(`${fault.path} ${fault.message}.`)
  const message = value as ClientMessage
  if (message.type === 'publish' && isDeeperThan(message.data, dataLevelsMax))
    throw badMessage(`/data must not be deeper than ${dataLevelsMax} levels.`)
  return message
}

function parse(bytes: Buffer): unknown {
  try {
    return parseJson(bytes, 'message')
  } catch (error) {
    throw badMessage((error as Error).message)
  }
}
