/**
 * The queues of the tenants on RabbitMQ (3.10 and later; nothing that 4.x has removed): durable classic queues with priorities, persistent
 * messages, publisher confirms, `mandatory`. One connection publishes, another one takes: a broker that is short of memory
 * stops the first, and goes on giving out. Guide: docs/guides/rabbitmq.md, decision record 0041.
 */
import { hash } from 'node:crypto'
import { AMQPError, type AsyncMessage, type Channel, type ReturnedMessage } from 'rabbitmq-client'
import {
  channels,
  type Channel as DeliveryChannel,
  type Priority,
  priorities,
  statuses,
} from '../../model.ts'
import type {
  OutgoingListener,
  OutgoingMessage,
  OutgoingQueues,
  Published,
  QueueLook,
} from '../../ports/outgoing.ts'
import type { Clock } from '../../ports.ts'
import { type RabbitmqAddress, RabbitmqClient } from './rabbitmq-client.ts'

export interface RabbitmqQueuesOptions {
  readonly address: RabbitmqAddress
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** `x-max-length` of the queue of a tenant. */
  readonly lengthMaxOf: (tenant: string) => number
  /** The broker's answer to a message, a look or a declaration is waited for this long. @defaultValue 1_000 ms */
  readonly answerMs?: number
}

const answerMsDefault = 1_000
/** `x-expires`: a queue that nobody uses for a day is removed, ms. */
const expiresMs = 86_400_000

/** The bytes of a name in AMQP 0-9-1; the client cuts longer ones off, and two tenants would share a queue. */
const nameBytesMax = 255

/** The queue of a tenant. A tenant whose id does not fit into a name has a hash of it there. */
export function queueOf(tenant: string): string {
  const name = `notify.outgoing.${tenant}`
  return Buffer.byteLength(name) <= nameBytesMax ? name : `notify.outgoing.~${hash('sha256', tenant, 'hex')}`
}

interface Consumer {
  readonly prefetch: number
  /** Its name at the broker; absent until it has answered. */
  tag?: string
}

const levels: Readonly<Record<Priority, number>> = { low: 0, normal: 1, high: 2, critical: 3 }

export function createRabbitmqQueues({
  address,
  clock,
  lengthMaxOf,
  answerMs = answerMsDefault,
}: RabbitmqQueuesOptions): OutgoingQueues {
  let listener: OutgoingListener
  let publishing: RabbitmqClient | undefined
  let consuming: RabbitmqClient | undefined
  let published = 0
  let isConsumingOpen = false
  /** Publications that the broker could not route, by their number. */
  const returned = new Set<string>()
  /** Queues that are being made. */
  const making = new Map<string, Promise<void>>()
  /** Tenants whose messages are taken, and the name of their consumer, which is absent while there is none. */
  const consumers = new Map<string, Consumer>()

  const argumentsOf = (tenant: string) => ({
    queue: queueOf(tenant),
    durable: true,
    arguments: {
      'x-max-length': lengthMaxOf(tenant),
      'x-overflow': 'reject-publish' as const,
      'x-max-priority': levels.critical,
      'x-expires': expiresMs,
    },
  })

  function withDeadline<T>(link: RabbitmqClient, answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const disarm = clock.at(clock.now() + answerMs, () => {
        const error = new Error(`no answer within ${answerMs} ms`)
        reject(error)
        link.renew(error)
      })
      answer.then(resolve, reject).finally(disarm)
    })
  }

  /** Runs on a channel of its own, which an error of the broker closes. */
  async function aside<T>(run: (channel: Channel) => Promise<T>): Promise<T> {
    const link = consuming!
    if (link.channel === undefined) throw link.error
    return withDeadline(
      link,
      link.acquire().then(async (channel) => {
        try {
          return await run(channel)
        } finally {
          void channel.close()
        }
      }),
    )
  }

  /** Makes the queue of a tenant where it is missing. */
  function make(tenant: string): Promise<void> {
    let made = making.get(tenant)
    if (made === undefined) {
      made = declare(tenant).finally(() => making.delete(tenant))
      making.set(tenant, made)
    }
    return made
  }

  async function declare(tenant: string): Promise<void> {
    const isThere = await aside((channel) =>
      channel.queueDeclare({ queue: queueOf(tenant), passive: true }),
    ).then(
      () => true,
      (error) => {
        if (isCode(error, 'NOT_FOUND')) return false
        throw error
      },
    )
    try {
      await aside((channel) => channel.queueDeclare(argumentsOf(tenant)))
    } catch (error) {
      if (!isCode(error, 'PRECONDITION_FAILED')) throw error
      listener.onDiffers(tenant, (error as Error).message)
    }
    if (!isThere) listener.onMade(tenant)
  }

  async function send(message: OutgoingMessage): Promise<Published | 'unroutable'> {
    const link = publishing!
    const { channel } = link
    if (channel === undefined) throw link.error
    published += 1
    const number = `${published}`
    const envelope = {
      routingKey: queueOf(message.tenant),
      mandatory: true,
      durable: true,
      priority: levels[message.priority],
      messageId: `${message.id}:${message.revision}`,
      correlationId: number,
      contentType: 'application/json',
    }
    try {
      await withDeadline(link, channel.basicPublish(envelope, Buffer.from(JSON.stringify(message))))
    } catch (error) {
      if (isCode(error, 'NACK')) return 'full'
      throw error
    }
    // The broker tells what it returns before it confirms it; the client passes that on with an immediate.
    await new Promise(setImmediate)
    return returned.delete(number) ? 'unroutable' : 'queued'
  }

  async function start(tenant: string, consumer: Consumer, channel: Channel): Promise<void> {
    // The tenant may be released meanwhile, and used again: that has a consumer of its own.
    const isWanted = (): boolean => consuming?.channel === channel && consumers.get(tenant) === consumer
    try {
      await make(tenant)
      if (!isWanted()) return
      // The calls of a channel are made in their order: this bound is that of the consumer behind it.
      const bounded = channel.basicQos({ prefetchCount: consumer.prefetch })
      const consumed = channel.basicConsume({ queue: queueOf(tenant) }, (each) =>
        deliver(tenant, channel, each),
      )
      const [, { consumerTag }] = await withDeadline(consuming!, Promise.all([bounded, consumed]))
      if (consumers.get(tenant) === consumer) consumer.tag = consumerTag
      else await channel.basicCancel(consumerTag)
    } catch {
      // The channel is lost and takes all of them anew, or the tenant is tried again.
      if (isWanted()) clock.at(clock.now() + answerMs, () => void start(tenant, consumer, channel))
    }
  }

  function deliver(tenant: string, channel: Channel, { body, deliveryTag }: AsyncMessage): void {
    const ack = (): void => {
      if (channel.active) channel.basicAck({ deliveryTag })
    }
    const message = messageOf(tenant, body)
    if (message !== undefined) listener.onDelivery({ message, ack })
    else {
      ack()
      listener.onForeign(tenant)
    }
  }

  function opened(): void {
    if (isOpen()) listener.onOpen()
  }

  const isOpen = (): boolean => publishing?.channel !== undefined && isConsumingOpen

  return {
    open(heard) {
      listener = heard
      publishing = new RabbitmqClient({
        address,
        clock,
        async setUp(channel) {
          returned.clear()
          channel.on('basic.return', ({ correlationId }: ReturnedMessage) => {
            if (correlationId !== undefined) returned.add(correlationId)
          })
          await channel.confirmSelect()
        },
        onOpen: opened,
        onLost: listener.onAway,
      })
      consuming = new RabbitmqClient({
        address,
        clock,
        onOpen(channel) {
          isConsumingOpen = true
          channel.on('basic.cancel', (consumerTag: string) => {
            const found = [...consumers].find(([, { tag }]) => tag === consumerTag)
            if (found !== undefined) void start(...found, channel)
          })
          for (const [tenant, consumer] of consumers) {
            delete consumer.tag
            void start(tenant, consumer, channel)
          }
          opened()
        },
        onLost(error) {
          isConsumingOpen = false
          listener.onReturned()
          listener.onAway(error)
        },
      })
    },
    isOpen,
    async publish(message) {
      let outcome = await send(message)
      if (outcome === 'unroutable') {
        await make(message.tenant)
        outcome = await send(message)
      }
      if (outcome === 'unroutable') throw new Error(`${queueOf(message.tenant)} is removed again and again`)
      return outcome
    },
    consume(tenant, prefetch) {
      if (consumers.has(tenant)) return
      const consumer: Consumer = { prefetch }
      consumers.set(tenant, consumer)
      const channel = consuming?.channel
      if (channel !== undefined) void start(tenant, consumer, channel)
    },
    release(tenant) {
      const consumerTag = consumers.get(tenant)?.tag
      consumers.delete(tenant)
      const channel = consuming?.channel
      if (consumerTag !== undefined && channel !== undefined) channel.basicCancel(consumerTag).catch(() => {})
    },
    async look(tenant): Promise<QueueLook> {
      await make(tenant)
      const { messageCount } = await aside((channel) =>
        channel.queueDeclare({ queue: queueOf(tenant), passive: true }),
      )
      return { ready: messageCount }
    },
    async close() {
      publishing?.close()
      consuming?.close()
    },
  }
}

const isCode = (error: unknown, code: string): boolean => error instanceof AMQPError && error.code === code

/** Reads a message that this or another gateway has published; undefined where it is none. */
function messageOf(tenant: string, body: unknown): OutgoingMessage | undefined {
  let read: Partial<OutgoingMessage>
  try {
    // The client reads JSON by itself where the type says so.
    read = typeof body === 'string' || Buffer.isBuffer(body) ? JSON.parse(`${body}`) : body
  } catch {
    return undefined
  }
  if (typeof read !== 'object' || read === null) return undefined
  const { id, status, revision, dueAt, attempts, channel, priority, from, publishedAt } = read
  const isWhole =
    read.tenant === tenant &&
    [id, from].every((text) => typeof text === 'string') &&
    [revision, dueAt, attempts, publishedAt].every(Number.isSafeInteger) &&
    statuses.includes(status!) &&
    channels.includes(channel as DeliveryChannel) &&
    priorities.includes(priority!)
  return isWhole ? (read as OutgoingMessage) : undefined
}
