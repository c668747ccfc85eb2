/** What a store promises of digests: one open for each group, and no item lost between two changes. */
import assert from 'node:assert/strict'
import type { Digest } from '../../model.ts'
import { advance } from '../../model.ts'
import { epoch, someDigest, someNotification } from './sample.ts'
import type { Test } from './suite.ts'
import { conflict, ids, must } from './suite.ts'

export function digests(test: Test): void {
  test('opens one digest for a person, channel, category and name', async (store) => {
    const digest = someDigest()
    await must(store, { digests: [{ kind: 'open', digest }] })
    assert.deepEqual(await store.openDigest(digest), digest)
    const rival = someDigest()
    const item = someNotification({ status: 'digesting', digestId: rival.id })
    assert.deepEqual(
      await store.commit({
        digests: [{ kind: 'open', digest: rival }],
        accept: [item],
      }),
      conflict(rival.id),
    )
    assert.equal(await store.notification('acme', item.id), undefined)
    for (const other of [
      { tenant: 't' },
      { recipient: 'r' },
      { channel: 'sms' },
      { category: 'c' },
      { name: 'n' },
    ]) {
      const elsewhere = someDigest(other as Partial<Digest>)
      assert.equal(await store.openDigest(elsewhere), undefined)
      await must(store, { digests: [{ kind: 'open', digest: elsewhere }] })
    }
  })

  test('collects items in the order of their acceptance, and lets none join what is closed', async (store) => {
    const digest = someDigest()
    const first = someNotification({
      id: '01Z-first',
      status: 'digesting',
      digestId: digest.id,
    })
    const second = someNotification({
      id: '01A-second',
      status: 'digesting',
      digestId: digest.id,
    })
    await must(store, {
      digests: [
        { kind: 'open', digest },
        { kind: 'join', digest },
      ],
      accept: [first],
    })
    await must(store, {
      digests: [{ kind: 'join', digest }],
      accept: [second],
    })
    assert.deepEqual(await store.digestItems(digest), [first, second])

    const whole = someNotification({ id: digest.id })
    const merge = [first, second].map((item) => advance(item, [{ at: epoch, status: 'merged' }]))
    await must(store, {
      digests: [{ kind: 'close', digest }],
      moves: merge,
      accept: [whole],
    })
    assert.deepEqual(await store.digestItems(digest), [])
    assert.equal(await store.openDigest(digest), undefined)
    assert.equal((await store.notification('acme', first.id))?.digestId, digest.id)

    const late = someNotification({ status: 'digesting', digestId: digest.id })
    assert.deepEqual(
      await store.commit({
        digests: [{ kind: 'join', digest }],
        accept: [late],
      }),
      conflict(digest.id),
    )
    assert.equal(await store.notification('acme', late.id), undefined)
    for (const kind of ['close', 'postpone'] as const) {
      assert.deepEqual(await store.commit({ digests: [{ kind, digest }] }), conflict(digest.id))
    }
    await must(store, { digests: [{ kind: 'open', digest: someDigest() }] })
  })

  test('gives what closes until it is closed or postponed, earliest first', async (store) => {
    const [late, early, never] = [5, 3, 9].map((at) =>
      someDigest({ recipient: `user-${at}`, closesAt: epoch + at }),
    ) as [Digest, Digest, Digest]
    assert.equal(await store.nextDigestAt(), undefined)
    await must(store, {
      digests: [late, early, never].map((digest) => ({ kind: 'open', digest }) as const),
    })
    assert.equal(await store.nextDigestAt(), early.closesAt)
    assert.deepEqual(ids(await store.dueDigests(epoch + 5, 10)), [early.id, late.id])
    assert.deepEqual(ids(await store.dueDigests(epoch + 5, 1)), [early.id])
    await must(store, {
      digests: [{ kind: 'postpone', digest: { ...early, closesAt: epoch + 20 } }],
    })
    await must(store, { digests: [{ kind: 'close', digest: late }] })
    assert.deepEqual(await store.dueDigests(epoch + 5, 10), [])
    assert.equal(await store.nextDigestAt(), never.closesAt)
    assert.deepEqual(await store.openDigest(early), {
      ...early,
      closesAt: epoch + 20,
    })
  })
}
