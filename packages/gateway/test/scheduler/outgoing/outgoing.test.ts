/** Messages that wait in a process while one of its two connections to the broker is lost. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch, someNotification } from '../../../src/conformance/store/sample.ts'
import type { Notification } from '../../../src/model.ts'
import { measureOutgoing } from '../../../src/observability/broker-metrics.ts'
import type { Meter } from '../../../src/observability/meter.ts'
import {
  type LeftToBroker,
  type OutgoingListener,
  type OutgoingQueues,
  outgoingVersion,
} from '../../../src/ports/outgoing.ts'
import { createOutgoingQueue } from '../../../src/scheduler/outgoing/outgoing.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

/** A process that asks the record for one message while another one waits; `answer` lets the record answer. */
async function takeOneOfTwo() {
  const clock = createVirtualClock(epoch)
  const kept: string[] = []
  const answer = Promise.withResolvers<void>()
  const notifications = [someNotification(), someNotification()]
  let listener: OutgoingListener
  const queues = {
    open(given) {
      listener = given
    },
    isOpen: () => true,
  } as Partial<OutgoingQueues> as OutgoingQueues
  const left = {
    tenants: async () => [],
    async take(messages) {
      await answer.promise
      return notifications.filter(({ id }) => messages.some((message) => message.id === id))
    },
  } as Partial<LeftToBroker> as LeftToBroker
  const queue = createOutgoingQueue({
    embedded: {} as never,
    queues,
    left,
    ledger: { live: () => undefined, watch: () => () => false, subscribe: () => () => {} } as never,
    members: { id: '1', holds: () => false },
    clock,
    onError: (what, error) => assert.fail(`${what}: ${error}`),
  })
  queue.start({
    keep: (taken) => void kept.push(...taken.map(({ id }) => id)),
    postpone: () => {},
    noteFreed: () => {},
  })
  const deliver = (notification: Notification): void => {
    const { tenant, channel, priority } = notification
    const message = {
      ...outgoingVersion(notification),
      tenant,
      channel,
      priority,
      from: '2',
      publishedAt: epoch,
    }
    listener.onDelivery({ message, ack: () => {} })
  }
  for (const notification of notifications) deliver(notification)
  await clock.settle()
  const ids = notifications.map(({ id }) => id)
  return { listener: listener!, kept, ids, clock, answer: answer.resolve }
}

test('takes the messages that wait when only the connection that publishes is lost: nobody delivers them again', async () => {
  const { listener, kept, ids, clock, answer } = await takeOneOfTwo()
  listener.onAway(new Error('no answer within 1000 ms'))
  answer()
  await clock.settle()
  assert.deepEqual(kept, ids)
})

test('forgets the messages that wait when the connection that takes is lost: they come again', async () => {
  const { listener, kept, ids, clock, answer } = await takeOneOfTwo()
  listener.onReturned()
  answer()
  await clock.settle()
  assert.deepEqual(kept, ids.slice(0, 1))
})

test('counts as up only once the broker is connected, not before its first connection', async () => {
  let isConnected = false
  const queue = createOutgoingQueue({
    embedded: {} as never,
    queues: { open: () => {}, isOpen: () => isConnected } as Partial<OutgoingQueues> as OutgoingQueues,
    left: { tenants: async () => [] } as Partial<LeftToBroker> as LeftToBroker,
    ledger: { live: () => undefined, watch: () => () => false, subscribe: () => () => {} } as never,
    members: { id: '1', holds: () => false },
    clock: createVirtualClock(epoch),
    onError: (what, error) => assert.fail(`${what}: ${error}`),
  })
  const shown = (): number | undefined => {
    let up: number | undefined
    const gauge: Meter['gauge'] = (name, _help, _labels, read) => {
      if (name === 'sluice_queue_up') read((_, value) => (up = value))
    }
    measureOutgoing({ gauge, counter: () => {} } as Partial<Meter> as Meter, queue.report)
    return up
  }
  queue.start({ keep: () => {}, postpone: () => {}, noteFreed: () => {} })
  assert.equal(shown(), 0)
  isConnected = true
  assert.equal(shown(), 1)
})
