import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readObservations } from '../../src/advice/observations.ts'
import { observationsCsv, recordedObservations, weekMs } from '../../src/advice/record.ts'
import { epoch, someNotification } from '../../src/conformance/store/sample.ts'
import { advance, type Notification } from '../../src/model.ts'
import type { FeedbackType } from '../../src/ports/feedback.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'
import { trafficOf } from '../../src/store/store-traffic.ts'

const dayMs = 86_400_000
const to = epoch + 4 * weekMs

interface Sent {
  readonly person: string
  readonly at: number
  readonly reported?: readonly FeedbackType[]
  readonly patch?: Partial<Notification>
}

/** A store in which each of these was delivered, and what was reported about it. */
async function recordOf(sent: readonly Sent[]) {
  const store = createMemoryStore()
  for (const [index, { person, at, reported = [], patch = {} }] of sent.entries()) {
    const notification = someNotification({
      to: { id: person },
      category: 'marketing',
      status: 'queued',
      createdAt: at - 1_000,
      ...patch,
    })
    const { tenant, id, channel, category } = notification
    await store.commit({ accept: [notification] })
    const events = [
      { at: at - 1, status: 'sending' },
      { at, status: 'delivered' },
    ] as const
    await store.commit({ moves: [advance(notification, events, { firedAt: at - 1, attempts: 1 })] })
    await store.feedback.keep(
      reported.map((type, nth) => ({
        tenant,
        notificationId: id,
        key: `${index}.${nth}`,
        type,
        channel,
        category,
        at: at + 60_000,
        keptAt: at + 60_001,
      })),
    )
  }
  return trafficOf(store)
}

const read = async (sent: readonly Sent[], options: object = {}) => {
  const source = await recordOf(sent)
  const found = await recordedObservations({ source, from: epoch, to, category: 'marketing', ...options })
  assert.ok('observations' in found)
  return found.observations
}

test('each recipient and week is one observation, with what was reported about its messages', async () => {
  const at = to - dayMs
  const observations = await read([
    { person: 'ada', at, reported: ['open', 'click'] },
    { person: 'ada', at: at + 1 },
    { person: 'ada', at: at - weekMs },
    { person: 'bob', at, reported: ['complaint', 'complaint'] },
    { person: 'bob', at: at + 2, reported: ['unsubscribe'] },
    { person: 'cem', at, reported: ['bounce', 'delivered'] },
  ])
  assert.deepEqual(observations, [
    { frequency: 1, people: 2, engaged: 0, churned: 0, delivered: 2, complaints: 0 },
    { frequency: 2, people: 2, engaged: 1, churned: 1, delivered: 4, complaints: 1 },
  ])
  assert.deepEqual(readObservations(observationsCsv(observations), 'o.csv'), observations)
})

test('weeks are counted back from the end, whole ones only, by the instant of delivery', async () => {
  const edges = await read([
    { person: 'a', at: to },
    { person: 'b', at: to - 1 },
    { person: 'b', at: to - weekMs },
    { person: 'b', at: to - weekMs - 1 },
    { person: 'c', at: epoch },
    { person: 'd', at: epoch - 1 },
    { person: 'e', at: epoch, patch: { createdAt: epoch - 7 * dayMs } },
  ])
  assert.deepEqual(
    edges.map(({ frequency, people }) => [frequency, people]),
    [
      [1, 3],
      [2, 1],
    ],
  )
  const short = await read([{ person: 'a', at: epoch + dayMs }], { from: epoch + dayMs / 2 })
  assert.deepEqual(short, [], 'half a week at the beginning is left out')
})

test('only what was delivered in the category, channel and tenant counts, and tenants share no recipients', async () => {
  const at = to - dayMs
  const sent: Sent[] = [
    { person: 'ada', at, patch: { category: 'product' } },
    { person: 'ada', at, patch: { channel: 'push' } },
    { person: 'ada', at, patch: { tenant: 'other' } },
    { person: 'ada', at },
  ]
  const counts = async (options: object = {}) =>
    (await read(sent, options)).map(({ frequency, people }) => [frequency, people])
  assert.deepEqual(await counts(), [
    [1, 1],
    [2, 1],
  ])
  assert.deepEqual(await counts({ channel: 'email' }), [[1, 2]])
  assert.deepEqual(await counts({ channel: 'email', tenant: 'other' }), [[1, 1]])
  assert.deepEqual(await counts({ category: 'billing' }), [])
})
