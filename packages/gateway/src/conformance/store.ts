/**
 * What every store must do, as one suite over the port: `exerciseStore` runs it against whatever `open` gives. It
 * asks nothing of how a store works, only what it promises; faults of an engine (kills, full disks) are tested with
 * the engine.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Digest, Notification, Recipient, Status, TimelineEvent } from '../model.ts'
import { advance, statuses } from '../model.ts'
import type { Change, Clock, CommitResult, Store, StoredAnswer } from '../ports.ts'

export interface StoreCapabilities {
  /** What is written outlives `close`, and the same place can be opened again. */
  readonly durable: boolean
}

/** Opens a store that is empty the first time. `place` names it; the same name is the same store. */
export type OpenStore = (options: { readonly clock: Clock; readonly place: string }) => Promise<Store>

/** A clock that stands still until it is told, and calls `soon` at the end of the present turn. */
export function stillClock(start: number): Clock & { set(now: number): void } {
  let now = start
  return {
    now: () => now,
    set: (next) => {
      now = next
    },
    at: () => () => {},
    soon: (callback) => {
      setImmediate(callback)
    },
  }
}

export const epoch = Date.UTC(2026, 10, 21, 12)

let made = 0
/** A notification as admission makes it: accepted and waiting in `status`. Ids sort by the order of making. */
export function someNotification(patch: Partial<Notification> = {}): Notification {
  made += 1
  const id = patch.id ?? `01TEST${String(made).padStart(20, '0')}`
  const status = patch.status ?? 'queued'
  const createdAt = patch.createdAt ?? epoch
  return {
    id,
    tenant: 'acme',
    module: 'shop',
    to: { id: 'user-1', email: 'ada@example.com', timeZone: 'Europe/Rome' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: { subject: 'Hello “Ada” – 你好 👋', text: 'A line\nand another with \\ and "quotes"' },
    fingerprint: `print-${id}`,
    createdAt,
    status,
    dueAt: createdAt,
    decision: { outcome: 'send', at: createdAt, policyVersion: 'p1', rules: [] },
    attempts: 0,
    timeline: [
      { at: createdAt, status: 'accepted' },
      ...(status === 'accepted' ? [] : [{ at: createdAt, status } satisfies TimelineEvent]),
    ],
    ...patch,
  }
}

export function someDigest(patch: Partial<Digest> = {}): Digest {
  made += 1
  return {
    id: `01DIGEST${String(made).padStart(18, '0')}`,
    tenant: 'acme',
    recipient: 'user-1',
    channel: 'email',
    category: 'activity',
    name: 'activity',
    openedAt: epoch,
    closesAt: epoch + 3_600_000,
    ...patch,
  }
}

/** The move of a notification that a provider took. */
export function settled(before: Notification, at: number): ReturnType<typeof advance> {
  return advance(
    before,
    [
      { at, status: 'sending', provider: 'sandbox', account: 'a1', attempt: 1 },
      { at: at + 5, status: 'delivered', provider: 'sandbox', account: 'a1', attempt: 1 },
    ],
    { attempts: before.attempts + 1, firedAt: at, dueAt: at + 5 },
  )
}

const applied: CommitResult = { applied: true }
const conflict = (...conflicts: string[]): CommitResult => ({ applied: false, conflicts })
const ids = (list: readonly { readonly id: string }[]): readonly string[] => list.map(({ id }) => id)

/** Registers the suite `name` with node:test. */
export function exerciseStore(name: string, open: OpenStore, capabilities: StoreCapabilities): void {
  let places = 0
  /** One store, opened for the test and closed after it. */
  function test(title: string, body: (store: Store, context: Context) => Promise<void>): void {
    it(title, async () => {
      places += 1
      const place = `place-${places}`
      const clock = stillClock(epoch)
      let store = await open({ clock, place })
      const context: Context = {
        clock,
        async reopen() {
          await store.close()
          store = await open({ clock, place })
          return store
        },
      }
      try {
        await body(store, context)
      } finally {
        await store.close()
      }
    })
  }

  describe(name, () => {
    describe('commit', () => commits(test, capabilities))
    describe('digests', () => digests(test))
    describe('claims', () => claims(test, capabilities))
    describe('questions', () => questions(test, capabilities))
  })
}

interface Context {
  readonly clock: ReturnType<typeof stillClock>
  reopen(): Promise<Store>
}

type Test = (title: string, body: (store: Store, context: Context) => Promise<void>) => void

async function must(store: Store, change: Change): Promise<void> {
  assert.deepEqual(await store.commit(change), applied)
}

function commits(test: Test, capabilities: StoreCapabilities): void {
  test('gives back exactly what was accepted, whatever its fields hold', async (store) => {
    const plain = someNotification()
    const full = someNotification({
      requestedChannel: 'push',
      template: 'new-comment',
      data: { post: 'p', nested: { list: [1, 'two', null, true, { deep: 'é' }] } },
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
      firedAt: epoch - 5,
      suspectAt: epoch - 4,
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
    const notification = someNotification({ status: 'digesting', digestId: 'd-1', undecided: true })
    await must(store, { accept: [notification] })
    const { digestId: _gone, undecided: _too, ...rest } = notification
    const move = advance(notification, [{ at: epoch + 1, status: 'queued' }])
    const after = { ...rest, status: move.after.status, timeline: move.after.timeline }
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
    assert.deepEqual(await store.commit(change), conflict(stale.id))
    assert.deepEqual(await store.notification('acme', other.id), other)
    assert.equal(await store.notification('acme', fresh.id), undefined)
    assert.equal(await store.recipient('acme', 'user-9'), undefined)
  })

  test('tells versions in the same state apart', async (store) => {
    const notification = someNotification({ status: 'scheduled', dueAt: epoch + 5 })
    await must(store, { accept: [notification] })
    const again = advance(notification, [{ at: epoch, status: 'scheduled' }])
    await must(store, { moves: [again] })
    assert.deepEqual(await store.commit({ moves: [again] }), conflict(notification.id))
  })

  test('tells apart two versions that are equally old', async (store) => {
    const notification = someNotification()
    await must(store, { accept: [notification] })
    const taken = advance(notification, [{ at: epoch, status: 'scheduled' }])
    const other = advance(notification, [{ at: epoch, status: 'dead', reason: 'shed' }])
    await must(store, { moves: [taken] })
    const onwards = advance(other.after, [{ at: epoch, status: 'queued' }])
    assert.deepEqual(await store.commit({ moves: [onwards] }), conflict(notification.id))
  })

  test('answers a move of what was never accepted with a conflict', async (store) => {
    const unknown = someNotification()
    assert.deepEqual(await store.commit({ moves: [settled(unknown, epoch)] }), conflict(unknown.id))
  })

  test('accepts an id once, and a change with a known id not at all', async (store) => {
    const known = someNotification()
    const fresh = someNotification()
    await must(store, { accept: [known] })
    assert.deepEqual(await store.commit({ accept: [known] }), conflict(known.id))
    assert.deepEqual(await store.commit({ accept: [fresh, known] }), conflict(known.id))
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
      store.commit({ moves: [advance(first, [{ at: epoch, status: 'cancelled' }])] }),
      store.commit({ moves: [settled(second, epoch)] }),
    ])
    assert.deepEqual(results, [applied, conflict(first.id), applied, conflict(first.id), applied])
    assert.equal(await store.notification('acme', third.id), undefined)
    assert.equal((await store.notification('acme', second.id))?.status, 'delivered')
    assert.equal((await store.notification('acme', first.id))?.status, 'delivered')
  })

  test('throws for a path that the table of transitions does not know, and writes the rest of the group', async (store) => {
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
      store.commit({ accept: [{ ...someNotification(), status: 'delivered' }] }),
      TypeError,
    )
    await assert.rejects(
      store.commit({ moves: [{ before: notification, after: notification, events: [] }] }),
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
    assert.deepEqual(await store.commit({ accept: [fresh], answer }), conflict('ключ-1'))
    assert.equal(await store.notification('acme', fresh.id), undefined)
    await must(store, { answer: { ...answer, module: 'other' } })
  })

  test('stores people by tenant, the last version', async (store) => {
    const person: Recipient = {
      tenant: 'acme',
      id: 'user-1',
      email: 'a@example.com',
      optOuts: [{ channel: 'sms' }],
    }
    await must(store, { recipients: [person, { tenant: 'other', id: 'user-1' }] })
    const { optOuts: _, ...changed } = { ...person, quietHours: { default: { from: '22:00', to: '08:00' } } }
    await must(store, { recipients: [changed] })
    assert.deepEqual(await store.recipient('acme', 'user-1'), changed)
    assert.deepEqual(await store.recipient('other', 'user-1'), { tenant: 'other', id: 'user-1' })
    assert.equal(await store.recipient('acme', 'user-2'), undefined)
  })

  test('an empty change is applied', async (store) => {
    await must(store, {})
    await store.ping()
  })

  if (capabilities.durable) {
    test('has everything again after it was closed and opened', async (store, context) => {
      const notification = someNotification()
      await must(store, { accept: [notification] })
      const move = settled(notification, epoch)
      await must(store, { moves: [move], recipients: [{ tenant: 'acme', id: 'user-1' }] })
      const again = await context.reopen()
      assert.deepEqual(await again.notification('acme', notification.id), move.after)
      assert.deepEqual(await again.recipient('acme', 'user-1'), { tenant: 'acme', id: 'user-1' })
      assert.deepEqual(await again.tallies(), [
        { tenant: 'acme', status: 'delivered', platformDelayed: false, count: 1 },
      ])
    })

    test('suspects nothing after a clean end', async (store, context) => {
      const notification = someNotification()
      await must(store, { accept: [notification] })
      context.clock.set(epoch + 1_000)
      const again = await context.reopen()
      assert.deepEqual(await again.notification('acme', notification.id), notification)
    })

    test('refuses what comes after its end', async (store, context) => {
      await context.reopen()
      await assert.rejects(store.commit({}), { code: 'STORE_UNAVAILABLE' })
      await assert.rejects(store.notification('acme', 'x'), { code: 'STORE_UNAVAILABLE' })
    })
  }
}

function digests(test: Test): void {
  test('opens one digest for a person, channel, category and name', async (store) => {
    const digest = someDigest()
    await must(store, { digests: [{ kind: 'open', digest }] })
    assert.deepEqual(await store.openDigest(digest), digest)
    const rival = someDigest()
    const item = someNotification({ status: 'digesting', digestId: rival.id })
    assert.deepEqual(
      await store.commit({ digests: [{ kind: 'open', digest: rival }], accept: [item] }),
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
    const first = someNotification({ id: '01Z-first', status: 'digesting', digestId: digest.id })
    const second = someNotification({ id: '01A-second', status: 'digesting', digestId: digest.id })
    await must(store, {
      digests: [
        { kind: 'open', digest },
        { kind: 'join', digest },
      ],
      accept: [first],
    })
    await must(store, { digests: [{ kind: 'join', digest }], accept: [second] })
    assert.deepEqual(await store.digestItems(digest), [first, second])

    const whole = someNotification({ id: digest.id })
    const merge = [first, second].map((item) => advance(item, [{ at: epoch, status: 'merged' }]))
    await must(store, { digests: [{ kind: 'close', digest }], moves: merge, accept: [whole] })
    assert.deepEqual(await store.digestItems(digest), [])
    assert.equal(await store.openDigest(digest), undefined)
    assert.equal((await store.notification('acme', first.id))?.digestId, digest.id)

    const late = someNotification({ status: 'digesting', digestId: digest.id })
    assert.deepEqual(
      await store.commit({ digests: [{ kind: 'join', digest }], accept: [late] }),
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
    await must(store, { digests: [late, early, never].map((digest) => ({ kind: 'open', digest }) as const) })
    assert.equal(await store.nextDigestAt(), early.closesAt)
    assert.deepEqual(ids(await store.dueDigests(epoch + 5, 10)), [early.id, late.id])
    assert.deepEqual(ids(await store.dueDigests(epoch + 5, 1)), [early.id])
    await must(store, { digests: [{ kind: 'postpone', digest: { ...early, closesAt: epoch + 20 } }] })
    await must(store, { digests: [{ kind: 'close', digest: late }] })
    assert.deepEqual(await store.dueDigests(epoch + 5, 10), [])
    assert.equal(await store.nextDigestAt(), never.closesAt)
    assert.deepEqual(await store.openDigest(early), { ...early, closesAt: epoch + 20 })
  })
}

function claims(test: Test, capabilities: StoreCapabilities): void {
  const at = (dueAt: number, status: Status = 'scheduled'): Notification =>
    someNotification({ status, dueAt })

  test('gives what is scheduled, queued or dead and due, earliest first, each once', async (store) => {
    const due = [at(epoch + 3), at(epoch + 1, 'queued'), at(epoch + 2)]
    const later = at(epoch + 50)
    const collecting = at(epoch + 1, 'digesting')
    await must(store, { accept: [...due, later, collecting] })
    const dead = advance(due[2]!, [{ at: epoch, status: 'dead', reason: 'shed' }])
    await must(store, { moves: [dead] })
    assert.equal(await store.nextDueAt(), epoch + 1)
    assert.deepEqual(await store.claimDue(epoch + 10, 10), [due[1], dead.after, due[0]])
    assert.deepEqual(await store.claimDue(epoch + 10, 10), [])
    assert.equal(store.claimedUntil(), epoch + 10)
    assert.equal(await store.nextDueAt(), epoch + 50)
    assert.deepEqual(await store.claimDue(epoch + 50, 10), [later])
    assert.equal(await store.nextDueAt(), undefined)
  })

  test('loses none of those that are due in the same instant, however small the pages', async (store) => {
    const same = Array.from({ length: 25 }, () => at(epoch + 7))
    await must(store, { accept: same })
    const given: string[] = []
    for (let page = ['']; page.length > 0; ) {
      page = [...ids(await store.claimDue(epoch + 7, 4))]
      given.push(...page)
      if (page.length === 4) assert.ok(store.claimedUntil() < epoch + 7)
    }
    assert.deepEqual(given.sort(), [...ids(same)].sort())
    assert.equal(store.claimedUntil(), epoch + 7)
  })

  test('leaves to its writer what is written behind the claims, and gives what is written ahead', async (store) => {
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [])
    const mine = at(epoch + 10)
    const ahead = at(epoch + 11)
    await must(store, { accept: [mine, ahead] })
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [])
    assert.deepEqual(await store.claimDue(epoch + 11, 5), [ahead])
  })

  test('gives a row again after a move to a later instant, not after one that leaves its instant', async (store) => {
    const notification = at(epoch + 1)
    await must(store, { accept: [notification] })
    await store.claimDue(epoch + 5, 5)
    const queued = advance(notification, [{ at: epoch + 1, status: 'queued' }])
    await must(store, { moves: [queued] })
    assert.deepEqual(await store.claimDue(epoch + 5, 5), [])
    const again = advance(queued.after, [{ at: epoch + 5, status: 'scheduled', reason: 'retry' }], {
      dueAt: epoch + 8,
    })
    await must(store, { moves: [again] })
    assert.equal(await store.nextDueAt(), epoch + 8)
    assert.deepEqual(await store.claimDue(epoch + 9, 5), [again.after])
  })

  test('does not lose an older row that is moved to the instant at which a page ended', async (store) => {
    const early = at(epoch + 1)
    const others = [at(epoch + 7), at(epoch + 7), at(epoch + 7)]
    const far = at(epoch + 90)
    await must(store, { accept: [early, far, ...others] })
    assert.deepEqual(ids(await store.claimDue(epoch + 7, 3)), ids([early, others[0]!, others[1]!]))
    const moves = [early, far].map((before) =>
      advance(before, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 7 }),
    )
    await must(store, { moves })
    const rest = await store.claimDue(epoch + 7, 10)
    assert.deepEqual([...ids(rest)].sort(), [...ids([early, far, others[2]!])].sort())
    assert.deepEqual(await store.claimDue(epoch + 7, 10), [])
  })

  test('gives back what was put back, as it is then, and not what has moved on', async (store) => {
    const list = [1, 2, 3, 4].map((ms) => at(epoch + ms))
    const [a, b, c, d] = list as [Notification, Notification, Notification, Notification]
    await must(store, { accept: list })
    await store.claimDue(epoch + 10, 10)
    await store.unclaim([d, c, a, b])
    assert.equal(await store.nextDueAt(), epoch + 1)
    await must(store, { moves: [advance(b, [{ at: epoch, status: 'cancelled' }])] })
    const queued = advance(c, [{ at: epoch, status: 'queued' }])
    await must(store, {
      moves: [queued, advance(d, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 99 })],
    })
    assert.deepEqual(await store.claimDue(epoch + 10, 1), [a])
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [queued.after])
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [])
    assert.deepEqual(ids(await store.claimDue(epoch + 99, 5)), [d.id])
  })

  test('leaves the claims alone when a change is refused', async (store) => {
    const claimed = at(epoch + 7)
    const far = at(epoch + 90)
    const stale = at(epoch + 91)
    await must(store, { accept: [far, stale, claimed] })
    await store.claimDue(epoch + 7, 1)
    const change: Change = {
      moves: [
        advance(far, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 7 }),
        advance({ ...stale, timeline: [] }, [{ at: epoch, status: 'cancelled' }]),
      ],
    }
    assert.deepEqual(await store.commit(change), conflict(stale.id))
    assert.equal(await store.nextDueAt(), epoch + 90)
    assert.deepEqual(await store.claimDue(epoch + 90, 10), [far])
  })

  test('puts back what the writer kept for itself', async (store) => {
    await store.claimDue(epoch + 10, 5)
    const mine = at(epoch + 10)
    await must(store, { accept: [mine] })
    await store.unclaim([mine])
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [mine])
  })

  test('goes on over a clock that steps back', async (store) => {
    const early = at(epoch + 1)
    const late = at(epoch + 3_600_000)
    await must(store, { accept: [early, late] })
    assert.equal((await store.claimDue(epoch + 3_600_000, 10)).length, 2)
    assert.deepEqual(await store.claimDue(epoch, 10), [])
    assert.equal(store.claimedUntil(), epoch + 3_600_000)
    assert.deepEqual(await store.claimDue(epoch + 3_600_000, 10), [])
  })

  test('takes a dead letter that is never tried again as due at the end of time', async (store) => {
    const notification = at(epoch, 'queued')
    await must(store, { accept: [notification] })
    const dead = advance(notification, [{ at: epoch, status: 'dead', reason: 'poison' }], {
      dueAt: Number.MAX_SAFE_INTEGER,
    })
    await must(store, { moves: [dead] })
    assert.deepEqual(await store.claimDue(epoch + 1e12, 5), [])
    assert.deepEqual(await store.notification('acme', notification.id), dead.after)
  })

  if (capabilities.durable) {
    test('gives everything unsettled again after a restart', async (store, context) => {
      const list = [at(epoch + 1), at(epoch + 2, 'queued')]
      await must(store, { accept: list })
      await store.claimDue(epoch + 5, 5)
      const again = await context.reopen()
      assert.deepEqual(await again.claimDue(epoch + 5, 5), list)
    })
  }
}

function questions(test: Test, capabilities: StoreCapabilities): void {
  test('lists newest first, by pages that neither lose nor repeat', async (store) => {
    const list = Array.from({ length: 23 }, (_, index) =>
      someNotification({ createdAt: epoch + Math.floor(index / 5) }),
    )
    await must(store, { accept: list })
    await must(store, { accept: [someNotification({ tenant: 'other' })] })
    const seen: Notification[] = []
    let cursor: string | null = null
    do {
      const page: Awaited<ReturnType<Store['list']>> = await store.list({
        tenant: 'acme',
        limit: 4,
        ...(cursor === null ? {} : { cursor }),
      })
      seen.push(...page.items)
      cursor = page.nextCursor
      // What is accepted meanwhile stands before the first page and disturbs no later one.
      await must(store, { accept: [someNotification({ createdAt: epoch + 100 })] })
    } while (cursor !== null)
    assert.deepEqual(seen, list.toReversed())
    await assert.rejects(store.list({ tenant: 'acme', limit: 4, cursor: 'garbage' }), {
      code: 'INVALID_REQUEST',
    })
  })

  test('filters a list by recipient, state, category, channel and time', async (store) => {
    const wanted = someNotification({
      to: { id: 'eve' },
      category: 'billing',
      channel: 'sms',
      createdAt: epoch + 5,
    })
    const others = [
      someNotification({ ...wanted, id: 'o1', to: { id: 'bob' } }),
      someNotification({ ...wanted, id: 'o2', category: 'security' }),
      someNotification({ ...wanted, id: 'o3', channel: 'push' }),
      someNotification({ ...wanted, id: 'o4', createdAt: epoch + 10 }),
      someNotification({ ...wanted, id: 'o5', createdAt: epoch + 4 }),
      someNotification({ to: { id: 'eve' }, status: 'suppressed' }),
    ]
    await must(store, { accept: [wanted, ...others] })
    const { items } = await store.list({
      tenant: 'acme',
      recipient: 'eve',
      statuses: ['queued', 'delivered'],
      category: 'billing',
      channel: 'sms',
      from: epoch + 5,
      to: epoch + 10,
      limit: 10,
    })
    assert.deepEqual(items, [wanted])
    const suppressed = await store.list({ tenant: 'acme', statuses: ['suppressed'], limit: 10 })
    assert.deepEqual(suppressed, { items: [others[5]], nextCursor: null })
  })

  test('lists dead letters oldest first, by tenant, channel, cause and id', async (store) => {
    const list = [
      someNotification(),
      someNotification({ channel: 'sms' }),
      someNotification({ tenant: 'other' }),
      someNotification(),
    ]
    const causes = ['shed', 'shed', 'shed', 'poison'] as const
    await must(store, { accept: [...list, someNotification()] })
    const moves = list.map((before, i) =>
      advance(before, [{ at: epoch, status: 'dead', reason: causes[i]! }]),
    )
    await must(store, { moves: moves.toReversed() })
    const of = async (query: object): Promise<readonly string[]> =>
      ids((await store.deadLetters({ limit: 10, ...query })).items)
    const [a, b, c, d] = ids(list) as [string, string, string, string]
    assert.deepEqual(await of({}), [a, b, c, d])
    assert.deepEqual(await of({ tenant: 'acme' }), [a, b, d])
    assert.deepEqual(await of({ channel: 'sms' }), [b])
    assert.deepEqual(await of({ cause: 'shed', tenant: 'acme' }), [a, b])
    assert.deepEqual(await of({ ids: [d, a, 'unknown'] }), [a, d])
    const first = await store.deadLetters({ limit: 3 })
    assert.equal(first.items.length, 3)
    assert.deepEqual(await of({ cursor: first.nextCursor! }), [d])
    await must(store, { moves: [advance(moves[0]!.after, [{ at: epoch, status: 'queued' }])] })
    assert.deepEqual(await of({}), [b, c, d])
  })

  test('knows what waits for a person', async (store) => {
    const waiting = (['scheduled', 'digesting', 'queued'] as const).map((status) =>
      someNotification({ status }),
    )
    await must(store, {
      accept: [
        ...waiting,
        someNotification({ status: 'suppressed' }),
        someNotification({ to: { id: 'user-2' } }),
        someNotification({ tenant: 'other' }),
      ],
    })
    assert.deepEqual(await store.waiting('acme', 'user-1'), waiting)
  })

  test("tells a person's admissions: what was sent, may have been, holds an instant, or is collected", async (store) => {
    const sent = someNotification({ actor: 'author-7' })
    const booked = someNotification({ status: 'scheduled', dueAt: epoch + 9_000, createdAt: epoch - 9_000 })
    const suspect = someNotification({ status: 'scheduled', suspectAt: epoch + 4, dueAt: epoch + 4 })
    const cancelled = someNotification()
    const old = someNotification({ createdAt: epoch - 9_000 })
    const collecting = someNotification({ status: 'digesting' })
    await must(store, {
      accept: [sent, booked, suspect, cancelled, old, collecting, someNotification({ status: 'suppressed' })],
    })
    await must(store, {
      moves: [
        settled(sent, epoch + 1),
        settled(old, epoch - 8_000),
        advance(cancelled, [{ at: epoch, status: 'cancelled' }]),
      ],
    })
    const of = { tenant: 'acme', recipient: 'user-1', limit: 10 }
    const found = await store.admissions({ ...of, since: epoch - 100 })
    assert.deepEqual(ids(found), ids([booked, suspect, sent, collecting]))
    assert.equal(found[2]?.firedAt, epoch + 1)
    assert.equal(found[2]?.actor, 'author-7')
    assert.equal(found[2]?.fingerprint, sent.fingerprint)
    assert.equal(found[1]?.suspectAt, epoch + 4)
    assert.ok(found.every((admission) => !('content' in admission)))
    assert.deepEqual(
      ids(await store.admissions({ ...of, since: epoch - 100, limit: 2 })),
      ids([booked, suspect]),
    )
    assert.deepEqual(
      ids(await store.admissions({ ...of, since: 0 })),
      ids([booked, suspect, sent, collecting, old]),
    )
    assert.deepEqual(await store.admissions({ ...of, recipient: 'nobody', since: 0 }), [])
  })

  test("tells a tenant's admissions: everything accepted, and what a 429 promised for later", async (store) => {
    const suppressed = someNotification({ status: 'suppressed' })
    const sent = someNotification({ to: { id: 'user-2' } })
    const promised = someNotification({
      status: 'scheduled',
      createdAt: epoch - 90_000,
      dueAt: epoch + 5,
      decision: { outcome: 'delay', reason: 'module_limit', at: epoch + 5, policyVersion: 'p1', rules: [] },
    })
    const booked = someNotification({ status: 'scheduled', createdAt: epoch - 90_000, dueAt: epoch + 6 })
    await must(store, { accept: [suppressed, sent, promised, booked, someNotification({ tenant: 'other' })] })
    await must(store, { moves: [settled(sent, epoch + 1)] })
    const found = await store.admissions({ tenant: 'acme', since: epoch - 60_000, limit: 10 })
    assert.deepEqual([...ids(found)].sort(), [...ids([suppressed, sent, promised])].sort())
  })

  test('tallies every state of every tenant, and the platform-delayed apart', async (store) => {
    const delayed = someNotification({
      status: 'scheduled',
      decision: { outcome: 'delay', reason: 'tenant_limit', policyVersion: 'p1', rules: [] },
    })
    const list = [delayed, someNotification({ status: 'scheduled' }), someNotification({ tenant: 'other' })]
    await must(store, { accept: list })
    await store.commit({ accept: [someNotification(), list[0]!] })
    const tallies = async (): Promise<ReadonlySet<string>> =>
      new Set(
        (await store.tallies())
          .filter(({ count }) => count !== 0)
          .map((t) => `${t.tenant} ${t.status} ${t.platformDelayed} ${t.count}`),
      )
    assert.deepEqual(
      await tallies(),
      new Set(['acme scheduled true 1', 'acme scheduled false 1', 'other queued false 1']),
    )
    await must(store, { moves: [advance(delayed, [{ at: epoch, status: 'queued' }])] })
    assert.deepEqual(
      await tallies(),
      new Set(['acme queued false 1', 'acme scheduled false 1', 'other queued false 1']),
    )
  })

  test('tallies agree with the records after random changes', async (store, context) => {
    const seed = Number(process.env.SLUICE_SEED ?? 1)
    console.log(`SLUICE_SEED=${seed}`)
    const next = seeded(seed)
    const live: Notification[] = []
    for (let round = 0; round < 60; round += 1) {
      const changes: Promise<unknown>[] = []
      for (let i = 0; i < 8; i += 1) {
        const tenant = `t${Math.floor(next() * 3)}`
        const before = live[Math.floor(next() * live.length)]
        if (before === undefined || next() < 0.4) {
          const fresh = someNotification({ tenant, status: next() < 0.5 ? 'queued' : 'scheduled' })
          // Every fourth change carries a conflict and must leave no trace.
          const clash = next() < 0.25 && before !== undefined ? [before] : []
          if (clash.length === 0) live.push(fresh)
          changes.push(store.commit({ accept: [fresh, ...clash] }))
        } else {
          const status = next() < 0.5 ? 'queued' : 'cancelled'
          const move = advance(before, [{ at: epoch, status }])
          changes.push(store.commit({ moves: [move] }))
          live.splice(live.indexOf(before), 1, ...(status === 'queued' ? [move.after] : []))
        }
      }
      await Promise.all(changes)
    }
    await agree(store)
    if (capabilities.durable) await agree(await context.reopen())
  })

  test('forgets what is final and old, and answers that are old, and counts it', async (store) => {
    const old = someNotification({ createdAt: epoch - 1_000 })
    const open = someNotification({ createdAt: epoch - 1_000 })
    const lately = someNotification({ createdAt: epoch - 1_000 })
    const young = someNotification()
    const answer = (key: string, createdAt: number): StoredAnswer => ({
      tenant: 'acme',
      module: 'm',
      method: 'POST',
      path: '/',
      key,
      requestHash: '',
      status: 202,
      body: '',
      createdAt,
    })
    await must(store, { accept: [old, open, lately, young], answer: answer('old', epoch - 1_000) })
    await must(store, {
      moves: [settled(old, epoch - 900), settled(lately, epoch), settled(young, epoch)],
      answer: answer('young', epoch),
    })
    assert.equal(await store.prune({ answers: epoch - 1, notifications: epoch - 1 }), 2)
    assert.equal(await store.notification('acme', old.id), undefined)
    for (const kept of [open, lately, young]) assert.ok(await store.notification('acme', kept.id))
    assert.equal(await store.answer(answer('old', 0)), undefined)
    assert.ok(await store.answer(answer('young', 0)))
    await agree(store)
    assert.equal(await store.prune({ answers: epoch - 1, notifications: epoch - 1 }), 0)
  })
}

/** Counts the records one by one and compares. */
async function agree(store: Store): Promise<void> {
  const tallies = await store.tallies()
  for (const tenant of new Set(['acme', ...tallies.map((tally) => tally.tenant)])) {
    for (const status of statuses) {
      const { items } = await store.list({ tenant, statuses: [status], limit: 100_000 })
      const counted = tallies
        .filter((tally) => tally.tenant === tenant && tally.status === status)
        .reduce((sum, { count }) => sum + count, 0)
      assert.equal(counted, items.length, `${tenant} ${status}`)
    }
  }
}

/** mulberry32: small, seeded, good enough to choose by. */
export function seeded(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
