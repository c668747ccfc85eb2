/** The index of what was sent, where the store does not take it at once. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createSentIndex } from '../../src/feedback/sent-index.ts'
import { createSentKeys } from '../../src/feedback/sent-keys.ts'
import type { SentRecord } from '../../src/ports/feedback.ts'
import type { Account, Message, Provider } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const account = { id: 'texts', options: {} } as unknown as Account
const message = (id: string): Message =>
  ({ id, tenant: 'acme', channel: 'sms', to: { id, phone: '+15005550006' } }) as unknown as Message
const provider = {
  send: async ({ id }: Message) => ({ outcome: 'delivered', providerMessageId: `SM-${id}` }),
} as unknown as Provider

/** An index over a store that refuses while the test says so. */
function open() {
  const clock = createVirtualClock(0)
  const kept: SentRecord[] = []
  const store = { isAway: true, asked: 0 }
  const index = createSentIndex({
    record: {
      async keepSent(records) {
        store.asked += 1
        if (store.isAway) throw new SluiceError('STORE_UNAVAILABLE', 'The store is away.')
        kept.push(...records)
      },
    },
    keys: createSentKeys(() => Buffer.from('key')),
    findsByAddress: () => true,
    clock,
    onError: () => {},
  })
  const send = (id: string) =>
    index.watched(provider).send(message(id), account, new AbortController().signal, () => true)
  return { clock, kept, store, index, send, ids: () => kept.map(({ notificationId }) => notificationId) }
}

test('what was sent while the store is away is noted when it is back, each once and in its order', async () => {
  const { clock, store, send, ids } = open()
  await send('one')
  await clock.runUntil(100)
  await send('two')
  await clock.runUntil(3_000)
  assert.deepEqual(ids(), [])
  assert.ok(store.asked >= 2 && store.asked < 10, `it asked ${store.asked} times`)
  store.isAway = false
  await clock.runUntil(5_000)
  assert.deepEqual(ids(), ['one', 'one', 'two', 'two'], 'a message and an address each')
})

test('an end tries once more and does not wait for a store that is away', async () => {
  for (const isAway of [true, false]) {
    const { clock, store, index, send, ids } = open()
    await send('one')
    await clock.runUntil(100)
    store.isAway = isAway
    await index.close()
    assert.deepEqual(ids(), isAway ? [] : ['one', 'one'])
  }
})
