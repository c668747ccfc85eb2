/**
 * What a TypeScript team would join together today: Fastify with a JSON Schema, rate-limiter-flexible over Redis (the
 * tenant, then day, week and month of the recipient), a BullMQ queue, a worker in the same process, and the record of
 * the delivery in Redis. It takes the very requests that ours takes. JavaScript, because its packages are no
 * dependencies of the project, so that there are no types of them to check against.
 */
import { randomUUID } from 'node:crypto'
import { Queue, Worker } from 'bullmq'
import Fastify from 'fastify'
import { Redis } from 'ioredis'
import { RateLimiterRedis, RateLimiterUnion } from 'rate-limiter-flexible'

const queueName = 'notifications'
const day = 86_400
const windows = [
  ['day', 200, day],
  ['week', 500, 7 * day],
  ['month', 1_000, 30 * day],
]
const text = (maxLength) => ({ type: 'string', minLength: 1, maxLength })
const recipient = {
  type: 'object',
  additionalProperties: false,
  required: ['id'],
  properties: { id: text(256), email: text(254), data: { type: 'object' } },
}
const message = {
  channel: { type: 'string', enum: ['email', 'sms', 'push'] },
  category: text(64),
  priority: { type: 'string', enum: ['critical', 'high', 'normal', 'low'] },
  content: {
    type: 'object',
    additionalProperties: false,
    properties: { subject: text(998), text: text(1_048_576) },
  },
  data: { type: 'object' },
}
const body = (properties, required) => ({
  type: 'object',
  additionalProperties: false,
  properties: { ...properties, ...message },
  required,
})
const single = body({ recipient }, ['recipient', 'channel', 'content'])
const batch = body({ recipients: { type: 'array', minItems: 1, maxItems: 500, items: recipient } }, [
  'recipients',
  'channel',
  'content',
])
const reply = { 202: { type: 'object', properties: { status: { type: 'string' }, id: { type: 'string' } } } }

/** @param replicas so many have a job before it is answered for */
export async function open({ redisPort, replicas = 0, settled }) {
  const connection = { host: '127.0.0.1', port: redisPort }
  const redis = new Redis({ ...connection, enableAutoPipelining: true })
  const record = new Redis({ ...connection, enableAutoPipelining: true })
  // `WAIT` asks about the writes of its own connection.
  const adding = new Redis({ ...connection, maxRetriesPerRequest: null })
  const queue = new Queue(queueName, {
    connection: adding,
    defaultJobOptions: {
      removeOnComplete: true,
      removeOnFail: 1_000,
      attempts: 3,
      backoff: { type: 'exponential', delay: 1_000 },
    },
  })
  const tenants = new RateLimiterRedis({
    storeClient: redis,
    keyPrefix: 'tenant',
    points: 10_000_000,
    duration: 60,
  })
  const people = new RateLimiterUnion(
    ...windows.map(
      ([name, points, duration]) =>
        new RateLimiterRedis({ storeClient: redis, keyPrefix: name, points, duration }),
    ),
  )
  let replicated
  let waiting = Promise.resolve()
  /** Resolves once the replicas have all that was added: those that come while some wait go together behind them. */
  const kept = () => {
    if (replicas === 0) return undefined
    replicated ??= waiting.then(async () => {
      replicated = undefined
      waiting = adding.wait(replicas, 10_000)
      if ((await waiting) < replicas) throw new Error('a replica does not follow')
    })
    return replicated
  }
  const admitted = (consumed) =>
    consumed.then(
      () => true,
      (refusal) => {
        if (refusal instanceof Error) throw refusal
        return false
      },
    )

  const app = Fastify({ logger: false, bodyLimit: 8 << 20 })
  app.post('/notifications', { schema: { body: single, response: reply } }, async (request, answer) => {
    const tenant = request.headers['x-tenant-id']
    const id = randomUUID()
    const passed =
      (await admitted(tenants.consume(tenant))) &&
      (await admitted(people.consume(`${tenant}:${request.body.recipient.id}`)))
    if (!passed) return answer.code(429).send({ status: 'limited', id })
    await queue.add('send', { id, tenant, ...request.body })
    await kept()
    return answer.code(202).send({ status: 'queued', id })
  })
  app.post('/notifications/batch', { schema: { body: batch } }, async (request, answer) => {
    const tenant = request.headers['x-tenant-id']
    const { recipients, ...rest } = request.body
    if (!(await admitted(tenants.consume(tenant, recipients.length)))) return answer.code(429).send({})
    const passed = await Promise.all(recipients.map(({ id }) => admitted(people.consume(`${tenant}:${id}`))))
    const jobs = recipients
      .filter((_, index) => passed[index])
      .map(({ data, ...to }) => ({
        name: 'send',
        data: { id: randomUUID(), tenant, recipient: to, ...rest, data },
      }))
    await queue.addBulk(jobs)
    await kept()
    return answer.code(202).send({ accepted: jobs.length })
  })

  const worker = new Worker(
    queueName,
    async ({ data: { id, data } }) => {
      // The provider: it accepts after one turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve))
      await record.hset(`notification:${id}`, 'status', 'delivered', 'at', Date.now())
      settled(data.number)
    },
    { connection, concurrency: 100 },
  )
  worker.on('error', (error) => console.error(String(error)))
  await worker.waitUntilReady()
  await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    port: app.server.address().port,
    async close() {
      app.server.closeAllConnections()
      await app.close()
      await worker.close(true)
      await queue.close()
      adding.disconnect()
      redis.disconnect()
      record.disconnect()
    },
  }
}
