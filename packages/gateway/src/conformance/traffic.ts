/**
 * The conformance suite of sources of traffic: `exerciseTraffic` runs it on any store, read beside the process that
 * writes it.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { advance, type Notification } from '../model.ts'
import type { FeedbackEvent } from '../ports/feedback.ts'
import type { TrafficQuery, TrafficSource } from '../ports/traffic.ts'
import type { Store } from '../ports.ts'
import { epoch, someNotification } from './store/sample.ts'

export interface OpenTraffic {
  /** Empty, and open until the end of the test. */
  readonly store: Store
  /** Opens the source beside the store. */
  readonly open: () => Promise<TrafficSource>
  readonly close: () => Promise<void>
}

/** More than a page has. */
const manyRows = 1_203

/** Registers the suite `name` with node:test. */
export function exerciseTraffic(name: string, prepare: () => Promise<OpenTraffic>): void {
  const read = async (source: TrafficSource, query: TrafficQuery): Promise<Notification[]> => {
    const items: Notification[] = []
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await source.page(cursor === undefined ? query : { ...query, cursor })
      items.push(...page.items)
      cursor = page.nextCursor
    }
    return items
  }

  describe(name, () => {
    it('reads a period of one tenant in the order of creation, page by page', async () => {
      const { store, open, close } = await prepare()
      const rows = Array.from({ length: manyRows }, (_, index) =>
        someNotification({ tenant: 'acme', createdAt: epoch + Math.floor(index / 3) }),
      )
      const others = [someNotification({ tenant: 'other', createdAt: epoch })]
      await store.commit({ accept: [...rows, ...others] })
      const source = await open()
      assert.deepEqual(await source.tenants(), ['acme', 'other'])
      const all = { from: epoch, to: epoch + manyRows }
      assert.deepEqual(
        (await read(source, { tenant: 'acme', ...all })).map(({ id }) => id),
        rows.map(({ id }) => id),
      )
      const part = await read(source, { tenant: 'acme', from: epoch + 10, to: epoch + 20 })
      assert.deepEqual(
        part.map(({ id }) => id),
        rows.slice(30, 60).map(({ id }) => id),
      )
      assert.deepEqual((await read(source, { tenant: 'other', ...all })).length, 1)
      assert.deepEqual(await read(source, { tenant: 'nobody', ...all }), [])
      await source.close()
      await close()
    })

    it('sees what has become of a notification, and the preferences of its recipient', async () => {
      const { store, open, close } = await prepare()
      const row = someNotification({ status: 'queued', to: { id: 'ada' } })
      await store.commit({
        accept: [row],
        recipients: [{ tenant: 'acme', id: 'ada', timeZone: 'Europe/Rome', optOuts: [{ category: 'news' }] }],
      })
      const source = await open()
      const query = { tenant: 'acme', from: epoch, to: epoch + 1 }
      assert.equal((await read(source, query))[0]?.status, 'queued')
      const delivered = advance(
        row,
        [
          { at: epoch + 5, status: 'sending' },
          { at: epoch + 6, status: 'delivered' },
        ],
        { firedAt: epoch + 5, attempts: 1 },
      )
      await store.commit({ moves: [delivered] })
      const [after] = await read(source, query)
      assert.deepEqual([after?.status, after?.firedAt], ['delivered', epoch + 5])
      const [ada, nobody] = await source.recipients([
        { tenant: 'acme', recipient: 'ada' },
        { tenant: 'acme', recipient: 'nobody' },
      ])
      assert.deepEqual([ada?.timeZone, ada?.optOuts], ['Europe/Rome', [{ category: 'news' }]])
      assert.equal(nobody, undefined)
      await source.close()
      await close()
    })

    it('reads the feedback on notifications of one tenant', async () => {
      const { store, open, close } = await prepare()
      const rows = ['acme', 'acme', 'other'].map((tenant) => someNotification({ tenant }))
      await store.commit({ accept: rows })
      const events = rows.map(
        ({ tenant, id }, index): FeedbackEvent => ({
          tenant,
          notificationId: id,
          key: `k${index}`,
          type: 'open',
          channel: 'email',
          category: 'marketing',
          at: epoch + index,
          keptAt: epoch + 9,
        }),
      )
      await store.feedback.keep(events)
      const source = await open()
      const ids = rows.map(({ id }) => id)
      assert.deepEqual(await source.feedback('acme', ids), events.slice(0, 2))
      assert.deepEqual(await source.feedback('acme', ids.slice(1)), [events[1]])
      assert.deepEqual(await source.feedback('nobody', ids), [])
      assert.deepEqual(await source.feedback('acme', []), [])
      await source.close()
      await close()
    })
  })
}
