/**
 * The conformance suite of the record of notifications that are left to a broker: `exerciseLeftToBroker` runs it on each
 * store. `exerciseSharedLeft` holds a store that several processes share to more.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { advance, type Notification } from '../model.ts'
import { type LeftToBroker, type OutgoingMessage, outgoingVersion } from '../ports/outgoing.ts'
import type { Store } from '../ports.ts'
import { epoch, someNotification } from './store/sample.ts'
import { ids, must } from './store/suite.ts'

/** A process with its store. */
interface LeavingProcess {
  readonly id: string
  readonly store: Store
  readonly left: LeftToBroker
}

export interface LeavingRecord {
  join(): Promise<LeavingProcess>
  close(): Promise<void>
}

const nameOf = (
  notification: Notification,
  from: string,
): Pick<OutgoingMessage, 'tenant' | 'from'> & ReturnType<typeof outgoingVersion> => ({
  ...outgoingVersion(notification),
  tenant: notification.tenant,
  from,
})

function registering(open: () => Promise<LeavingRecord>) {
  return (title: string, body: (a: LeavingProcess, record: LeavingRecord) => Promise<void>): void => {
    it(title, async () => {
      const record = await open()
      try {
        await body(await record.join(), record)
      } finally {
        await record.close()
      }
    })
  }
}

/** Accepts notifications that are due, and claims them. */
async function held(
  { store }: LeavingProcess,
  ...patches: readonly Partial<Notification>[]
): Promise<readonly Notification[]> {
  await store.claimDue(epoch - 1, 1)
  await must(store, { accept: patches.map((patch, at) => someNotification({ dueAt: epoch + at, ...patch })) })
  return store.claimDue(epoch + 1_000, 100)
}

export function exerciseLeftToBroker(name: string, open: () => Promise<LeavingRecord>): void {
  const test = registering(open)
  describe(name, () => {
    test('gives what is left once, and no claim finds it before', async (a) => {
      const [one, two] = await held(a, {}, { tenant: 'globex' })
      await a.left.leave([one!, two!])
      assert.deepEqual(await a.store.claimDue(epoch + 1_000, 100), [])
      assert.deepEqual((await a.left.tenants()).toSorted(), ['acme', 'globex'])
      const names = [nameOf(one!, a.id), nameOf(two!, a.id)]
      assert.deepEqual(await a.left.take(names.slice(0, 1)), [one])
      assert.deepEqual(await a.left.tenants(), ['globex'])
      assert.deepEqual(await a.left.take(names.slice(1)), [two])
      assert.deepEqual(await a.left.tenants(), [])
    })

    test('gives no version that was changed since, and none that has ended', async (a) => {
      const [moved, cancelled] = await held(a, {}, {})
      await a.left.leave([moved!, cancelled!])
      const later = advance(moved!, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 90_000 })
      const ended = advance(cancelled!, [{ at: epoch, status: 'cancelled' }])
      await must(a.store, { moves: [later, ended] })
      assert.deepEqual(await a.left.take([nameOf(moved!, a.id), nameOf(cancelled!, a.id)]), [])
      assert.deepEqual(ids(await a.store.claimDue(epoch + 90_000, 100)), [moved!.id])
    })

    test('frees what is left by tenant, priority and instant, earliest first, and a claim finds it', async (a) => {
      const [first, second, urgent, other] = await held(
        a,
        { dueAt: epoch },
        { dueAt: epoch + 10 },
        { dueAt: epoch + 5, priority: 'critical' },
        { tenant: 'globex' },
      ).then((list) => list.toSorted((x, y) => (x.id < y.id ? -1 : 1)))
      await a.left.leave([first!, second!, urgent!, other!])
      assert.equal(await a.left.free({ tenant: 'acme', dueBy: epoch + 9, priority: 'normal', limit: 10 }), 1)
      assert.deepEqual(ids(await a.store.claimDue(epoch + 1_000, 100)), [first!.id])
      assert.equal(await a.left.free({ tenant: 'acme', dueBy: epoch + 99, limit: 1 }), 1)
      assert.deepEqual(ids(await a.store.claimDue(epoch + 1_000, 100)), [urgent!.id])
      assert.equal(await a.left.free({ tenant: 'acme', dueBy: epoch + 99, limit: 10 }), 1)
      assert.equal(await a.left.free({ tenant: 'acme', dueBy: epoch + 99, limit: 10 }), 0)
      assert.deepEqual(await a.left.tenants(), ['globex'])
    })

    test('lists what is left in its place among what waits', async (a) => {
      const [first, left, last] = await held(a, {}, {}, {})
      await a.left.leave([left!])
      const query = { tenant: 'acme', order: 'sendAt', limit: 2 } as const
      const page = await a.store.list(query)
      assert.deepEqual(ids(page.items), [first!.id, left!.id])
      assert.deepEqual(ids((await a.store.list({ ...query, cursor: page.nextCursor! })).items), [last!.id])
      const next = advance(left!, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 90_000 })
      await must(a.store, { moves: [next] })
      assert.deepEqual(ids((await a.store.list({ ...query, limit: 9 })).items), ids([first!, last!, left!]))
    })
  })
}

export function exerciseSharedLeft(name: string, open: () => Promise<LeavingRecord>): void {
  const test = registering(open)
  describe(name, () => {
    test('gives each notification to one of two processes that take at once', async (a, record) => {
      const b = await record.join()
      const list = await held(a, ...Array.from({ length: 40 }, () => ({})))
      await a.left.leave(list)
      const names = list.map((each) => nameOf(each, '999'))
      const taken = await Promise.all([a.left.take(names), b.left.take(names.toReversed())])
      assert.deepEqual(ids(taken.flat()).toSorted(), ids(list).toSorted())
    })

    test('gives what the publisher still holds to another process, and again to a process that lost the answer', async (a, record) => {
      const b = await record.join()
      const [one, two] = await held(a, {}, {})
      for (let time = 0; time < 2; time += 1)
        assert.deepEqual(await b.left.take([nameOf(one!, a.id), nameOf(two!, '999')]), [one])
      // The confirmation comes afterwards: it takes nothing from its new holder.
      await a.left.leave([one!])
      assert.deepEqual((await b.store.begin([{ notification: one! }])).refused, new Set())
      assert.deepEqual((await a.store.begin([{ notification: one! }])).refused, new Set([one!.id]))
    })

    test('leaves and gives what no process holds: it was accepted behind what is claimed', async (a, record) => {
      const b = await record.join()
      const [one, two] = [someNotification({ dueAt: epoch }), someNotification({ dueAt: epoch })]
      await must(a.store, { accept: [one, two] })
      assert.deepEqual(await b.left.take([nameOf(one, a.id)]), [one])
      await a.left.leave([one, two])
      assert.deepEqual(await a.store.claimDue(epoch + 1_000, 100), [])
      assert.deepEqual(await b.left.take([nameOf(two, a.id)]), [two])
    })

    test('gives nothing for which a process has the right to send, and no right for what is left', async (a, record) => {
      const b = await record.join()
      const [one, two] = await held(a, {}, {})
      await a.store.begin([{ notification: one! }])
      await a.left.leave([one!, two!])
      assert.deepEqual(await b.left.take([nameOf(one!, a.id)]), [])
      assert.deepEqual((await b.store.begin([{ notification: two! }])).refused, new Set([two!.id]))
      assert.deepEqual(ids(await b.left.take([nameOf(two!, a.id)])), [two!.id])
    })
  })
}
