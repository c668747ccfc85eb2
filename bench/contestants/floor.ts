/**
 * The least that any gateway of a fleet does for a message, and nothing else: a route with a schema, one question to the
 * exact limits in Redis, one row that is durable in PostgreSQL before the answer, the provider's call of one turn, and that
 * row again with what became of it. Both statements take all that came while the last one was under way. It has no
 * idempotency, no right to send, no takeover, no accounts, no timeline and no lists: it shows how much of the speed the
 * engines themselves leave (bench/bounds.md), and is no gateway.
 */
import { randomUUID } from 'node:crypto'
import { createClient } from '@redis/client'
import Fastify from 'fastify'
import pg from 'pg'
import { createLimits, limit, redisStore } from '../../packages/limits/src/index.ts'
import type { Contestant, Opening } from '../host.ts'

export interface FloorOptions {
  /** The addresses that all processes share. */
  readonly shared: { readonly store: string; readonly state: string }
  /** False: the limits are not asked, so that PostgreSQL and HTTP are left. @defaultValue true */
  readonly isLimited?: boolean
}

interface Message {
  readonly id: string
  readonly tenant: string
  readonly number: number
  readonly body: string
}

interface Recipient {
  readonly id: string
  readonly email?: string
  readonly data?: { readonly number: number }
}

interface Posted {
  readonly recipient?: Recipient
  readonly recipients?: readonly Recipient[]
  readonly data?: { readonly number: number }
}

const text = (maxLength: number) => ({ type: 'string', minLength: 1, maxLength })
const recipient = {
  type: 'object',
  additionalProperties: false,
  required: ['id'],
  properties: { id: text(256), email: text(254), data: { type: 'object' } },
}
const schema = (properties: object, required: readonly string[]) => ({
  body: {
    type: 'object',
    additionalProperties: false,
    properties: {
      ...properties,
      channel: { type: 'string', enum: ['email', 'sms', 'push'] },
      category: text(64),
      priority: { type: 'string', enum: ['critical', 'high', 'normal', 'low'] },
      content: {
        type: 'object',
        additionalProperties: false,
        properties: { subject: text(998), text: text(1_048_576) },
      },
      data: { type: 'object' },
    },
    required,
  },
})
const rules = [limit('day', '200/day'), limit('week', '500/week'), limit('month', '1000/month')]

/** Writes all that came while the last write was under way at once. */
function inGroups<Row>(
  write: (rows: readonly Row[]) => Promise<unknown>,
): (rows: readonly Row[]) => Promise<void> {
  let waiting: Row[] = []
  let next: Promise<void> | undefined
  let last: Promise<unknown> = Promise.resolve()
  return (rows) => {
    waiting.push(...rows)
    next ??= last.then(async () => {
      const group = waiting
      waiting = []
      next = undefined
      last = write(group)
      await last
    })
    return next
  }
}

export async function open({
  shared,
  isLimited = true,
  settled,
}: FloorOptions & Opening): Promise<Contestant> {
  const pool = new pg.Pool({ connectionString: shared.store, max: 2 })
  await pool.query(
    `CREATE TABLE IF NOT EXISTS message (id text PRIMARY KEY, tenant text, body text, status smallint) WITH (fillfactor = 45)`,
  )
  const redis = createClient({ url: shared.state })
  await redis.connect()
  const limits = createLimits({ store: redisStore(redis as never, { deadlineMs: 5_000 }) })

  const accept = inGroups((rows: readonly Message[]) =>
    pool.query({
      name: 'accept',
      text: 'INSERT INTO message SELECT id, tenant, body, 1 FROM unnest($1::text[], $2::text[], $3::text[]) AS row (id, tenant, body)',
      values: [rows.map(({ id }) => id), rows.map(({ tenant }) => tenant), rows.map(({ body }) => body)],
    }),
  )
  const settle = inGroups(async (rows: readonly Message[]) => {
    await pool.query({
      name: 'settle',
      text: 'UPDATE message SET status = 6 WHERE id = ANY ($1::text[])',
      values: [rows.map(({ id }) => id)],
    })
    for (const { number } of rows) settled(number)
  })

  async function send(messages: readonly Message[]): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    await settle(messages)
  }

  async function take(tenant: string, posted: Posted): Promise<readonly Message[]> {
    const { recipient: one, recipients = [one!], data, ...rest } = posted
    const messages = recipients.map((to) => ({
      id: randomUUID(),
      tenant,
      number: (to.data ?? data)!.number,
      body: JSON.stringify({ to, data: to.data ?? data, ...rest }),
    }))
    if (isLimited) {
      const decisions = await Promise.all(recipients.map(({ id }) => limits.take(`${tenant}:${id}`, rules)))
      if (decisions.some(({ allowed }) => !allowed)) throw new Error('a limit is reached')
    }
    await accept(messages)
    void send(messages)
    return messages
  }

  const app = Fastify({ logger: false, bodyLimit: 8 << 20 })
  app.post(
    '/notifications',
    { schema: schema({ recipient }, ['recipient', 'channel', 'content']) },
    async (request, answer) => {
      const [message] = await take(String(request.headers['x-tenant-id']), request.body as Posted)
      return answer.code(202).send({ status: 'queued', id: message!.id })
    },
  )
  const recipients = { type: 'array', minItems: 1, maxItems: 500, items: recipient }
  app.post(
    '/notifications/batch',
    { schema: schema({ recipients }, ['recipients', 'channel', 'content']) },
    async (request, answer) => {
      const messages = await take(String(request.headers['x-tenant-id']), request.body as Posted)
      return answer.code(202).send({ accepted: messages.length })
    },
  )
  await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    port: (app.server.address() as { port: number }).port,
    async close() {
      app.server.closeAllConnections()
      await app.close()
      await pool.end()
      redis.destroy()
    },
  }
}
