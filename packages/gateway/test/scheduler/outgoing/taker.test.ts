/** Messages that name a notification which is in the memory of the process that takes them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { epoch, someNotification } from '../../../src/conformance/store/sample.ts'
import { advance, type Notification } from '../../../src/model.ts'
import { outgoingVersion } from '../../../src/ports/outgoing.ts'
import { Taker } from '../../../src/scheduler/outgoing/taker.ts'

/** A process with one notification in memory; returns the ids that the record was asked for, and of acknowledged messages. */
async function take(notification: Notification, from: string, inMemory = notification) {
  const asked: string[] = []
  const acknowledged: string[] = []
  const kept: string[] = []
  const taker = new Taker({
    left: {
      take: async (messages) => {
        asked.push(...messages.map(({ id }) => id))
        return [notification]
      },
    },
    ledger: {
      live: () => ({ notification: inMemory, status: 'queued' }),
      watch: () => () => false,
      subscribe: () => () => {},
    } as never,
    clock: { now: () => epoch, at: () => () => {} },
    publisher: { takeBack: () => undefined },
    member: '1',
    keep: (taken) => void kept.push(...taken.map(({ id }) => id)),
    sendHere: () => {},
    prefetchOf: () => 10,
    onError: (what, error) => assert.fail(`${what}: ${error}`),
  })
  taker.start()
  const { tenant, channel, priority, id } = notification
  const message = { ...outgoingVersion(notification), tenant, channel, priority, from, publishedAt: epoch }
  taker.add({ message, ack: () => void acknowledged.push(id) })
  await turn()
  return { asked, acknowledged, kept }
}

test('a message of another process takes what is in memory here on record, where the other one may hold it', async () => {
  const notification = someNotification()
  const { asked, acknowledged, kept } = await take(notification, '2')
  assert.deepEqual([asked, acknowledged, kept], [[notification.id], [notification.id], []])
})

test('a message of this process for what is in memory here is removed without a question', async () => {
  const notification = someNotification()
  const { asked, acknowledged } = await take(notification, '1')
  assert.deepEqual([asked, acknowledged], [[], [notification.id]])
})

test('a message takes the newer version of what is in memory here as another process has replaced it', async () => {
  const before = someNotification()
  const { after } = advance(before, [{ at: epoch, status: 'scheduled' }])
  const { acknowledged, kept } = await take(after, '2', before)
  assert.deepEqual([acknowledged, kept], [[after.id], [after.id]])
})
