/** The due cursor of a store: it gives each due notification once and loses none, whatever moves meanwhile. */
import assert from 'node:assert/strict'
import type { Notification, Status } from '../../model.ts'
import { advance } from '../../model.ts'
import type { Change } from '../../ports.ts'
import { epoch, seeded, someNotification } from './sample.ts'
import type { StoreCapabilities, Test } from './suite.ts'
import { conflict, ids, must } from './suite.ts'

export function claims(test: Test, capabilities: StoreCapabilities): void {
  const at = (dueAt: number, status: Status = 'scheduled'): Notification =>
    someNotification({ status, dueAt })

  test('returns scheduled, queued and dead notifications that are due, earliest first, each once', async (store) => {
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

  test('loses no notification due at the same instant, however small the pages', async (store) => {
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

  test('leaves a row written behind the cursor to its writer, and returns a row written ahead', async (store) => {
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [])
    const mine = at(epoch + 10)
    const ahead = at(epoch + 11)
    await must(store, { accept: [mine, ahead] })
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [])
    assert.deepEqual(await store.claimDue(epoch + 11, 5), [ahead])
  })

  test('returns a row again after a move to a later instant, not after one that keeps its instant', async (store) => {
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
      advance(before, [{ at: epoch, status: 'scheduled' }], {
        dueAt: epoch + 7,
      }),
    )
    await must(store, { moves })
    const rest = await store.claimDue(epoch + 7, 10)
    assert.deepEqual([...ids(rest)].sort(), [...ids([early, far, others[2]!])].sort())
    assert.deepEqual(await store.claimDue(epoch + 7, 10), [])
  })

  test('returns released rows in their present state, and none that has moved on', async (store) => {
    const list = [1, 2, 3, 4].map((ms) => at(epoch + ms))
    const [a, b, c, d] = list as [Notification, Notification, Notification, Notification]
    await must(store, { accept: list })
    await store.claimDue(epoch + 10, 10)
    await store.releaseDue([d, c, a, b])
    assert.equal(await store.nextDueAt(), epoch + 1)
    await must(store, {
      moves: [advance(b, [{ at: epoch, status: 'cancelled' }])],
    })
    const queued = advance(c, [{ at: epoch, status: 'queued' }])
    await must(store, {
      moves: [queued, advance(d, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 99 })],
    })
    assert.deepEqual(await store.claimDue(epoch + 10, 1), [a])
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [queued.after])
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [])
    assert.deepEqual(ids(await store.claimDue(epoch + 99, 5)), [d.id])
  })

  test('does not move the cursor when a change is refused', async (store) => {
    const claimed = at(epoch + 7)
    const far = at(epoch + 90)
    const stale = at(epoch + 91)
    await must(store, { accept: [far, stale, claimed] })
    await store.claimDue(epoch + 7, 1)
    const change: Change = {
      moves: [
        advance(far, [{ at: epoch, status: 'scheduled' }], {
          dueAt: epoch + 7,
        }),
        advance({ ...stale, timeline: [] }, [{ at: epoch, status: 'cancelled' }]),
      ],
    }
    assert.deepEqual(await store.commit(change), conflict('notification', stale.id))
    assert.equal(await store.nextDueAt(), epoch + 90)
    assert.deepEqual(await store.claimDue(epoch + 90, 10), [far])
  })

  test('returns a row that its writer released', async (store) => {
    await store.claimDue(epoch + 10, 5)
    const mine = at(epoch + 10)
    await must(store, { accept: [mine] })
    await store.releaseDue([mine])
    assert.deepEqual(await store.claimDue(epoch + 10, 5), [mine])
  })

  test('continues when the clock steps back', async (store) => {
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

  test('skips tenants without room, and returns their rows round robin when they have some, each once', async (store) => {
    const of = (tenant: string, ms: number) =>
      someNotification({ tenant, status: 'scheduled', dueAt: epoch + ms })
    const loud = Array.from({ length: 60 }, () => of('loud', 1))
    const other = Array.from({ length: 30 }, (_, index) => of('other', 1 + (index % 3)))
    const quiet = [of('quiet', 2), of('quiet', 3), of('quiet', 3)]
    for (const accept of [loud, other, quiet]) await must(store, { accept })
    const given: Notification[] = []
    async function claim(limit: number, without: readonly string[]): Promise<readonly Notification[]> {
      const page = await store.claimDue(epoch + 3, limit, without)
      assert.ok(page.length <= limit)
      assert.ok(page.every(({ tenant }) => !without.includes(tenant)))
      given.push(...page)
      return page
    }
    for (let pages = 0; store.claimedUntil() < epoch + 3; pages += 1) {
      assert.ok(pages < 60, 'the claims get on')
      await claim(4, ['loud', 'other'])
    }
    assert.deepEqual(ids(given), ids(quiet))
    assert.ok((await store.nextDueAt())! <= epoch + 1)
    // A row written behind the cursor stays with its writer, also where its tenant lags; a row that moves on is not
    // given.
    const mine = of('loud', 2)
    await must(store, { accept: [mine] })
    const gone = advance(loud[50]!, [{ at: epoch, status: 'cancelled' }])
    const later = advance(loud[51]!, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 9 })
    const kept = advance(loud[52]!, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 2 })
    await must(store, { moves: [gone, later, kept] })
    const page = await claim(8, [])
    assert.deepEqual(
      Object.values(Object.groupBy(page, ({ tenant }) => tenant)).map((one) => one!.length),
      [4, 4],
    )
    await claim(8, ['other'])
    await store.releaseDue([page[0]!, mine])
    for (let last = page; last.length > 0; ) last = await claim(8, [])
    const expected = [
      ...loud.filter((_, index) => index < 50 || index > 52),
      ...other,
      ...quiet,
      mine,
      page[0]!,
    ]
    assert.deepEqual([...ids(given)].sort(), [...ids(expected)].sort())
    assert.deepEqual(await store.claimDue(epoch + 9, 8, []), [later.after])
  })

  test('returns each due row once, or leaves it to its writer, whichever tenants have room', async (store) => {
    const draw = seeded(7)
    const below = (count: number): number => Math.floor(draw() * count)
    /** The due rows on record, and those that this process keeps. */
    const rows = new Map<string, Notification>()
    const kept = new Set<string>()
    let until = epoch
    const note = (row: Notification): void => {
      rows.set(row.id, row)
      if (row.dueAt <= store.claimedUntil()) kept.add(row.id)
      else kept.delete(row.id)
    }
    async function claim(without: readonly string[]): Promise<number> {
      const page = await store.claimDue(until, 1 + below(6), without)
      for (const row of page) {
        assert.deepEqual(row, rows.get(row.id), 'as it is on record')
        assert.ok(row.dueAt <= until && !without.includes(row.tenant))
        assert.ok(!kept.has(row.id), 'nothing that somebody keeps')
        kept.add(row.id)
      }
      return page.length
    }
    for (let step = 0; step < 600; step += 1) {
      const what = below(10)
      const some = [...rows.values()][below(rows.size)]
      if (what < 4) {
        const row = someNotification({
          tenant: `t${below(4)}`,
          status: 'scheduled',
          dueAt: until - 3 + below(12),
        })
        await must(store, { accept: [row] })
        note(row)
      } else if (what === 4 && some !== undefined) {
        const move = advance(some, [{ at: until, status: 'scheduled' }], { dueAt: until - 3 + below(12) })
        if (move.after.dueAt === some.dueAt && !kept.has(some.id)) continue
        await must(store, { moves: [move] })
        // A row that keeps its instant stays with its holder.
        if (move.after.dueAt === some.dueAt) rows.set(some.id, move.after)
        else note(move.after)
      } else if (what === 5 && some !== undefined) {
        await must(store, { moves: [advance(some, [{ at: until, status: 'cancelled' }])] })
        rows.delete(some.id)
        kept.delete(some.id)
      } else if (what === 6 && some !== undefined && kept.delete(some.id)) await store.releaseDue([some])
      else if (what === 7) until += below(3)
      else await claim(['t0', 't1', 't2', 't3'].filter(() => below(2) === 0))
    }
    until += 20
    for (let empty = 0; empty < 3; ) empty = (await claim([])) === 0 ? empty + 1 : 0
    assert.deepEqual([...kept].sort(), [...rows.keys()].sort(), 'nothing is left behind')
  })

  if (capabilities.durable) {
    test('returns all unsettled rows again after a restart', async (store, context) => {
      const list = [at(epoch + 1), at(epoch + 2, 'queued')]
      await must(store, { accept: list })
      await store.claimDue(epoch + 5, 5)
      const again = await context.reopen()
      assert.deepEqual(await again.claimDue(epoch + 5, 5), list)
    })
  }
}
