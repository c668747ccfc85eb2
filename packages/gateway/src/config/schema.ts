/**
 * The schema of sluice.yaml. It is at once the check at start, the type of the document, and the JSON Schema
 * that editors use (schema/sluice.json). `expects` says in words what a field must be; every refusal quotes it.
 */
import { type Static, Type } from '@sinclair/typebox'
import { type Channel, channels } from '../model.ts'
import { logComponents } from '../observability/log-events.ts'
import { alertsSchema } from './alerts.ts'
import { authSchema } from './auth-schema.ts'
import { logLevels } from './config.ts'
import { intakeSchema } from './intake.ts'
import { networkSchema } from './network.ts'
import { poolsSchema } from './pool-schema.ts'
import { count, duration, rate, size, text } from './schema-terms.ts'

/** The least characters of a key for HMAC-SHA256. */
export const secretMin = 16

const closed = { additionalProperties: false } as const

const httpSchema = Type.Object(
  {
    host: Type.Optional(
      text('a host name or IP address', {
        description: 'Without keys (auth) loopback only. Default 127.0.0.1.',
      }),
    ),
    port: Type.Optional(count(0, 65_535, 'Default 8080; 0 takes any free port.')),
    publicUrl: Type.Optional(
      text('an https URL such as https://notify.example.com', {
        description: 'Where the world reaches this gateway; makes one-click unsubscribe links possible.',
      }),
    ),
    drainMs: Type.Optional(duration('How long a stop may take. Default 30s.')),
    drainDelay: Type.Optional(
      duration('How long /readyz answers 503 on SIGTERM before the listener closes. Default 0.'),
    ),
    overLimitStatus: Type.Optional(
      Type.Union([Type.Literal(429), Type.Literal(202)], {
        expects: '429 or 202',
        description: 'The answer for what was queued behind a tenant or module limit. Default 429.',
      }),
    ),
    requestTimeout: Type.Optional(duration('By when a whole request must have arrived. Default 10s.')),
    connectionsMax: Type.Optional(
      count(1, 1_000_000, 'Connections open at once; above it new ones are dropped. Default 10000.'),
    ),
    bodyMax: Type.Optional(size('Of a request. Default 1MiB.')),
    batchBodyMax: Type.Optional(size('Of a batch. Default 8MiB.')),
    dataMax: Type.Optional(size('Of `data`, as JSON. Default 64KiB.')),
  },
  { ...closed, description: 'The HTTP interface.' },
)

const tenantSchema = Type.Object(
  {
    rate: Type.Optional(rate('For all modules together. Default 100/min.')),
    modules: Type.Optional(rate('For each module. Default 50/min.')),
    queue: Type.Optional(
      count(
        1,
        100_000_000,
        'Places for what is queued or waits for a tenant or module limit. Default 10000.',
      ),
    ),
    waiting: Type.Optional(
      count(1, 1_000_000_000, 'Places for what is scheduled, in quiet hours or collecting. Default 1000000.'),
    ),
    reads: Type.Optional(rate('Lists, timelines and searches; above it 429. Default 100/s.')),
    writes: Type.Optional(rate('Changes that send nothing; above it 429. Default 1000/s.')),
    bytes: Type.Optional(
      size(
        'Content of what waits, as it is stored: that of a batch once, however many get it. Default 1GiB.',
      ),
    ),
    weight: Type.Optional(count(1, 1_000, 'Its share of the sending, against the others’. Default 1.')),
    websocket: Type.Optional(
      Type.Object(
        {
          rate: Type.Optional(rate('What its clients publish; above it messages wait. Default 200/s.')),
          connections: Type.Optional(
            count(0, 1_000_000, 'Open at once; one more is closed with 4429. Default 1000.'),
          ),
        },
        { ...closed, description: 'Its WebSockets.' },
      ),
    ),
  },
  closed,
)

const absentRule = text('wait, drop, or fallback: and a channel, as in fallback:push', {
  pattern: `^(wait|drop|fallback:(${channels.filter((channel) => channel !== 'websocket').join('|')}))$`,
  define: 'absent',
})

const webSocketSchema = Type.Object(
  {
    messageMax: Type.Optional(
      size('Of a client’s frame or message; a larger one ends with 1009. Default 64KiB.'),
    ),
    subscriptions: Type.Optional(count(1, 100_000, 'Of one connection. Default 50.')),
    frames: Type.Optional(
      count(
        1,
        1_000_000,
        'That one connection may send in a second; what is above is read later. Default 1000.',
      ),
    ),
    waiting: Type.Optional(
      count(0, 1_000_000, 'Messages of one tenant that wait for its rate. Default 1000.'),
    ),
    unread: Type.Optional(
      size('What may wait for a client that does not read before it ends with 4408. Default 1MiB.'),
    ),
    heartbeat: Type.Optional(
      duration('Between two pings; who answers none is cut off at the next. Default 30s.'),
    ),
    connections: Type.Optional(
      count(
        1,
        1_000_000,
        'Of all tenants together; fewer than http.connectionsMax, so that HTTP keeps some. Default 8000.',
      ),
    ),
    absent: Type.Optional(
      Type.Record(Type.String({ minLength: 1, maxLength: 64 }), absentRule, {
        description:
          'By category, and `default` for the others: what becomes of a notification for somebody who is not connected. Default wait.',
      }),
    ),
    waitMax: Type.Optional(
      duration('How long a notification waits for its recipient to connect. Default 24h.'),
    ),
  },
  { ...closed, description: 'The WebSocket at /ws.' },
)

const levelOfPart = Type.Optional(
  Type.Union(
    logLevels.map((level) => Type.Literal(level)),
    { expects: `one of ${logLevels.join(', ')}`, define: 'logLevel' },
  ),
)

const poolOfChannel = Type.Optional(poolsSchema)

export const configSchema = Type.Object(
  {
    http: Type.Optional(httpSchema),
    auth: Type.Optional(authSchema),
    store: Type.Optional(
      text('sqlite:<path> or postgres://user@host/database', {
        description: 'Where everything is kept. Default sqlite:./data/sluice.db.',
      }),
    ),
    storeFile: Type.Optional(
      text('the path of a file', { description: 'A file with the address of the store, in place of it.' }),
    ),
    state: Type.Optional(
      text('memory, redis://user:password@host:6379/0 or redis-cluster://host1,host2', {
        description: 'Where the limits count: in this process, or over all processes. Default memory.',
      }),
    ),
    stateFile: Type.Optional(
      text('the path of a file', { description: 'A file with the address of the state, in place of it.' }),
    ),
    queue: Type.Optional(
      text('embedded or amqp://user:password@host1,host2/vhost', {
        description: 'Where notifications wait for a provider. Default embedded, in the process.',
      }),
    ),
    queueFile: Type.Optional(
      text('the path of a file', { description: 'A file with the address of the queue, in place of it.' }),
    ),
    intake: Type.Optional(intakeSchema),
    deliveryLog: Type.Optional(
      text('store or cassandra://user:password@host1,host2/keyspace?dc=datacenter1', {
        description:
          'Where changes of state are logged beside the store. Default store, which keeps them alone.',
      }),
    ),
    deliveryLogFile: Type.Optional(
      text('the path of a file', {
        description: 'A file with the address of the delivery log, in place of it.',
      }),
    ),
    policy: Type.Optional(
      text('the path of a policy file', { description: 'Replaces the built-in policy.' }),
    ),
    templates: Type.Optional(
      text('the path of a folder', { description: 'Templates that come before the built-in ones.' }),
    ),
    tenants: Type.Optional(
      Type.Record(Type.String({ minLength: 1, maxLength: 256 }), tenantSchema, {
        description: 'By tenant; `default` holds for every tenant without an entry of its own.',
      }),
    ),
    websocket: Type.Optional(webSocketSchema),
    pools: Type.Optional(
      Type.Object(
        Object.fromEntries(channels.map((channel) => [channel, poolOfChannel])) as Record<
          Channel,
          typeof poolOfChannel
        >,
        {
          ...closed,
          description: 'Which provider serves a channel. Without any, the sandbox serves all of them.',
        },
      ),
    ),
    limits: Type.Optional(
      Type.Object(
        { margin: Type.Optional(duration('Each window is kept this much longer. Default 20ms.')) },
        closed,
      ),
    ),
    alerts: Type.Optional(alertsSchema),
    network: Type.Optional(networkSchema),
    unsubscribe: Type.Optional(
      Type.Object(
        {
          secret: Type.Optional(
            text(`a secret of at least ${secretMin} characters`, {
              minLength: secretMin,
              secret: true,
              description: 'Signs the unsubscribe links. Default: made once and kept beside the database.',
            }),
          ),
          secretFile: Type.Optional(text('the path of a file that holds the secret')),
        },
        closed,
      ),
    ),
    retention: Type.Optional(
      Type.Object(
        {
          answers: Type.Optional(
            duration('How long the answer to an Idempotency-Key is kept, at least 24h. Default 24h.'),
          ),
          notifications: Type.Optional(duration('How long ended notifications are kept. Default 31d.')),
          deliveryLog: Type.Optional(
            duration('How long a delivery log outside of the store keeps its entries. Default 365d.'),
          ),
        },
        closed,
      ),
    ),
    log: Type.Optional(
      Type.Object(
        {
          level: Type.Optional(
            Type.Union(
              logLevels.map((level) => Type.Literal(level)),
              { expects: `one of ${logLevels.join(', ')}`, description: 'Default info.' },
            ),
          ),
          format: Type.Optional(
            Type.Union([Type.Literal('json'), Type.Literal('text')], {
              expects: 'json or text',
              description: 'Default text on a terminal, json elsewhere.',
            }),
          ),
          recipient: Type.Optional(
            Type.Union([Type.Literal('hash'), Type.Literal('plain'), Type.Literal('none')], {
              expects: 'hash, plain or none',
              description: 'How a line names a recipient. Default hash, as `sluice hash` makes it.',
            }),
          ),
          host: Type.Optional(
            Type.Boolean({
              expects: 'true or false',
              description: 'Process id and machine in each line. Default false.',
            }),
          ),
          requests: Type.Optional(
            Type.Union([Type.Literal('failed'), Type.Literal('all')], {
              expects: 'failed or all',
              description: 'Requests with a line at info. Default failed, which includes slow ones.',
            }),
          ),
          levels: Type.Optional(
            Type.Object(Object.fromEntries(logComponents.map((part) => [part, levelOfPart])), {
              ...closed,
              description: 'Levels of events by the part before their dot.',
            }),
          ),
        },
        closed,
      ),
    ),
    metrics: Type.Optional(
      Type.Object(
        {
          accounts: Type.Optional(
            Type.Boolean({
              expects: 'true or false',
              description: 'Metrics of each account at /metrics/accounts. Default false.',
            }),
          ),
          tenants: Type.Optional(
            Type.Object(
              { top: Type.Optional(count(1, 1_000, 'Tenants with the most notifications. Default 20.')) },
              { ...closed, description: 'Metrics of tenants at /metrics/tenants. Default none.' },
            ),
          ),
          host: Type.Optional(text('a host name or IP address', { description: 'Default 127.0.0.1.' })),
          port: Type.Optional(
            count(0, 65_535, 'All metrics on a port of their own, and not beside the API. Default none.'),
          ),
        },
        closed,
      ),
    ),
  },
  { ...closed, $id: 'urn:sluice:schema:configuration', title: 'Configuration of Sluice (sluice.yaml)' },
)

/** The document of the file, when it fits the schema. */
export type ConfigDocument = Static<typeof configSchema>
