/** Commits of a store: atomic, durable when they resolve, and isolated from commits beside them. */
import assert from 'node:assert/strict'
import { unservedDetail } from '../../bounds.ts'
import type { Notification } from '../../model.ts'
import { advance } from '../../model.ts'
import type { Change, StoredAnswer } from '../../ports.ts'
import { epoch, inThrottleQueue, settled, someNotification } from './sample.ts'
import type { StoreCapabilities, Test } from './suite.ts'
import { applied, conflict, must } from './suite.ts'

export function commits(test: Test, capabilities: StoreCapabilities): void {
  test('returns exactly the accepted notification, whatever its fields hold', async (store) => {
    const plain = someNotification()
    const full = someNotification({
      requestedChannel: 'push',
      template: 'new-comment',
      data: {
        post: 'p',
        nested: { list: [1, 'two', null, true, { deep: 'é' }] },
      },
      actor: 'author-7',
      actors: ['author-7', 'author-8'],
      sendAt: epoch + 1,
      expiresAt: epoch + 2,
      status: 'scheduled',
      dueAt: epoch + 10,
      digestId: 'd-1',
      single: true,
      undecided: true,
      attempts: 3,
      turnedAt: epoch - 6,
      firedAt: epoch - 5,
      suspects: [epoch - 9, epoch - 4],
      decision: {
        outcome: 'delay',
        reason: 'tenant_limit',
        limit: 'tenant',
        at: epoch + 10,
        policyVersion: 'p1',
        rules: [
          {
            limit: 'tenant',
            window: '100/min',
            used: 100,
            max: 100,
            remaining: 0,
            freesAt: null,
            admits: false,
          },
        ],
      },
    })
    await must(store, { accept: [plain, full] })
    assert.deepEqual(await store.notification('acme', plain.id), plain)
    assert.deepEqual(await store.notification('acme', full.id), full)
  })

  test('does not show a notification to another tenant', async (store) => {
    const notification = someNotification()
    await must(store, { accept: [notification] })
    assert.equal(await store.notification('other', notification.id), undefined)
    assert.equal(await store.notification('acme', 'unknown'), undefined)
  })

  test('knows the version of a notification whose timeline was shortened', async (store) => {
    let notification = someNotification()
    await must(store, { accept: [notification] })
    const before = notification
    for (let call = 0; call < 50; call += 1) {
      const move = advance(notification, [
        { at: epoch + call, status: 'sending', account: 'a' },
        { at: epoch + call, status: 'queued', reason: 'provider_capacity' },
      ])
      await must(store, { moves: [move] })
      assert.deepEqual(await store.notification('acme', notification.id), move.after)
      // The state that another writer believed before this one.
      assert.deepEqual(await store.commit({ moves: [move] }), conflict('notification', notification.id))
      notification = move.after
    }
    assert.ok(notification.timeline.length < 100 && notification.omitted! > 0)
    assert.deepEqual(notification.timeline.slice(0, 2), before.timeline.slice(0, 2))
  })

  test('moves a notification and appends to its timeline', async (store) => {
    const notification = someNotification()
    await must(store, { accept: [notification] })
    const first = advance(notification, [{ at: epoch + 1, status: 'scheduled', reason: 'retry' }], {
      dueAt: epoch + 9,
    })
    await must(store, { moves: [first] })
    const second = advance(first.after, [{ at: epoch + 9, status: 'queued' }], {
      channel: 'sms',
      requestedChannel: 'email',
      decision: { outcome: 'fallback', policyVersion: 'p2', rules: [] },
    })
    await must(store, { moves: [second] })
    await must(store, { moves: [settled(second.after, epoch + 10)] })
    assert.deepEqual(
      await store.notification('acme', notification.id),
      settled(second.after, epoch + 10).after,
    )
  })

  test('forgets optional fields that a move takes away', async (store) => {
    const notification = someNotification({
      status: 'digesting',
      digestId: 'd-1',
      undecided: true,
    })
    await must(store, { accept: [notification] })
    const { digestId: _gone, undecided: _too, ...rest } = notification
    const move = advance(notification, [{ at: epoch + 1, status: 'queued' }])
    const after = {
      ...rest,
      status: move.after.status,
      timeline: move.after.timeline,
    }
    await must(store, { moves: [{ ...move, after }] })
    assert.deepEqual(await store.notification('acme', notification.id), after)
  })

  test('refuses a stale version and writes nothing of its change', async (store) => {
    const stale = someNotification()
    const other = someNotification()
    const fresh = someNotification()
    await must(store, { accept: [stale, other] })
    await must(store, { moves: [settled(stale, epoch)] })
    const change: Change = {
      moves: [settled(other, epoch), advance(stale, [{ at: epoch, status: 'cancelled' }])],
      accept: [fresh],
      recipients: [{ tenant: 'acme', id: 'user-9' }],
    }
    assert.deepEqual(await store.commit(change), conflict('notification', stale.id))
    assert.deepEqual(await store.notification('acme', other.id), other)
    assert.equal(await store.notification('acme', fresh.id), undefined)
    assert.equal(await store.recipient('acme', 'user-9'), undefined)
  })

  test('distinguishes versions in the same state', async (store) => {
    const notification = someNotification({
      status: 'scheduled',
      dueAt: epoch + 5,
    })
    await must(store, { accept: [notification] })
    const again = advance(notification, [{ at: epoch, status: 'scheduled' }])
    await must(store, { moves: [again] })
    assert.deepEqual(await store.commit({ moves: [again] }), conflict('notification', notification.id))
  })

  test('distinguishes two versions of the same age', async (store) => {
    const notification = someNotification()
    await must(store, { accept: [notification] })
    const taken = advance(notification, [{ at: epoch, status: 'scheduled' }])
    const other = advance(notification, [{ at: epoch, status: 'dead', reason: 'shed' }])
    await must(store, { moves: [taken] })
    const onwards = advance(other.after, [{ at: epoch, status: 'queued' }])
    assert.deepEqual(await store.commit({ moves: [onwards] }), conflict('notification', notification.id))
  })

  test('answers a move of an unknown notification with a conflict', async (store) => {
    const unknown = someNotification()
    assert.deepEqual(
      await store.commit({ moves: [settled(unknown, epoch)] }),
      conflict('notification', unknown.id),
    )
  })

  test('accepts an id once, and a change with a known id not at all', async (store) => {
    const known = someNotification()
    const fresh = someNotification()
    await must(store, { accept: [known] })
    assert.deepEqual(await store.commit({ accept: [known] }), conflict('notification', known.id))
    assert.deepEqual(await store.commit({ accept: [fresh, known] }), conflict('notification', known.id))
    assert.equal(await store.notification('acme', fresh.id), undefined)
  })

  test('keeps the changes of one group apart: a conflict disturbs no neighbour', async (store) => {
    const first = someNotification()
    const second = someNotification()
    const third = someNotification()
    await must(store, { accept: [first] })
    const results = await Promise.all([
      store.commit({ accept: [second] }),
      store.commit({ accept: [third, first] }),
      store.commit({ moves: [settled(first, epoch)] }),
      store.commit({
        moves: [advance(first, [{ at: epoch, status: 'cancelled' }])],
      }),
      store.commit({ moves: [settled(second, epoch)] }),
    ])
    assert.deepEqual(results, [
      applied,
      conflict('notification', first.id),
      applied,
      conflict('notification', first.id),
      applied,
    ])
    assert.equal(await store.notification('acme', third.id), undefined)
    assert.equal((await store.notification('acme', second.id))?.status, 'delivered')
    assert.equal((await store.notification('acme', first.id))?.status, 'delivered')
  })

  test('throws for a transition that the table does not allow, and writes the rest of the group', async (store) => {
    const notification = someNotification()
    const neighbour = someNotification()
    await must(store, { accept: [notification] })
    const illegal = {
      before: notification,
      after: { ...notification, status: 'merged' as const },
      events: [{ at: epoch, status: 'merged' as const }],
    }
    const [bad, good] = await Promise.allSettled([
      store.commit({ moves: [illegal] }),
      store.commit({ accept: [neighbour] }),
    ])
    assert.equal(bad.status, 'rejected')
    assert.deepEqual(good, { status: 'fulfilled', value: applied })
    await assert.rejects(
      store.commit({
        accept: [{ ...someNotification(), status: 'delivered' }],
      }),
      TypeError,
    )
    await assert.rejects(
      store.commit({
        moves: [{ before: notification, after: notification, events: [] }],
      }),
      TypeError,
    )
  })

  test('keeps the answer to a request once per key', async (store) => {
    const answer: StoredAnswer = {
      tenant: 'acme',
      module: 'shop',
      method: 'POST',
      path: '/api/v1/notifications',
      key: 'ключ-1',
      requestHash: 'aa',
      status: 202,
      body: '{"notificationId":"1"}',
      createdAt: epoch,
    }
    const notification = someNotification()
    await must(store, { accept: [notification], answer })
    assert.deepEqual(await store.answer(answer), answer)
    for (const other of [
      { key: 'ключ-2' },
      { module: 'm' },
      { tenant: 't' },
      { path: '/p' },
      { method: 'PUT' },
    ]) {
      assert.equal(await store.answer({ ...answer, ...other }), undefined)
    }
    const fresh = someNotification()
    assert.deepEqual(await store.commit({ accept: [fresh], answer }), conflict('answer', 'ключ-1'))
    assert.equal(await store.notification('acme', fresh.id), undefined)
    await must(store, { answer: { ...answer, module: 'other' } })
  })

  test('keeps the position of the clock', async (store) => {
    assert.equal(await store.timeLine(), undefined)
    await store.keepTimeLine({ at: epoch, aheadMs: -3_600_000 })
    await store.keepTimeLine({ at: epoch + 1, aheadMs: 0 })
    assert.deepEqual(await store.timeLine(), { at: epoch + 1, aheadMs: 0 })
  })

  test('keeps the usage of accounts with their state, as long as there is any', async (store) => {
    const account = { channel: 'email', provider: 'smtp', account: 'a' } as const
    const calls = Array.from({ length: 300 }, (_, slice) => [epoch + slice * 36_000, 7] as const)
    const use = { calls, ahead: 500, windowMs: 3_600_020 }
    await must(store, { accounts: [{ ...account, use }] })
    assert.deepEqual(await store.accounts(), [{ ...account, use }])
    const accept = [someNotification()]
    const ended = { ...account, blockedUntil: epoch + 5, use: { ...use, calls: calls.slice(1), ahead: 0 } }
    await must(store, { accept, accounts: [ended] })
    assert.deepEqual(await store.accounts(), [ended])
    assert.deepEqual(
      await store.commit({ accept, accounts: [{ ...account, use }] }),
      conflict('notification', accept[0]!.id),
      'with a change that is refused it is not written',
    )
    assert.deepEqual(await store.accounts(), [ended])
    await must(store, { accounts: [account] })
    assert.deepEqual(await store.accounts(), [])
  })

  test('an empty change is applied', async (store) => {
    await must(store, {})
    await store.ping()
  })

  test('counts dead letters of channels without a pool separately', async (store) => {
    const behind = inThrottleQueue()
    const others = [someNotification(), someNotification()]
    await must(store, { accept: [behind, ...others] })
    const die = (before: Notification, detail?: string) =>
      advance(before, [
        { at: epoch, status: 'dead', reason: 'pool_blocked', ...(detail === undefined ? {} : { detail }) },
      ])
    const moves = [die(behind, unservedDetail), die(others[0]!, unservedDetail), die(others[1]!)]
    await must(store, { moves })
    const dead = { tenant: 'acme', status: 'dead', throttled: false }
    const counted = await store.tallies()
    const byCount = counted.filter(({ count }) => count > 0).toSorted((a, b) => a.count - b.count)
    assert.deepEqual(byCount, [
      { ...dead, count: 1, bytes: 0 },
      { ...dead, unserved: true, count: 2, bytes: 0 },
    ])
    await must(store, {
      moves: moves.map(({ after }) => advance(after, [{ at: epoch, status: 'scheduled' }])),
    })
    const left = (await store.tallies()).filter(({ count }) => count > 0)
    assert.ok(left.every(({ status, unserved }) => status === 'scheduled' && unserved === undefined))
  })

  test('reads, lists and moves on a notification whose detail holds NUL or half of a character', async (store) => {
    for (const words of ['a\0b', '\ud83d', '\\ud83d \udc4b']) {
      const row = someNotification()
      await must(store, { accept: [row] })
      const at = epoch + 1
      const path = [
        { at, status: 'sending' },
        { at, status: 'queued', detail: words },
      ] as const
      const again = advance(row, path)
      await must(store, { moves: [again] })
      await must(store, { moves: [settled(again.after, epoch + 10)] })
      const found = await store.notification('acme', row.id)
      assert.equal(found?.status, 'delivered')
      const plain = (text = '') => text.replaceAll('\0', '\u{fffd}').toWellFormed()
      assert.equal(plain(found.timeline[3]?.detail), plain(words))
      assert.equal((await store.list({ tenant: 'acme', limit: 1, ids: [row.id] })).items.length, 1)
      const of = { tenant: 'acme', recipient: 'user-1', since: epoch - 1_000, limit: 100 }
      assert.ok((await store.counted(of)).items.some(({ id }) => id === row.id))
    }
  })

  if (capabilities.durable) {
    test('has all rows after it was closed and opened', async (store, context) => {
      const notification = someNotification()
      await must(store, { accept: [notification] })
      const move = settled(notification, epoch)
      await must(store, {
        moves: [move],
        recipients: [{ tenant: 'acme', id: 'user-1' }],
      })
      const again = await context.reopen()
      assert.deepEqual(await again.notification('acme', notification.id), move.after)
      assert.deepEqual(await again.recipient('acme', 'user-1'), {
        tenant: 'acme',
        id: 'user-1',
      })
      assert.deepEqual(await again.tallies(), [
        {
          tenant: 'acme',
          status: 'delivered',
          throttled: false,
          count: 1,
          bytes: 0,
        },
      ])
    })

    test('reports no crash after a clean shutdown', async (store, context) => {
      const notification = someNotification()
      await must(store, { accept: [notification] })
      context.clock.set(epoch + 1_000)
      const again = await context.reopen()
      assert.deepEqual(await again.notification('acme', notification.id), notification)
    })

    test('refuses calls after it was closed', async (store, context) => {
      await context.reopen()
      await assert.rejects(store.commit({}), { code: 'STORE_UNAVAILABLE' })
      await assert.rejects(store.notification('acme', 'x'), {
        code: 'STORE_UNAVAILABLE',
      })
    })
  }
}
