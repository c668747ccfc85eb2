/** Finds what was sent by the provider's own id, and by the number for STOP. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch, settled, someNotification } from '../../src/conformance/store/sample.ts'
import { createCorrelation } from '../../src/feedback/correlation.ts'
import { createSentIndex } from '../../src/feedback/sent-index.ts'
import { createSentKeys } from '../../src/feedback/sent-keys.ts'
import type { Provider } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'

const account = { id: 'a1', options: {} }

test('a message is found by its provider’s id, for its own tenant and account, for 31 days', async () => {
  const clock = createVirtualClock(epoch)
  const store = createMemoryStore()
  const keys = createSentKeys(() => Buffer.from('a key of the tests'))
  const index = createSentIndex({
    record: store.feedback,
    keys,
    findsByAddress: (_channel, { id }) => id === 'a1',
    clock,
    onError: (what, error) => assert.fail(`${what}: ${String(error)}`),
  })
  const provider: Provider = {
    name: 'sandbox',
    idempotent: false,
    channels: ['email'],
    send: async (message) =>
      message.attempt === 1
        ? { outcome: 'delivered', providerMessageId: `p-${message.id}` }
        : { outcome: 'failed', detail: 'no' },
    close: async () => {},
  }
  const watched = index.watched(provider)
  const [one, two] = [someNotification(), someNotification()]
  await store.commit({ accept: [one, two] })
  await store.commit({ moves: [settled(one, epoch), settled(two, epoch)] })
  const { signal } = new AbortController()
  const content = { text: 'Hello' }
  for (const [{ id, tenant, category, to }, attempt] of [
    [one, 1],
    [two, 2],
  ] as const) {
    const message = { id, tenant, channel: 'email', category, to, content, attempt } as const
    await watched.send(message, account, signal)
  }
  await index.close()
  const correlate = createCorrelation({ record: store.feedback, keys, clock })
  const found = async (report: object, by: object) =>
    (await correlate([{ report: { type: 'open', at: epoch, ...report }, by: by as never }]))[0]?.id
  const own = { channel: 'email', account: 'a1' }
  const named = { providerMessageId: `p-${one.id}` }
  const isStop = { isStop: true, address: 'ada@example.com' }
  assert.deepEqual(
    [
      await found(named, { tenant: 'acme' }),
      await found(named, own),
      await found(isStop, own),
      await found({ notificationId: one.id }, own),
      await found({ ...named, notificationId: 'unknown' }, own),
    ],
    Array.from({ length: 5 }, () => one.id),
  )
  for (const [report, by] of [
    [named, { tenant: 'other' }],
    [named, { channel: 'email', account: 'a2' }],
    [named, { channel: 'sms', account: 'a1' }],
    [{ notificationId: one.id }, { channel: 'email', account: 'a2' }],
    [isStop, { channel: 'email', account: 'a2' }],
    [isStop, { tenant: 'acme' }],
    [{ providerMessageId: `p-${two.id}` }, own],
  ] as const)
    assert.equal(await found(report, by), undefined, JSON.stringify([report, by]))
  await clock.runUntil(epoch + 32 * 86_400_000)
  assert.equal(await found(named, own), undefined)
})
