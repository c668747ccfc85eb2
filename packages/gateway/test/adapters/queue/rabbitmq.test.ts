/** The suite of every broker, on a real RabbitMQ, and what only RabbitMQ does. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import process from 'node:process'
import { after, afterEach, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Channel, Connection } from 'rabbitmq-client'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { createRabbitmqQueues, queueOf } from '../../../src/adapters/queue/rabbitmq.ts'
import type { RabbitmqAddress } from '../../../src/adapters/queue/rabbitmq-client.ts'
import { lookAtRabbitmq } from '../../../src/adapters/queue/rabbitmq-look.ts'
import { exerciseOutgoingQueues } from '../../../src/conformance/outgoing.ts'
import type { OutgoingMessage, OutgoingQueues } from '../../../src/ports/outgoing.ts'
import { certificate } from '../../sinks/certificate.ts'
import { startTlsProxy } from '../../sinks/tls-proxy.ts'
import { type LossyProxy, startProxy } from '../../store/postgres/proxy.ts'

const clock = createSystemClock()
/** Queues of this run: the broker may be that of others, too. */
const run = randomBytes(4).toString('hex')

async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 30_000
  while (!(await condition())) {
    assert.ok(performance.now() < end, `${what} does not come`)
    await sleep(20)
  }
}

test('every tenant has a queue of its own, whose name fits into AMQP', () => {
  const long = ['a', 'ü'].flatMap((letter) => [`${letter.repeat(255)}1`, `${letter.repeat(255)}2`])
  const names = ['acme', ...long].map(queueOf)
  assert.equal(names[0], 'notify.outgoing.acme')
  assert.equal(new Set(names).size, names.length)
  for (const name of names) assert.ok(Buffer.byteLength(name) <= 255, name)
})

describe('the queues of the tenants on RabbitMQ', needs('rabbitmq'), async () => {
  if (process.env.SLUICE_TEST_RABBITMQ === undefined) return
  const direct = process.env.SLUICE_TEST_RABBITMQ!
  const proxy: LossyProxy = await startProxy(direct)
  const operator = new Connection(direct)
  operator.on('error', () => {})
  after(async () => {
    await operator.close()
    proxy.close()
  })

  function addressOf(url: string): RabbitmqAddress {
    const { hostname, port, username, password } = new URL(url)
    return { nodes: [`${hostname}:${port}`], user: username, password, vhost: '/', shown: url }
  }
  /** On a busy machine an answer may take long. */
  const open = (lengthMax: number, answerMs = 20_000): OutgoingQueues =>
    createRabbitmqQueues({ address: addressOf(proxy.url), clock, lengthMaxOf: () => lengthMax, answerMs })
  const remove = async (tenant: string): Promise<void> => {
    await operator.queueDelete({ queue: queueOf(tenant) }).catch(() => {})
  }

  exerciseOutgoingQueues('RabbitMQ', () => ({
    open: (lengthMax) => open(lengthMax),
    remove,
    cut: proxy.cutAll,
    loseAnswerOf: proxy.loseAnswerOf,
    until,
  }))

  test('with TLS only a certificate that holds is spoken to, and a login that is refused is told', async (t) => {
    const secure = await startTlsProxy(new URL(direct).host)
    t.after(secure.close)
    const address = { ...addressOf(direct), nodes: [secure.node] }
    const trusting = { ...address, tls: { ca: certificate } }
    assert.match(await lookAtRabbitmq(trusting), /may log in$/)
    assert.equal(secure.secured(), 1)
    await assert.rejects(lookAtRabbitmq({ ...address, tls: {} }), {
      code: 'INVALID_CONFIG',
      message: /does not serve: self-signed certificate/,
    })
    await assert.rejects(lookAtRabbitmq({ ...trusting, password: 'wrong' }), {
      code: 'INVALID_CONFIG',
      message: /ACCESS_REFUSED/,
    })
  })

  async function onChannel<T>(run: (channel: Channel) => Promise<T>): Promise<T> {
    const channel = await operator.acquire()
    try {
      return await run(channel)
    } finally {
      await channel.close()
    }
  }

  const message: OutgoingMessage = {
    id: 'n-1',
    tenant: '',
    status: 'queued',
    revision: 2,
    dueAt: 1,
    attempts: 0,
    channel: 'email',
    priority: 'normal',
    from: '1',
    publishedAt: 1,
  }

  function listening(queues: OutgoingQueues) {
    opened.push(queues)
    const heard = { deliveries: [] as string[], differs: [] as string[], foreign: [] as string[], aways: 0 }
    queues.open({
      onDelivery: ({ message: { id } }) => heard.deliveries.push(id),
      onMade: () => {},
      onOpen: () => {},
      onAway: () => {
        heard.aways += 1
      },
      onReturned: () => {},
      onDiffers: (tenant) => heard.differs.push(tenant),
      onForeign: (tenant) => heard.foreign.push(tenant),
    })
    return heard
  }

  const opened: OutgoingQueues[] = []
  afterEach(async () => {
    for (const queues of opened.splice(0)) await queues.close()
  })

  test('declares a durable queue with the length and the overflow of the contract', async () => {
    const queues = open(7)
    listening(queues)
    await until(queues.isOpen, 'the connection')
    await queues.publish({ ...message, tenant: `declared-${run}` })
    const same = {
      queue: `notify.outgoing.declared-${run}`,
      durable: true,
      arguments: {
        'x-max-length': 7,
        'x-overflow': 'reject-publish' as const,
        'x-max-priority': 3,
        'x-expires': 86_400_000,
      },
    }
    await onChannel((channel) => channel.queueDeclare(same))
    const other = { ...same, arguments: { ...same.arguments, 'x-max-length': 8 } }
    await assert.rejects(operator.queueDeclare(other), /PRECONDITION_FAILED|x-max-length/)
    await remove(`declared-${run}`)
  })

  test('uses a queue that has other arguments as it is, and says so', async () => {
    await onChannel((channel) => channel.queueDeclare({ queue: queueOf(`other-${run}`), durable: true }))
    const queues = open(7)
    const heard = listening(queues)
    await until(queues.isOpen, 'the connection')
    queues.consume(`other-${run}`, 100)
    await until(() => heard.differs.length > 0, 'the difference')
    assert.equal(await queues.publish({ ...message, tenant: `other-${run}` }), 'queued')
    await until(() => heard.deliveries.length > 0, 'the delivery')
    await remove(`other-${run}`)
  })

  test('has one consumer for a tenant that is released and used again at once, and none behind its release', async () => {
    const tenant = `again-${run}`
    const queues = open(7)
    const heard = listening(queues)
    await until(queues.isOpen, 'the connection')
    queues.consume(tenant, 100)
    queues.release(tenant)
    queues.consume(tenant, 100)
    await queues.publish({ ...message, tenant })
    await until(() => heard.deliveries.length > 0, 'the delivery')
    const consumers = async () =>
      (await operator.queueDeclare({ queue: queueOf(tenant), passive: true })).consumerCount
    await until(async () => {
      queues.release(tenant)
      return (await consumers()) === 0
    }, 'the end of the last consumer')
    await remove(tenant)
  })

  test('removes what somebody else has put into the queue of a tenant, and goes on', async () => {
    const queues = open(7)
    const heard = listening(queues)
    await until(queues.isOpen, 'the connection')
    await queues.look(`mixed-${run}`)
    for (const body of ['hello', '{"id":1}', JSON.stringify({ ...message, tenant: 'another' })])
      await operator.acquire().then(async (channel) => {
        await channel.basicPublish({ routingKey: queueOf(`mixed-${run}`) }, body)
        await channel.close()
      })
    await queues.publish({ ...message, tenant: `mixed-${run}` })
    queues.consume(`mixed-${run}`, 100)
    await until(() => heard.deliveries.length === 1 && heard.foreign.length === 3, 'four messages')
    await remove(`mixed-${run}`)
  })

  test('gives up a broker that does not answer, answers every publication, and comes back', async () => {
    const queues = open(7, 1_000)
    const heard = listening(queues)
    await until(queues.isOpen, 'the connection')
    proxy.freeze()
    try {
      await assert.rejects(
        queues.publish({ ...message, tenant: `frozen-${run}` }),
        /no answer|closed|connect/,
      )
      await until(() => heard.aways > 0, 'the loss')
      await assert.rejects(queues.publish({ ...message, tenant: `frozen-${run}` }))
    } finally {
      proxy.thaw()
    }
    await until(queues.isOpen, 'the new connection')
    await until(
      () =>
        queues.publish({ ...message, tenant: `frozen-${run}` }).then(
          () => true,
          () => false,
        ),
      'a confirmation',
    )
    await remove(`frozen-${run}`)
  })
})
