/** Counts of what was delivered, by tenant, category and time; and what ended undelivered. */
import assert from 'node:assert/strict'
import { advance, type Notification } from '../../model.ts'
import type { DeliveredCount, DeliveredQuery } from '../../ports/traffic.ts'
import type { Store } from '../../ports.ts'
import { epoch, settled, someNotification } from './sample.ts'
import { must, type Test } from './suite.ts'

const second = 1_000

async function deliver(store: Store, firedAt: number, patch: Partial<Notification>): Promise<void> {
  const notification = someNotification(patch)
  await must(store, { accept: [notification] })
  const events = [
    { at: firedAt, status: 'sending' },
    { at: firedAt + 5, status: 'delivered' },
  ] as const
  await must(store, { moves: [advance(notification, events, { firedAt, attempts: 1, dueAt: firedAt + 5 })] })
}

const inOrder = (counts: readonly DeliveredCount[]): readonly (readonly (string | number)[])[] =>
  counts.map(({ tenant, category, bucket, count }) => [tenant, category, bucket, count]).sort()

export function delivered(test: Test): void {
  test('counts delivered notifications by tenant, category and bucket of the instant at which they left', async (store) => {
    const categories = ['marketing', 'product']
    const query: DeliveredQuery = { from: epoch, to: epoch + 60 * second, bucketMs: 10 * second, categories }
    assert.deepEqual(await store.delivered(query), [])
    const marketing = { category: 'marketing' }
    for (const offsetMs of [-1, 0, 9_999, 10_000, 59_999, 60_000])
      await deliver(store, epoch + offsetMs, marketing)
    await deliver(store, epoch + 1, { ...marketing, tenant: 'other' })
    await deliver(store, epoch + 1, { category: 'product' })
    await deliver(store, epoch + 1, { category: 'billing' })
    const failed = someNotification(marketing)
    await must(store, { accept: [failed, someNotification(marketing)] })
    const events = [
      { at: epoch, status: 'sending' },
      { at: epoch, status: 'failed' },
    ] as const
    await must(store, { moves: [advance(failed, events, { firedAt: epoch, attempts: 1 })] })
    const first = epoch / (10 * second)
    assert.deepEqual(inOrder(await store.delivered(query)), [
      ['acme', 'marketing', first, 2],
      ['acme', 'marketing', first + 1, 1],
      ['acme', 'marketing', first + 5, 1],
      ['acme', 'product', first, 1],
      ['other', 'marketing', first, 1],
    ])
  })

  test('reads what has ended undelivered since an instant, the newest ends first', async (store) => {
    // Limits in the memory of one process end with it.
    if (store.endedSince === undefined) return
    const [waits, ended, expired, gone, before] = [1, 2, 3, 4, 5].map((at) =>
      someNotification({ dueAt: epoch + at }),
    ) as [Notification, Notification, Notification, Notification, Notification]
    await must(store, { accept: [waits, ended, expired, gone, before] })
    const end = (of: Notification, status: 'cancelled' | 'expired', at: number) =>
      advance(of, [{ at: epoch + at, status }], { dueAt: epoch + at })
    await must(store, { moves: [end(before, 'cancelled', 5)] })
    await must(store, { moves: [end(ended, 'cancelled', 10)] })
    await must(store, { moves: [end(expired, 'expired', 20)] })
    await must(store, { moves: [settled(gone, epoch + 30)] })
    const read = async (at: number, limit: number) =>
      (await store.endedSince!(epoch + at, limit)).map(({ id }) => id)
    assert.deepEqual(await read(10, 10), [expired.id, ended.id])
    assert.deepEqual(await read(0, 1), [expired.id])
    assert.deepEqual(await read(0, 10), [expired.id, ended.id, before.id])
    const [first] = await store.endedSince(epoch + 20, 10)
    assert.deepEqual(first, await store.notification(expired.tenant, expired.id))
  })
}
