/** The question from which the limits of a subject are rebuilt. */
import assert from 'node:assert/strict'
import type { Notification } from '../../model.ts'
import { advance } from '../../model.ts'
import type { Admission, Page } from '../../ports.ts'
import { epoch, inThrottleQueue, settled, someNotification } from './sample.ts'
import type { Test } from './suite.ts'
import { ids, must } from './suite.ts'

export function countedNotifications(test: Test): void {
  test('reads all that limits count in the order of acceptance, by pages that may be empty', async (store) => {
    const old = { createdAt: epoch - 90_000 }
    const nothing = someNotification({ status: 'suppressed' })
    const first = someNotification({ to: { id: 'user-2' } })
    const turned = inThrottleQueue(old)
    const booked = someNotification({ status: 'scheduled', dueAt: epoch + 9_000 })
    const collecting = someNotification({ status: 'digesting' })
    const former = someNotification({ createdAt: epoch - 80_000 })
    const [leftLate, bookedLong] = [someNotification(old), someNotification({ ...old, status: 'scheduled' })]
    const other = someNotification({ tenant: 'other' })
    const accept = [former, leftLate, bookedLong, first, turned, nothing, booked, collecting, other]
    await must(store, { accept })
    const turn = { decision: first.decision, turnedAt: epoch }
    await must(store, {
      moves: [
        settled(first, epoch + 1),
        settled(former, epoch - 79_000),
        settled(leftLate, epoch + 2),
        advance(turned, [{ at: epoch, status: 'queued' }], turn),
      ],
    })
    const read = async (query: {
      readonly tenant: string
      readonly recipient?: string
      readonly accepted?: boolean
    }) => {
      const found: string[] = []
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Page<Admission> = await store.counted({
          ...query,
          since: epoch - 60_000,
          limit: 2,
          ...(cursor === '' ? {} : { cursor }),
        })
        found.push(...ids(page.items))
        cursor = page.nextCursor
      }
      return found
    }
    assert.deepEqual(
      (await read({ tenant: 'acme' })).sort(),
      [...ids([turned, leftLate, bookedLong, first, booked, collecting])].sort(),
    )
    assert.deepEqual(
      (await read({ tenant: 'acme', accepted: true })).sort(),
      [...ids([turned, first, nothing, booked, collecting])].sort(),
    )
    assert.deepEqual(await read({ tenant: 'acme', recipient: 'user-2' }), ids([first]))
    assert.deepEqual(await read({ tenant: 'acme', recipient: 'nobody' }), [])
  })

  test('reads what counts near the present, and of what waits for longer the first of each page', async (store) => {
    const left = someNotification()
    const leftBefore = someNotification()
    const [due, later, soon, last] = [3_000, 9_000, 4_000, 8_000].map((inMs) =>
      someNotification({ status: 'scheduled', dueAt: epoch + inMs }),
    ) as [Notification, Notification, Notification, Notification]
    const collecting = someNotification({ status: 'digesting', dueAt: epoch + 5_001 })
    const all = [left, leftBefore, due, later, soon, last, collecting]
    await must(store, { accept: all })
    await must(store, { moves: [settled(left, epoch - 900), settled(leftBefore, epoch - 1_001)] })
    const read = async (limit: number) => {
      const within = { from: epoch - 1_000, to: epoch + 5_000 }
      const pages: string[][] = []
      for (let cursor: string | null = ''; cursor !== null; ) {
        const from: { readonly cursor?: string } = cursor === '' ? {} : { cursor }
        const query = { tenant: 'acme', since: epoch - 60_000, within, limit, ...from }
        const page: Page<Admission> = await store.counted(query)
        pages.push([...ids(page.items)])
        cursor = page.nextCursor
      }
      return pages.filter((page) => page.length > 0)
    }
    assert.deepEqual(await read(100), [ids([left, due, later, soon])])
    assert.deepEqual(await read(2), [ids([left]), ids([due, later]), ids([soon, last]), ids([collecting])])
  })

  test('reads the old dead letters of a recipient that are due again within the time of its limits', async (store) => {
    const old = { createdAt: epoch - 90_000 }
    const [due, over, waiting] = [old, old, old].map(someNotification) as [
      Notification,
      Notification,
      Notification,
    ]
    await must(store, { accept: [due, over, waiting] })
    const died = (before: Notification, dueAt: number) =>
      advance(before, [{ at: old.createdAt, status: 'dead', reason: 'shed' }], { dueAt })
    await must(store, { moves: [died(due, epoch + 9_000), died(over, epoch - 80_000)] })
    const query = { tenant: 'acme', recipient: 'user-1', since: epoch - 60_000, limit: 10 }
    assert.deepEqual(ids((await store.counted(query)).items), ids([due, waiting]))
    assert.deepEqual(ids(await store.admissions(query)), ids([due]))
  })

  test('answers each of many recipients who are asked for at once: with nothing, with few and with many notifications', async (store) => {
    const of = (recipient: string, count: number) =>
      Array.from({ length: count }, () => someNotification({ to: { id: recipient } }))
    const [few, many, other] = [of('few', 3), of('many', 60), of('few', 2)]
    const elsewhere = other.map((each) => ({ ...each, tenant: 'other' }))
    for (const accept of [few, many, elsewhere]) await must(store, { accept })
    const nobody = Array.from({ length: 100 }, (_, n) => ({ tenant: 'acme', recipient: `nobody-${n}` }))
    const asked = [{ tenant: 'acme', recipient: 'few' }, ...nobody, { tenant: 'other', recipient: 'few' }]
    const since = epoch - 60_000
    const read = async (key: { readonly tenant: string; readonly recipient: string }) =>
      (await store.counted({ ...key, since, limit: 1_000 })).items
    // A fill that has lost its claim, and the plan of what is late, ask about a recipient beside the fill that follows.
    const [known, again, ...unknown] = await Promise.all([
      read({ tenant: 'acme', recipient: 'many' }),
      read({ tenant: 'acme', recipient: 'few' }),
      ...asked.map(read),
    ])
    assert.deepEqual(ids(known!), ids(many))
    assert.deepEqual(ids(again!), ids(few))
    assert.deepEqual(ids(unknown[0]!), ids(few))
    assert.deepEqual(ids(unknown.at(-1)!), ids(elsewhere))
    assert.deepEqual(unknown.slice(1, -1).flat(), [])
  })
}
