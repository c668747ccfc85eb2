/**
 * The conformance suite of a store that several processes share: who holds a notification, who may send it, what becomes
 * of it when its process dies, and versions of recipients. `exerciseStoreMembers` runs it on any such store.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { advance, type Notification, type Recipient } from '../model.ts'
import type { Change, Store, StoredRecipient } from '../ports.ts'
import { holding } from './store/holding.ts'
import { due, type StoreFleet, type StoreMember, stored } from './store/members.ts'
import { epoch, settled, someNotification } from './store/sample.ts'
import { applied, conflict, must } from './store/suite.ts'
import { templates } from './store/templates.ts'

export type { StoreFleet }

/** Registers the suite `name` with node:test. */
export function exerciseStoreMembers(name: string, open: () => Promise<StoreFleet>): void {
  function test(title: string, body: (a: StoreMember, b: StoreMember, fleet: StoreFleet) => Promise<void>) {
    it(title, async () => {
      const fleet = await open()
      try {
        await body(await fleet.join(), await fleet.join(), fleet)
      } finally {
        await fleet.close()
      }
    })
  }

  const rightsOf = async (store: Store, ...list: readonly Notification[]) =>
    await store.begin(list.map((notification) => ({ notification })))
  describe(name, () => {
    test('tells a change from an equal one of another process', async (a, b) => {
      const [stays, ends, item] = await stored(a.store, due(1), due(2), due(3))
      const cancelled = (of: Notification) => advance(of, [{ at: epoch, status: 'cancelled' }])
      const changes: readonly Change[] = [
        { moves: [advance(stays!, [{ at: epoch, status: 'dead', reason: 'pool_blocked' }])] },
        { moves: [cancelled(ends!)] },
        { accept: [someNotification()] },
      ]
      for (const change of changes) {
        await must(b.store, change)
        assert.equal((await a.store.commit(change)).applied, false)
        assert.equal(await a.store.isApplied(change), false)
        assert.ok(await b.store.isApplied(change))
      }
      const closing = { accept: [due(4)], moves: [cancelled(item!)] }
      await must(a.store, closing)
      await must(b.store, { moves: [cancelled(closing.accept[0]!)] })
      assert.ok(await a.store.isApplied(closing), 'another process has moved on what it accepted')
    })

    describe('holding', () => holding(test))
    describe('templates', () => templates(test))

    describe('rights', () => {
      test('gives the right to send to one process only', async (a, b) => {
        const [one, two] = await stored(a.store, due(1), due(2))
        await a.store.claimDue(epoch + 10, 10)
        assert.deepEqual((await rightsOf(b.store, one!, two!)).refused, new Set([one!.id, two!.id]))
        const given = await rightsOf(a.store, one!, two!)
        assert.equal(given.refused.size, 0)
        assert.ok(Number.isFinite(given.forMs) && given.forMs > 0)
        assert.ok(b.store.othersCallForMs >= given.forMs)
      })

      test('lets another process cancel what is held, and then refuses the right to send it', async (a, b) => {
        const [one] = await stored(a.store, due(1))
        await a.store.claimDue(epoch + 10, 10)
        await must(b.store, { moves: [advance(one!, [{ at: epoch, status: 'cancelled' }])] })
        assert.deepEqual((await rightsOf(a.store, one!)).refused, new Set([one!.id]))
        assert.deepEqual(await a.store.heldOnRecord(epoch + 10, null, 10), [])
      })

      test('shows what may be sent now as sending to others, and takes no move of it from them', async (a, b) => {
        const [one] = await stored(a.store, { ...due(1), job: 'job-1' })
        await a.store.claimDue(epoch + 10, 10)
        await rightsOf(a.store, one!)
        assert.equal((await b.store.notification('acme', one!.id))?.status, 'sending')
        const membersSeenBy = ({ store }: StoreMember) => store.jobMembers({ tenant: 'acme', id: 'job-1' })
        assert.deepEqual(
          (await membersSeenBy(b)).map(({ status }) => status),
          ['sending'],
        )
        assert.deepEqual(
          (await membersSeenBy(a)).map(({ status }) => status),
          ['queued'],
          'its own as it is on record',
        )
        assert.deepEqual((await b.store.waiting('acme', one!.to.id, null, 10)).items, [])
        const counted = { tenant: 'acme', recipient: one!.to.id, since: epoch, limit: 10 }
        assert.deepEqual(
          (await b.store.counted(counted)).items.map(({ id, status }) => [id, status]),
          [[one!.id, 'sending']],
          'the limits count it as sent now',
        )
        const cancelled = advance(one!, [{ at: epoch, status: 'cancelled' }])
        assert.deepEqual(await b.store.commit({ moves: [cancelled] }), conflict('notification', one!.id))
        assert.deepEqual(await a.store.commit({ moves: [settled(one!, epoch + 5)] }), applied)
        assert.equal((await b.store.notification('acme', one!.id))?.status, 'delivered')
      })

      test('lists, finds and counts what another process may send now as what it waits for', async (a, b) => {
        const [one] = await stored(a.store, due(20))
        await a.store.claimDue(epoch + 30, 10)
        await rightsOf(a.store, one!)
        const seen = (items: readonly { readonly status: string }[]) => items.map(({ status }) => status)
        const listed = await b.store.list({ tenant: 'acme', order: 'sendAt', limit: 10 })
        assert.deepEqual(seen(listed.items), ['sending'])
        const scanned = async (status: 'queued' | 'sending') =>
          seen((await b.store.scan({ statuses: [status], limit: 10 })).items)
        assert.deepEqual([await scanned('queued'), await scanned('sending')], [[], ['sending']])
        const to = { tenant: 'acme', recipient: one!.to.id }
        assert.deepEqual(seen(await b.store.admissions({ ...to, since: epoch + 10, limit: 10 })), ['sending'])
      })
    })

    describe('end', () => {
      test('frees what a process holds that ends cleanly, and leaves no doubt of it', async (a, b) => {
        const [one, two] = await stored(a.store, due(1), due(2))
        await a.store.claimDue(epoch + 10, 10)
        await rightsOf(a.store, one!)
        await a.store.close()
        assert.deepEqual(await b.store.takeOver(epoch + 20, 10), [])
        assert.deepEqual(await b.store.claimDue(epoch + 20, 10), [one, two])
      })

      test('leaves to others what a process holds that does not end cleanly', async (a, b) => {
        const [one, two] = await stored(a.store, due(1), due(2))
        await a.store.claimDue(epoch + 10, 10)
        await rightsOf(a.store, one!)
        await a.store.close(false)
        assert.deepEqual(await b.store.claimDue(epoch + 20, 10), [])
        const taken = await b.store.takeOver(epoch + 20, 10)
        assert.deepEqual(
          taken.map(({ notification: { id }, mayHaveLeft }) => [id, mayHaveLeft]),
          [
            [one!.id, true],
            [two!.id, false],
          ],
        )
      })
    })

    test('marks the holds on record with each right, so that a process knows when to read them', async (a, b) => {
      const [one] = await stored(a.store, due(1))
      const marks: (string | undefined)[] = []
      const mark = async () => void marks.push((await rightsOf(a.store, one!)).holds)
      const hold = { name: 'night', since: epoch, until: epoch + 50, reason: 'r' }
      await mark()
      await mark()
      await must(b.store, { holds: [{ kind: 'put', hold }] })
      await mark()
      await must(b.store, { holds: [{ kind: 'put', hold: { ...hold, until: epoch + 60 } }] })
      await mark()
      await must(b.store, { holds: [{ kind: 'end', name: 'night' }] })
      await mark()
      assert.equal(typeof marks[0], 'string')
      assert.equal(marks[1], marks[0])
      for (const [index, each] of marks.slice(2).entries()) assert.notEqual(each, marks[index + 1])
    })

    describe('takeover', () => {
      test('takes nothing over from a process that lives', async (a, b) => {
        await stored(a.store, due(1))
        await a.store.claimDue(epoch + 10, 10)
        assert.deepEqual(await b.store.takeOver(epoch + 20, 10), [])
      })

      test('takes over what a dead process held, earliest first, and tells what may have left', async (a, b) => {
        const list = await stored(a.store, due(3), due(1), due(2))
        const [third, first, second] = list
        await a.store.claimDue(epoch + 10, 10)
        await rightsOf(a.store, second!)
        await a.kill()
        assert.deepEqual(await b.store.claimDue(epoch + 10, 10), [], 'only a takeover gives them')
        const [early] = await b.store.takeOver(epoch + 20, 1)
        assert.deepEqual(early, { notification: first, mayHaveLeft: false })
        const rest = await b.store.takeOver(epoch + 21, 10)
        assert.deepEqual(
          rest.map(({ notification: { id }, mayHaveLeft }) => ({ id, mayHaveLeft })),
          [
            { id: second!.id, mayHaveLeft: true },
            { id: third!.id, mayHaveLeft: false },
          ],
        )
        assert.deepEqual(rest[0]!.notification.suspects, [epoch + 21])
        assert.deepEqual((await b.store.notification('acme', second!.id))?.suspects, [epoch + 21])
        const [met] = await b.store.admissions({
          tenant: 'acme',
          recipient: second!.to.id,
          since: 0,
          limit: 9,
        })
        assert.ok(met !== undefined)
        assert.deepEqual(await b.store.takeOver(epoch + 22, 10), [])
        const given = await rightsOf(b.store, ...[early!, ...rest].map(({ notification }) => notification))
        assert.equal(given.refused.size, 0, 'the taker holds them')
        const moves = [early!, ...rest].map(({ notification }) => settled(notification, epoch + 30))
        assert.deepEqual(await b.store.commit({ moves }), applied)
      })

      test('keeps what it took over from a second process that took over in vain', async (a, b, fleet) => {
        const c = await fleet.join()
        await stored(a.store, ...Array.from({ length: 40 }, (_, at) => due(at)))
        await a.store.claimDue(epoch + 99, 100)
        await a.kill()
        const taken = new Set<string>()
        for (let round = 0; round < 5; round += 1)
          for (const page of await Promise.all([b.store.takeOver(epoch, 9), c.store.takeOver(epoch, 9)]))
            for (const { notification } of page) {
              assert.ok(!taken.has(notification.id), 'taken over twice')
              taken.add(notification.id)
            }
        assert.equal(taken.size, 40)
      })

      test('passes over tenants that have no room, and takes them over later', async (a, b) => {
        const [mine, others] = await stored(a.store, due(1), { ...due(2), tenant: 'other' })
        await a.store.claimDue(epoch + 10, 10)
        await a.kill()
        const without = await b.store.takeOver(epoch, 10, ['acme'])
        assert.deepEqual(
          without.map(({ notification }) => notification.id),
          [others!.id],
        )
        const later = await b.store.takeOver(epoch, 10)
        assert.deepEqual(
          later.map(({ notification }) => notification.id),
          [mine!.id],
        )
      })

      test('writes nothing that comes from a process after its death', async (a, b) => {
        const [one, two] = await stored(a.store, due(1), due(2))
        await a.store.claimDue(epoch + 10, 10)
        await rightsOf(a.store, one!)
        await a.kill()
        const fenced = conflict('member', a.id)
        assert.deepEqual(await a.store.commit({ moves: [settled(one!, epoch + 5)] }), fenced)
        assert.deepEqual(await a.store.commit({ accept: [due(3)] }), fenced)
        await assert.rejects(async () => rightsOf(a.store, two!), { code: 'STORE_UNAVAILABLE' })
        await assert.rejects(a.store.claimDue(epoch + 10, 10), { code: 'STORE_UNAVAILABLE' })
        await assert.rejects(a.store.takeOver(epoch, 10), { code: 'STORE_UNAVAILABLE' })
        await assert.rejects(a.store.releaseDue([two!]), { code: 'STORE_UNAVAILABLE' })
        await assert.rejects(a.store.prune({ answers: 0, notifications: epoch }), {
          code: 'STORE_UNAVAILABLE',
        })
        assert.equal((await b.store.takeOver(epoch + 20, 10)).length, 2)
      })

      test('adds a suspect for each takeover of what may have left', async (a, b, fleet) => {
        const [one] = await stored(a.store, due(1))
        await a.store.claimDue(epoch + 10, 10)
        await rightsOf(a.store, one!)
        await a.kill()
        const [taken] = await b.store.takeOver(epoch + 20, 10)
        await rightsOf(b.store, taken!.notification)
        await b.kill()
        const c = await fleet.join()
        const [again] = await c.store.takeOver(epoch + 30, 10)
        assert.deepEqual(again?.notification.suspects, [epoch + 20, epoch + 30])
        assert.equal(again?.mayHaveLeft, true)
      })
    })

    describe('own sweep', () => {
      test('names what a process holds on record and was due, by pages', async (a, b) => {
        // Three are due at one instant, across the end of the first page.
        const stood = await stored(a.store, ...[0, 1, 2, 2, 2, 3].map(due))
        await a.store.claimDue(epoch + 10, 10)
        const list = stood.toSorted((x, y) => x.dueAt - y.dueAt || (x.id < y.id ? -1 : 1))
        const names = list.map(({ id, dueAt }) => ({ tenant: 'acme', id, dueAt }))
        const first = await a.store.heldOnRecord(epoch + 10, null, 3)
        assert.deepEqual(first, names.slice(0, 3))
        assert.deepEqual(await a.store.heldOnRecord(epoch + 10, first[2]!, 3), names.slice(3))
        assert.deepEqual(await a.store.heldOnRecord(epoch, null, 9), names.slice(0, 1))
        assert.deepEqual(await b.store.heldOnRecord(epoch + 10, null, 3), [])
      })

      test('takes back what it holds on record, and tells what it may have sent itself', async (a, b) => {
        const [one, two, others] = await stored(a.store, due(1), due(2), due(3))
        await b.store.claimDue(epoch + 10, 0)
        await a.store.claimDue(epoch + 2, 10)
        await b.store.claimDue(epoch + 10, 10)
        await rightsOf(a.store, two!)
        const taken = await a.store.takeBack(epoch + 20, [one!, two!, others!])
        assert.deepEqual(
          taken
            .map(({ notification: { id, suspects }, mayHaveLeft }) => ({ id, suspects, mayHaveLeft }))
            .sort((x, y) => (x.id < y.id ? -1 : 1)),
          [
            { id: one!.id, suspects: undefined, mayHaveLeft: false },
            { id: two!.id, suspects: [epoch + 20], mayHaveLeft: true },
          ].sort((x, y) => (x.id < y.id ? -1 : 1)),
        )
        const given = await rightsOf(a.store, ...taken.map(({ notification }) => notification))
        assert.equal(given.refused.size, 0)
      })
    })

    describe('recipients', () => {
      const recipient: Recipient = { tenant: 'acme', id: 'user-1', email: 'a@example.com' }

      test('gives each write of a recipient another version, and loses no update', async (a, b) => {
        assert.ok(a.store.isVersioned)
        await must(a.store, { recipients: [{ ...recipient, version: 0 }] })
        const first = await b.store.recipient('acme', 'user-1')
        const both = await Promise.all(
          [a, b].map(({ store }, index) =>
            store.commit({
              recipients: [{ ...recipient, email: `${index}@example.com`, version: first!.version! }],
            }),
          ),
        )
        assert.deepEqual(both.map((result) => result.applied).sort(), [false, true])
        assert.ok(both.some((result) => !result.applied && result.conflicts[0]?.kind === 'recipient'))
        const second = await a.store.recipient('acme', 'user-1')
        assert.notEqual(second?.version, first?.version)
        assert.deepEqual(
          await a.store.commit({ recipients: [{ ...recipient, version: 0 }] }),
          conflict('recipient', 'user-1'),
        )
      })

      test('refuses an acceptance that was decided under another version of its recipient', async (a, b) => {
        const decidedFor = [{ tenant: 'acme', recipient: 'user-1', version: 0 }]
        await must(a.store, { accept: [due(1)], decidedFor })
        await must(b.store, { recipients: [recipient] })
        const stale = await a.store.commit({ accept: [due(2)], decidedFor })
        assert.deepEqual(stale, conflict('recipient', 'user-1'))
        const { version } = (await a.store.recipient('acme', 'user-1'))!
        await must(a.store, { accept: [due(2)], decidedFor: [{ ...decidedFor[0]!, version: version! }] })
      })

      test('tells with the right to send that a recipient has changed', async (a, b) => {
        const [one, two] = await stored(a.store, due(1), due(2))
        await a.store.claimDue(epoch + 10, 10)
        await must(b.store, { recipients: [{ ...recipient, id: one!.to.id }] })
        const requests = [one!, two!].map((notification) => ({ notification, recipient: null }))
        const stale = await a.store.begin(requests)
        assert.equal(stale.refused.size, 0)
        assert.ok(stale.outdated?.has(one!.id))
        const read = (await a.store.recipient('acme', one!.to.id))!
        const fresh = await a.store.begin([{ notification: one!, recipient: read }])
        assert.ok(fresh.outdated?.has(one!.id) !== true)
      })

      test('tells with the right to send that an erasure has left opt-outs, or others', async (a, b) => {
        const [one] = await stored(a.store, due(1))
        await a.store.claimDue(epoch + 10, 10)
        const { id } = one!.to
        const isOutdated = async (known: StoredRecipient | null) => {
          const given = await a.store.begin([{ notification: one!, recipient: known }])
          return given.outdated?.has(one!.id) === true
        }
        const erasedWith = async (category: string): Promise<StoredRecipient> => {
          const { left = 0, version = left } = (await b.store.recipient('acme', id)) ?? {}
          await must(b.store, { recipients: [{ ...recipient, id, optOuts: [{ category }], version }] })
          await b.store.beginErasure('acme', id)
          return (await a.store.recipient('acme', id))!
        }
        assert.equal(await isOutdated(null), false)
        const first = await erasedWith('news')
        assert.ok(await isOutdated(null), 'nothing was saved when it was read')
        assert.equal(await isOutdated(first), false)
        const second = await erasedWith('offers')
        assert.ok(await isOutdated(first), 'other opt-outs are left')
        assert.equal(await isOutdated(second), false)
        await must(b.store, { recipients: [{ ...recipient, id, version: second.left! }] })
        assert.ok(await isOutdated(second), 'it is saved again')
      })

      test('refuses a write over opt-outs that an erasure has left since the recipient was read', async (a, b) => {
        const { id } = recipient
        const optOuts = [{ category: 'news' }]
        assert.equal(await a.store.recipient('acme', id), undefined)
        await must(b.store, { recipients: [{ ...recipient, optOuts, version: 0 }] })
        await b.store.beginErasure('acme', id)
        await b.store.erase('acme', id)
        const isApplied = async (version: number): Promise<boolean> =>
          (await a.store.commit({ recipients: [{ ...recipient, version }] })).applied
        assert.equal(await isApplied(0), false, 'nothing was saved when it was read')
        const { left = 0, optOuts: kept } = (await a.store.recipient('acme', id))!
        assert.deepEqual(kept, optOuts)
        assert.ok(await isApplied(left))
        assert.equal(await isApplied(left), false, 'it has a version of its own now')
      })
    })
  })
}
