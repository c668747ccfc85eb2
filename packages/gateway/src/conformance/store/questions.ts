/** Queries of a store: lists, dead letters, facts for the limits, counts, and the rows that remain after pruning. */
import assert from 'node:assert/strict'
import type { Notification } from '../../model.ts'
import { advance } from '../../model.ts'
import type { Page, ScanQuery, Store, StoredAnswer } from '../../ports.ts'
import { epoch, inThrottleQueue, seeded, settled, someNotification } from './sample.ts'
import type { StoreCapabilities, Test } from './suite.ts'
import { agree, ids, must } from './suite.ts'

export function questions(test: Test, capabilities: StoreCapabilities): void {
  test('lists newest first, by pages without gaps or repetitions', async (store) => {
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
      // A notification accepted meanwhile comes before the first page and disturbs no later one.
      await must(store, {
        accept: [someNotification({ createdAt: epoch + 100 })],
      })
    } while (cursor !== null)
    assert.deepEqual(seen, list.toReversed())
    const { nextCursor } = await store.list({ tenant: 'acme', limit: 4 })
    for (const cursor of ['garbage', `${nextCursor}x`]) {
      await assert.rejects(store.list({ tenant: 'acme', limit: 4, cursor }), { code: 'INVALID_REQUEST' })
    }
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
    const suppressed = await store.list({
      tenant: 'acme',
      statuses: ['suppressed'],
      limit: 10,
    })
    assert.deepEqual(suppressed, { items: [others[5]], nextCursor: null })
  })

  test('scans the record in slices, and returns the requested part of each row', async (store) => {
    const under = (policyVersion: string): Notification['decision'] => ({
      outcome: 'delay',
      at: epoch,
      policyVersion,
      rules: [],
    })
    const rows = Array.from({ length: 40 }, (_, index) =>
      someNotification({
        tenant: `t${index % 3}`,
        channel: index % 4 === 0 ? 'sms' : 'email',
        status: index % 5 === 0 ? 'suppressed' : 'scheduled',
        decision: under(index < 20 ? 'old' : 'new'),
      }),
    )
    for (const row of rows) await must(store, { accept: [row] })
    async function walk(query: Omit<ScanQuery, 'limit' | 'cursor'>, limit: number): Promise<string[]> {
      const found: string[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page: Page<Notification> = await store.scan({
          ...query,
          limit,
          ...(cursor === undefined ? {} : { cursor }),
        })
        assert.ok(page.items.length <= limit)
        found.push(...ids(page.items))
        cursor = page.nextCursor
      }
      return found
    }
    const scheduled = rows.filter(({ status }) => status === 'scheduled')
    for (const limit of [1, 7, 40, 1_000]) {
      assert.deepEqual(await walk({ statuses: ['scheduled'] }, limit), ids(scheduled))
      assert.deepEqual(
        await walk({ statuses: ['scheduled', 'suppressed'], channels: ['sms', 'push'] }, limit),
        ids(rows.filter(({ channel }) => channel === 'sms')),
      )
      assert.deepEqual(
        await walk({ statuses: ['scheduled'], notPolicy: 'new' }, limit),
        ids(scheduled.filter(({ decision }) => decision.policyVersion === 'old')),
      )
    }
    const moved = advance(scheduled[0]!, [{ at: epoch, status: 'queued' }], { decision: under('new') })
    await must(store, { moves: [moved] })
    assert.equal((await walk({ statuses: ['queued'], notPolicy: 'old' }, 5)).length, 1)
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
    assert.deepEqual(await of({ causes: ['shed', 'poison'], tenant: 'acme' }), [a, b, d])
    assert.deepEqual(await of({ priority: 'normal' }), [a, b, c, d])
    assert.deepEqual(await of({ priority: 'low' }), [])
    assert.deepEqual(await of({ ids: [d, a, 'unknown'] }), [a, d])
    const first = await store.deadLetters({ limit: 3 })
    assert.equal(first.items.length, 3)
    assert.deepEqual(await of({ cursor: first.nextCursor! }), [d])
    await must(store, {
      moves: [advance(moves[0]!.after, [{ at: epoch, status: 'queued' }])],
    })
    assert.deepEqual(await of({}), [b, c, d])
  })

  test('names the field of a cursor that no page of the list has answered', async (store) => {
    const dead = [someNotification(), someNotification()]
    await must(store, { accept: dead })
    await must(store, {
      moves: dead.map((before) => advance(before, [{ at: epoch, status: 'dead', reason: 'shed' }])),
    })
    const message = 'must be the nextCursor of an earlier answer'
    const names = { code: 'INVALID_REQUEST', errors: [{ path: '/cursor', message }] }
    for (const cursor of ['abc', 'a\0b', '0'.repeat(26)]) {
      await assert.rejects(async () => store.list({ tenant: 'acme', limit: 1, cursor }), names)
      await assert.rejects(async () => store.deadLetters({ limit: 1, cursor }), names)
    }
  })

  test('finds the waiting notifications of a recipient', async (store) => {
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
    assert.deepEqual((await store.waiting('acme', 'user-1', null, 10)).items, waiting)
  })

  test('lists the waiting notifications of a recipient by pages without gaps or repetitions', async (store) => {
    const waiting = Array.from({ length: 7 }, () => someNotification({ status: 'scheduled' }))
    await must(store, { accept: waiting })
    const found: Notification[] = []
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page: Page<Notification> = await store.waiting('acme', 'user-1', cursor ?? null, 3)
      assert.ok(page.items.length <= 3)
      found.push(...page.items)
      cursor = page.nextCursor
      // A notification that ends meanwhile shifts no page.
      if (found.length === 3)
        await must(store, { moves: [advance(waiting[1]!, [{ at: epoch, status: 'cancelled' }])] })
    }
    assert.deepEqual(found, waiting)
    assert.deepEqual(await store.waiting('acme', 'nobody', null, 3), { items: [], nextCursor: null })
  })

  test("tells a person's admissions: what was sent, may have been, holds an instant, or is collected", async (store) => {
    const sent = someNotification({ actor: 'author-7' })
    const booked = someNotification({
      status: 'scheduled',
      dueAt: epoch + 9_000,
      createdAt: epoch - 9_000,
    })
    const suspect = someNotification({
      status: 'scheduled',
      suspects: [epoch + 4],
      dueAt: epoch + 4,
    })
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
    assert.deepEqual(found[1]?.suspects, [epoch + 4])
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

  test("tells a tenant's admissions: everything accepted, and what its limits let through since", async (store) => {
    const old = { createdAt: epoch - 90_000 }
    const suppressed = someNotification({ status: 'suppressed' })
    const sent = someNotification({ to: { id: 'user-2' } })
    const stands = inThrottleQueue(old)
    const late = inThrottleQueue(old)
    const turned = inThrottleQueue(old)
    const ended = inThrottleQueue({ createdAt: epoch })
    const booked = someNotification({ ...old, status: 'scheduled', dueAt: epoch + 6 })
    await must(store, {
      accept: [suppressed, sent, stands, late, turned, ended, booked, someNotification({ tenant: 'other' })],
    })
    const { decision } = sent
    const turn = (of: Notification, turnedAt: number) =>
      advance(of, [{ at: turnedAt, status: 'queued' }], { decision, turnedAt })
    await must(store, {
      moves: [
        settled(sent, epoch + 1),
        turn(late, epoch - 60_001),
        turn(turned, epoch - 60_000),
        advance(ended, [{ at: epoch, status: 'cancelled' }]),
      ],
    })
    const found = await store.admissions({ tenant: 'acme', since: epoch - 60_000, limit: 10 })
    assert.deepEqual([...ids(found)].sort(), [...ids([suppressed, sent, turned, ended])].sort())
    const countedAt = new Map(found.map((each) => [each.id, each.countedAt]))
    assert.deepEqual(
      [suppressed, sent, turned, ended].map(({ id }) => countedAt.get(id)),
      [epoch, epoch, epoch - 60_000, undefined],
    )
  })

  test('lists the throttle queue of a tenant or module limit in the order of acceptance, by pages', async (store) => {
    const first = inThrottleQueue({ tenant: 'zeta' })
    const second = inThrottleQueue()
    const third = inThrottleQueue({ expiresAt: epoch + 1, dueAt: epoch + 1 })
    const gone = inThrottleQueue()
    const passed = inThrottleQueue()
    await must(store, { accept: [first, someNotification(), second, gone, third, passed] })
    await must(store, {
      moves: [
        advance(gone, [{ at: epoch, status: 'cancelled' }]),
        advance(passed, [{ at: epoch, status: 'queued' }], { decision: someNotification().decision }),
      ],
    })
    const page = await store.inThrottleQueue({ limit: 2 })
    assert.deepEqual(ids(page), ids([first, second]))
    const [last, ...none] = await store.inThrottleQueue({ after: second.id, limit: 2 })
    assert.deepEqual([last?.id, last?.promisedAt, last?.dueAt], [third.id, epoch + 5, epoch + 1])
    assert.deepEqual([last?.countedAt, none], [undefined, []])
  })

  test('counts every state of every tenant, and throttled notifications separately', async (store) => {
    const delayed = someNotification({
      status: 'scheduled',
      decision: {
        outcome: 'delay',
        reason: 'tenant_limit',
        policyVersion: 'p1',
        rules: [],
      },
    })
    const list = [delayed, someNotification({ status: 'scheduled' }), someNotification({ tenant: 'other' })]
    await must(store, { accept: list })
    await store.commit({ accept: [someNotification(), list[0]!] })
    const tallies = async (): Promise<ReadonlySet<string>> =>
      new Set(
        (await store.tallies())
          .filter(({ count }) => count !== 0)
          .map((t) => `${t.tenant} ${t.status} ${t.throttled} ${t.count}`),
      )
    assert.deepEqual(
      await tallies(),
      new Set(['acme scheduled true 1', 'acme scheduled false 1', 'other queued false 1']),
    )
    await must(store, {
      moves: [advance(delayed, [{ at: epoch, status: 'queued' }])],
    })
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
          const fresh = someNotification({
            tenant,
            status: next() < 0.5 ? 'queued' : 'scheduled',
          })
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

  test('prunes old final notifications and old answers, and counts them', async (store) => {
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
    await must(store, {
      accept: [old, open, lately, young],
      answer: answer('old', epoch - 1_000),
    })
    await must(store, {
      moves: [settled(old, epoch - 900), settled(lately, epoch), settled(young, epoch)],
      answer: answer('young', epoch),
    })
    assert.deepEqual(await store.prune({ answers: epoch - 1, notifications: epoch - 1 }), {
      oldestAt: epoch - 1_000,
      rows: 2,
      tallies: [{ tenant: 'acme', status: 'delivered', throttled: false, count: 1, bytes: 0 }],
    })
    assert.equal(await store.notification('acme', old.id), undefined)
    for (const kept of [open, lately, young]) assert.ok(await store.notification('acme', kept.id))
    assert.equal(await store.answer(answer('old', 0)), undefined)
    assert.ok(await store.answer(answer('young', 0)))
    await agree(store)
    assert.equal((await store.prune({ answers: epoch - 1, notifications: epoch - 1 })).rows, 0)
  })
}
