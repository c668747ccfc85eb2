/**
 * The conformance suite of a broker with one queue per tenant: `exerciseOutgoingQueues` runs it on any adapter, with a
 * real broker behind it.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import type {
  OutgoingDelivery,
  OutgoingListener,
  OutgoingMessage,
  OutgoingQueues,
} from '../ports/outgoing.ts'

export interface OutgoingBroker {
  /** Opens queues of at most `lengthMax` ready messages. */
  open(lengthMax: number): OutgoingQueues
  /** Removes the queue of a tenant behind the back of the gateways, with everything in it. */
  remove(tenant: string): Promise<void>
  /** Ends every connection that `open` has made. */
  cut(): void
  /** Loses the broker's next word on the connection that sends this text next, together with that connection. */
  loseAnswerOf(text: string): void
  /** Waits until a condition holds that takes as long as the broker needs for it. */
  until(condition: () => boolean | Promise<boolean>, what: string): Promise<void>
}

/** An open adapter, and the news that it has told. */
interface Heard {
  readonly queues: OutgoingQueues
  readonly deliveries: OutgoingDelivery[]
  readonly made: string[]
  readonly aways: unknown[]
  opened: number
  returned: number
}

export function exerciseOutgoingQueues(name: string, broker: () => OutgoingBroker): void {
  const opened: OutgoingQueues[] = []
  const tenants: string[] = []

  async function open(lengthMax = 100): Promise<Heard> {
    const queues = broker().open(lengthMax)
    opened.push(queues)
    const heard: Heard = { queues, deliveries: [], made: [], aways: [], opened: 0, returned: 0 }
    const listener: OutgoingListener = {
      onDelivery: (delivery) => heard.deliveries.push(delivery),
      onMade: (tenant) => heard.made.push(tenant),
      onOpen: () => {
        heard.opened += 1
      },
      onAway: (error) => heard.aways.push(error),
      onReturned: () => {
        heard.returned += 1
      },
      onDiffers: () => {},
      onForeign: () => {},
    }
    queues.open(listener)
    await broker().until(queues.isOpen, 'the connection')
    return heard
  }

  function test(title: string, body: (tenant: string) => Promise<void>): void {
    it(title, async () => {
      const tenant = `t-${randomBytes(4).toString('hex')}`
      tenants.push(tenant)
      try {
        await body(tenant)
      } finally {
        await Promise.all(opened.splice(0).map((queues) => queues.close()))
        await Promise.all(tenants.splice(0).map((each) => broker().remove(each)))
      }
    })
  }

  const message = (
    tenant: string,
    number: number,
    patch: Partial<OutgoingMessage> = {},
  ): OutgoingMessage => ({
    id: `n-${number}`,
    tenant,
    status: 'queued',
    revision: 2,
    dueAt: 1_700_000_000_000,
    attempts: 0,
    channel: 'email',
    priority: 'normal',
    from: '17',
    publishedAt: 1_700_000_000_500,
    ...patch,
  })
  const ids = ({ deliveries }: Heard) => deliveries.map((each) => each.message.id)

  describe(name, () => {
    test('gives a published message to a consumer as it was written, once it is acknowledged no more', async (tenant) => {
      const a = await open()
      const b = await open()
      const sent = message(tenant, 1, { priority: 'high', channel: 'sms' })
      assert.equal(await a.queues.publish(sent), 'queued')
      assert.deepEqual(a.made, [tenant], 'the queue was missing')
      b.queues.consume(tenant, 100)
      await broker().until(() => b.deliveries.length === 1, 'the delivery')
      assert.deepEqual(b.deliveries[0]!.message, sent)
      b.deliveries[0]!.ack()
      await b.queues.close()
      await broker().until(async () => (await a.queues.look(tenant)).ready === 0, 'an empty queue')
    })

    test('gives urgent messages first, and those of one priority in their order', async (tenant) => {
      const a = await open()
      for (const [number, priority] of (['low', 'normal', 'normal', 'high', 'critical'] as const).entries())
        await a.queues.publish(message(tenant, number, { priority }))
      a.queues.consume(tenant, 100)
      await broker().until(() => a.deliveries.length === 5, 'five deliveries')
      assert.deepEqual(ids(a), ['n-4', 'n-3', 'n-1', 'n-2', 'n-0'])
    })

    test('refuses what is beyond the length, for this tenant only, and takes more when there is room', async (tenant) => {
      const a = await open(3)
      const other = `${tenant}-b`
      tenants.push(other)
      for (let number = 0; number < 3; number += 1)
        assert.equal(await a.queues.publish(message(tenant, number)), 'queued')
      assert.equal(await a.queues.publish(message(tenant, 3)), 'full')
      assert.equal(await a.queues.publish(message(other, 0)), 'queued')
      a.queues.consume(tenant, 100)
      await broker().until(() => a.deliveries.length === 3, 'three deliveries')
      assert.equal(await a.queues.publish(message(tenant, 4)), 'queued')
    })

    test('publishes to a queue that was removed: makes it anew, says so, and consumers take from it', async (tenant) => {
      const a = await open()
      const b = await open()
      await a.queues.publish(message(tenant, 1))
      await broker().remove(tenant)
      assert.equal(await a.queues.publish(message(tenant, 2)), 'queued')
      assert.deepEqual(a.made, [tenant, tenant])
      b.queues.consume(tenant, 100)
      await broker().until(() => b.deliveries.length === 1, 'the delivery')
      b.deliveries[0]!.ack()
      await broker().remove(tenant)
      await broker().until(async () => {
        await a.queues.publish(message(tenant, 3))
        return ids(b).includes('n-3')
      }, 'a consumer of the new queue')
    })

    test('delivers again what was not acknowledged when the connection was lost', async (tenant) => {
      const a = await open()
      await a.queues.publish(message(tenant, 1))
      a.queues.consume(tenant, 100)
      await broker().until(() => a.deliveries.length === 1, 'the delivery')
      broker().cut()
      await broker().until(() => a.returned > 0, 'the loss')
      a.deliveries[0]!.ack()
      await broker().until(() => a.deliveries.length === 2, 'the second delivery')
      assert.deepEqual(ids(a), ['n-1', 'n-1'])
      await broker().until(a.queues.isOpen, 'the new connection')
    })

    test('keeps what was delivered when only the connection that publishes is lost', async (tenant) => {
      const a = await open()
      await a.queues.publish(message(tenant, 1))
      a.queues.consume(tenant, 100)
      await broker().until(() => a.deliveries.length === 1, 'the delivery')
      broker().loseAnswerOf('n-2')
      await assert.rejects(a.queues.publish(message(tenant, 2)))
      await broker().until(() => a.aways.length > 0 && a.queues.isOpen(), 'the new connection')
      assert.equal(a.returned, 0)
      a.deliveries[0]!.ack()
      await a.queues.publish(message(tenant, 3))
      await broker().until(() => ids(a).includes('n-3'), 'the next delivery')
      for (const { ack } of a.deliveries.slice(1)) ack()
      assert.equal(ids(a).filter((id) => id === 'n-1').length, 1)
      await a.queues.close()
      const b = await open()
      await broker().until(async () => (await b.queues.look(tenant)).ready === 0, 'an empty queue')
    })

    test('answers each publication while the connection is cut, and confirms none that the queue lacks', async (tenant) => {
      const a = await open(10_000)
      const outcomes = await Promise.all(
        Array.from({ length: 400 }, async (_, number) => {
          if (number === 200) setImmediate(broker().cut)
          return a.queues.publish(message(tenant, number)).catch(() => 'unknown')
        }),
      )
      const confirmed = outcomes.filter((outcome) => outcome === 'queued').length
      let ready = -1
      await broker().until(async () => {
        ready = (await a.queues.look(tenant).catch(() => ({ ready: -1 }))).ready
        return ready >= 0
      }, 'a look behind the loss')
      assert.ok(ready >= confirmed, `${confirmed} confirmed, ${ready} in the queue`)
    })

    test('takes no more of a tenant that is released', async (tenant) => {
      const a = await open()
      await a.queues.publish(message(tenant, 1))
      a.queues.consume(tenant, 100)
      await broker().until(() => a.deliveries.length === 1, 'the delivery')
      a.deliveries[0]!.ack()
      a.queues.release(tenant)
      await broker().until(async () => {
        await a.queues.publish(message(tenant, 2))
        return (await a.queues.look(tenant)).ready > 0
      }, 'a message that stays')
    })
  })
}
