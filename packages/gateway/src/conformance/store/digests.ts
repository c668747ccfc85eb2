/** Digests in a store: one is open for each group, and no item is lost between two changes. */
import assert from 'node:assert/strict'
import type { Digest, Notification } from '../../model.ts'
import { advance } from '../../model.ts'
import type { Change, Page, Store } from '../../ports.ts'
import { epoch, someDigest, someNotification } from './sample.ts'
import type { Test } from './suite.ts'
import { agree, conflict, ids, must } from './suite.ts'

export function digests(test: Test): void {
  test('opens one digest for a recipient, channel, category and name', async (store) => {
    const digest = someDigest()
    await must(store, { digests: [{ kind: 'open', digest }] })
    assert.deepEqual(await store.openDigest(digest), digest)
    assert.deepEqual(await store.digest(digest.id), digest)
    assert.equal(await store.digest('another'), undefined)
    const rival = someDigest()
    const item = someNotification({ status: 'digesting', digestId: rival.id })
    assert.deepEqual(
      await store.commit({
        digests: [{ kind: 'open', digest: rival }],
        accept: [item],
      }),
      conflict('digest', rival.id),
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

  test('gives concurrent openings of a digest the same one, but never a closed one', async (store) => {
    const digest = someDigest({ closesAt: epoch + 100 })
    const items = [100, 60, 80].map((at) => ({
      item: someNotification({ status: 'digesting', digestId: digest.id }),
      closesAt: epoch + at,
    }))
    await Promise.all(
      items.map(({ item, closesAt }) =>
        must(store, { digests: [{ kind: 'open', digest: { ...digest, closesAt } }], accept: [item] }),
      ),
    )
    assert.deepEqual(await store.openDigest(digest), { ...digest, closesAt: epoch + 60 })
    const collected = await itemsOf(store, digest)
    assert.deepEqual(ids(collected), ids(items.map(({ item }) => item)))

    await must(store, {
      digests: [{ kind: 'close', digest, left: 0 }],
      moves: collected.map((item) => advance(item, [{ at: epoch, status: 'merged' }])),
      accept: [someNotification({ id: digest.id })],
    })
    const late = someNotification({ status: 'digesting', digestId: digest.id })
    assert.deepEqual(
      await store.commit({ digests: [{ kind: 'open', digest }], accept: [late] }),
      conflict('digest', digest.id),
    )
    assert.equal(await store.openDigest(digest), undefined)
    await agree(store)
  })

  test('collects items in the order of their acceptance, and lets none join a closed digest', async (store) => {
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
    assert.deepEqual(await itemsOf(store, digest), [first, second])

    const whole = someNotification({ id: digest.id })
    const merge = [first, second].map((item) => advance(item, [{ at: epoch, status: 'merged' }]))
    await must(store, {
      digests: [{ kind: 'close', digest, left: 0 }],
      moves: merge,
      accept: [whole],
    })
    assert.deepEqual(await itemsOf(store, digest), [])
    assert.equal(await store.openDigest(digest), undefined)
    assert.equal((await store.notification('acme', first.id))?.digestId, digest.id)

    const late = someNotification({ status: 'digesting', digestId: digest.id })
    assert.deepEqual(
      await store.commit({
        digests: [{ kind: 'join', digest }],
        accept: [late],
      }),
      conflict('digest', digest.id),
    )
    assert.equal(await store.notification('acme', late.id), undefined)
    for (const write of [
      { kind: 'close', digest, left: 0 } as const,
      { kind: 'postpone', digest } as const,
    ]) {
      assert.deepEqual(await store.commit({ digests: [write] }), conflict('digest', digest.id))
    }
    await must(store, { digests: [{ kind: 'open', digest: someDigest() }] })
  })

  test('returns closing digests until they are closed or postponed, earliest first', async (store) => {
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
    await must(store, { digests: [{ kind: 'close', digest: late, left: 0 }] })
    assert.deepEqual(await store.dueDigests(epoch + 5, 10), [])
    assert.equal(await store.nextDigestAt(), never.closesAt)
    assert.deepEqual(await store.openDigest(early), {
      ...early,
      closesAt: epoch + 20,
    })
  })

  test('closes no digest while an item that it collects is not among the moves', async (store) => {
    const digest = someDigest()
    const [first, second, late] = [1, 2, 3].map(() =>
      someNotification({ status: 'digesting', digestId: digest.id }),
    ) as [Notification, Notification, Notification]
    await must(store, { digests: [{ kind: 'open', digest }], accept: [first, second] })
    const closing: Change = {
      digests: [{ kind: 'close', digest, left: 0 }],
      moves: [first, second].map((item) => advance(item, [{ at: epoch, status: 'merged' }])),
      accept: [someNotification({ id: digest.id })],
    }
    await must(store, { digests: [{ kind: 'join', digest }], accept: [late] })
    assert.deepEqual(await store.commit(closing), conflict('digest', digest.id))
    assert.deepEqual(await store.commit({ digests: closing.digests! }), conflict('digest', digest.id))
    assert.deepEqual(ids(await itemsOf(store, digest)), ids([first, second, late]))
    assert.deepEqual(await store.openDigest(digest), digest)
    assert.equal(await store.notification('acme', digest.id), undefined)

    await must(store, {
      ...closing,
      moves: [...closing.moves!, advance(late, [{ at: epoch, status: 'scheduled' }])],
    })
    assert.equal(await store.openDigest(digest), undefined)
    await agree(store)
  })

  test('counts items that leave, stay and join in the change that closes or postpones a digest', async (store) => {
    const digest = someDigest()
    const next = someDigest({ recipient: 'user-2' })
    const items = [1, 2, 3].map(() => someNotification({ status: 'digesting', digestId: digest.id }))
    await must(store, { digests: [{ kind: 'open', digest }], accept: items })
    const postponed = { ...digest, closesAt: epoch + 50 }
    const [onWritten, staying] = items as [Notification, Notification, Notification]
    const change = (left: number): Change => ({
      digests: [{ kind: 'postpone', digest: postponed, left }],
      moves: [
        advance(onWritten, [{ at: epoch, status: 'merged' }]),
        advance(staying, [{ at: epoch, status: 'digesting' }]),
      ],
      accept: [someNotification({ status: 'digesting', digestId: digest.id })],
    })
    for (const wrong of [0, 2, 4])
      assert.deepEqual(await store.commit(change(wrong)), conflict('digest', digest.id))
    assert.deepEqual(
      await store.commit({ digests: [{ kind: 'postpone', digest: postponed, left: 2 }] }),
      conflict('digest', digest.id),
    )
    assert.deepEqual(await store.openDigest(digest), digest)
    await must(store, change(3))
    await must(store, { digests: [{ kind: 'postpone', digest: { ...digest, closesAt: epoch + 60 } }] })

    const moved = (await itemsOf(store, digest)).map((item) =>
      advance(item, [{ at: epoch, status: 'digesting' }], { digestId: next.id }),
    )
    await must(store, {
      digests: [
        { kind: 'close', digest, left: 0 },
        { kind: 'open', digest: next },
      ],
      moves: moved,
    })
    assert.deepEqual(await itemsOf(store, digest), [])
    assert.equal((await itemsOf(store, next)).length, 3)
  })

  test('keeps the content of an item when a move does not carry it', async (store) => {
    const digest = someDigest()
    const { content, ...bare } = someNotification({ status: 'digesting', digestId: digest.id })
    await must(store, { digests: [{ kind: 'open', digest }], accept: [{ ...bare, content: content! }] })
    const move = advance(bare, [{ at: epoch, status: 'merged' }])
    await must(store, { digests: [{ kind: 'close', digest, left: 0 }], moves: [move] })
    assert.deepEqual(await store.notification('acme', bare.id), { ...move.after, content })
  })

  test('brings the closing forward for an item with an earlier promise, and postpones it for none', async (store) => {
    const digest = someDigest({ closesAt: epoch + 100 })
    await must(store, { digests: [{ kind: 'open', digest }] })
    const join = async (closesAt: number): Promise<number | undefined> => {
      const item = someNotification({ status: 'digesting', digestId: digest.id })
      await must(store, { digests: [{ kind: 'join', digest: { ...digest, closesAt } }], accept: [item] })
      return (await store.openDigest(digest))?.closesAt
    }
    assert.equal(await join(epoch + 100), epoch + 100)
    assert.equal(await join(epoch + 40), epoch + 40)
    assert.equal(await join(epoch + 70), epoch + 40)
    assert.equal(await store.nextDigestAt(), epoch + 40)
    assert.deepEqual(ids(await store.dueDigests(epoch + 40, 9)), [digest.id])
  })

  test('keeps as what a digest holds its instant until that changes', async (store) => {
    const { heldAs: _, ...digest } = someDigest({ closesAt: epoch + 100 })
    const { module, to, priority } = someNotification()
    const heldAs = { module, to, priority, template: 'news', actors: ['eve', 'björn "b"'] }
    await must(store, { digests: [{ kind: 'open', digest }] })
    const held = { ...digest, closesAt: epoch + 200, heldAs }
    await must(store, { digests: [{ kind: 'postpone', digest: held }] })
    for (const found of [
      await store.digest(digest.id),
      await store.openDigest(digest),
      ...(await store.dueDigests(epoch + 200, 9)),
    ])
      assert.deepEqual(found, held)
    const item = someNotification({ status: 'digesting', digestId: digest.id })
    await must(store, {
      digests: [{ kind: 'join', digest: { ...digest, closesAt: epoch + 150 } }],
      accept: [item],
    })
    assert.deepEqual(await store.digest(digest.id), { ...held, closesAt: epoch + 150 })
    await must(store, { digests: [{ kind: 'postpone', digest: { ...digest, closesAt: epoch + 300 } }] })
    assert.deepEqual(await store.digest(digest.id), { ...digest, closesAt: epoch + 300 })
    await agree(store)
  })

  test('returns the items of a digest page by page, whatever leaves meanwhile', async (store) => {
    const digest = someDigest()
    const items = Array.from({ length: 7 }, () =>
      someNotification({ status: 'digesting', digestId: digest.id }),
    )
    await must(store, { digests: [{ kind: 'open', digest }], accept: items })
    const first = await store.digestItems(digest, null, 3)
    assert.deepEqual(ids(first.items), ids(items.slice(0, 3)))
    await must(store, { moves: [advance(first.items[2]!, [{ at: epoch, status: 'cancelled' }])] })
    const second = await store.digestItems(digest, first.nextCursor, 3)
    assert.deepEqual(ids(second.items), ids(items.slice(3, 6)))
    const last = await store.digestItems(digest, second.nextCursor, 3)
    assert.deepEqual(ids(last.items), ids(items.slice(6)))
    assert.equal(last.nextCursor, null)
  })

  test('finds the items whose digest is not open', async (store) => {
    const [open, gone] = [someDigest(), someDigest({ recipient: 'user-2' })] as const
    const collected = someNotification({ status: 'digesting', digestId: open.id })
    await must(store, { digests: [{ kind: 'open', digest: open }], accept: [collected] })
    assert.deepEqual(await orphansOf(store), [])
    // A row that a version wrote which did not check.
    const orphans = [1, 2, 3].map(() => someNotification({ status: 'digesting', digestId: gone.id }))
    await must(store, { accept: orphans })
    assert.deepEqual(ids(await orphansOf(store)), ids(orphans))
    const [found] = (await store.orphans(null, 2)).items
    await must(store, {
      digests: [{ kind: 'join', digest: open }],
      moves: [advance(found!, [{ at: epoch, status: 'digesting' }], { digestId: open.id })],
    })
    assert.equal((await orphansOf(store)).length, 2)
    assert.deepEqual(ids(await itemsOf(store, open)), ids([collected, found!]).toSorted())
  })

  test('strands no item, in any order of concurrent joins and closings', async (store) => {
    const accepted: string[] = []
    for (let round = 0; round < 20; round += 1) {
      const digest = someDigest()
      const first = someNotification({ status: 'digesting', digestId: digest.id })
      await must(store, { digests: [{ kind: 'open', digest }], accept: [first] })
      accepted.push(first.id)
      const join = async (): Promise<void> => {
        const item = someNotification({ status: 'digesting', digestId: digest.id })
        const { applied } = await store.commit({ digests: [{ kind: 'join', digest }], accept: [item] })
        if (applied) accepted.push(item.id)
      }
      const close = async (): Promise<void> => {
        for (let closed = false; !closed; ) {
          const moves = (await itemsOf(store, digest)).map((item) =>
            advance(item, [{ at: epoch, status: 'merged' }]),
          )
          const { applied } = await store.commit({ digests: [{ kind: 'close', digest, left: 0 }], moves })
          closed = applied
        }
      }
      await Promise.all([join(), join(), close(), join(), join(), join()])
    }
    assert.deepEqual(await orphansOf(store), [])
    for (const id of accepted) assert.equal((await store.notification('acme', id))?.status, 'merged')
    await agree(store)
  })
}

async function itemsOf(store: Store, digest: Digest): Promise<readonly Notification[]> {
  return (await store.digestItems(digest, null, 1_000)).items
}

async function orphansOf(store: Store): Promise<readonly Notification[]> {
  const found: Notification[] = []
  let cursor: string | null = null
  do {
    const page: Page<Notification> = await store.orphans(cursor, 100)
    found.push(...page.items)
    cursor = page.nextCursor
  } while (cursor !== null)
  return found
}
