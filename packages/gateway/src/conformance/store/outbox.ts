/** The outbox of the delivery log: every change of state once, by the commit that makes it, until it is removed. */
import assert from 'node:assert/strict'
import { advance } from '../../model.ts'
import { isErasure, type LogRecord } from '../../ports/delivery-log.ts'
import type { Store } from '../../ports.ts'
import { epoch, someNotification } from './sample.ts'
import { must, type StoreCapabilities, type Test } from './suite.ts'

const all = 1_000_000

async function records(store: Store): Promise<readonly LogRecord[]> {
  return (await store.outbox!.read(all)).flatMap((row) => row.records)
}

/** Each entry as `notification/position status`. */
async function entries(store: Store): Promise<readonly string[]> {
  return (await records(store)).flatMap((record) =>
    isErasure(record)
      ? [`erased ${record.recipient}`]
      : record.events.map(({ status }, index) => `${record.notificationId}/${record.seq + index} ${status}`),
  )
}

export function outbox(test: Test, capabilities: StoreCapabilities): void {
  test('keeps each change of state with its position, by the commit that makes it', async (store) => {
    const accepted = someNotification({ id: 'n1', status: 'queued' })
    await must(store, { accept: [accepted] })
    const sent = advance(accepted, [
      { at: epoch + 5, status: 'sending', provider: 'sandbox', account: 'a', attempt: 1 },
      { at: epoch + 9, status: 'delivered', detail: '“250 ok” – 👋' },
    ])
    await must(store, { moves: [sent] })
    const first = accepted.timeline.length
    const { tenant, to, channel } = accepted
    const known = { tenant, recipient: to.id, notificationId: 'n1', channel }
    assert.deepEqual(await records(store), [
      { ...known, seq: 0, events: accepted.timeline },
      { ...known, seq: first, events: sent.events },
    ])
    assert.equal(await store.outbox!.size(), first + 2)
  })

  test('keeps nothing of a change that is refused, also beside others that are applied', async (store) => {
    const accepted = someNotification({ id: 'n1', status: 'queued' })
    await must(store, { accept: [accepted] })
    const move = (at: number) => advance(accepted, [{ at, status: 'sending' }])
    const results = await Promise.all([
      store.commit({ accept: [someNotification({ id: 'n2', status: 'queued' })] }),
      store.commit({ moves: [move(epoch + 1)] }),
      store.commit({ moves: [move(epoch + 2)] }),
      store.commit({ accept: [someNotification({ id: 'n2', status: 'queued' })] }),
    ])
    assert.deepEqual(
      results.map(({ applied }) => applied),
      [true, true, false, false],
    )
    const found = await entries(store)
    assert.equal(new Set(found).size, found.length)
    assert.equal(await store.outbox!.size(), found.length)
    assert.deepEqual(found.filter((entry) => entry.endsWith('sending')).length, 1)
    assert.deepEqual(found.filter((entry) => entry.startsWith('n2/0')).length, 1)
  })

  test('reads the oldest rows, a page of about so many entries, until they are removed', async (store) => {
    for (const id of ['n1', 'n2', 'n3']) await must(store, { accept: [someNotification({ id })] })
    const [first, ...rest] = await store.outbox!.read(1)
    assert.deepEqual(rest, [])
    assert.equal(first!.entries, someNotification({}).timeline.length)
    assert.deepEqual(await store.outbox!.read(1), [first])
    const names = (rows: Awaited<ReturnType<NonNullable<Store['outbox']>['read']>>) =>
      rows.flatMap(({ records }) => records.map((each) => isErasure(each) || each.notificationId))
    assert.deepEqual(names([first!]), ['n1'])
    await store.outbox!.remove([first!.position])
    const left = await store.outbox!.read(all)
    assert.deepEqual(names(left), ['n2', 'n3'])
    await store.outbox!.remove(left.map(({ position }) => position))
    await store.outbox!.remove(left.map(({ position }) => position))
    assert.deepEqual(await store.outbox!.read(all), [])
    assert.equal(await store.outbox!.size(), 0)
    await must(store, { accept: [someNotification({ id: 'n4' })] })
    assert.deepEqual(names(await store.outbox!.read(all)), ['n4'])
  })

  test('counts what waits also where rows before and behind it were removed', async (store) => {
    for (const id of ['n1', 'n2', 'n3', 'n4']) await must(store, { accept: [someNotification({ id })] })
    const each = (await entries(store)).length / 4
    assert.equal(await store.outbox!.size(), 4 * each)
    const rows = await store.outbox!.read(all)
    await store.outbox!.remove([rows[1]!.position, rows[3]!.position])
    assert.equal(await store.outbox!.size(), 2 * each)
    await must(store, { accept: [someNotification({ id: 'n5' })] })
    assert.equal(await store.outbox!.size(), 3 * each)
  })

  test('keeps no row for a change of no state', async (store) => {
    await must(store, { accounts: [{ channel: 'email', provider: 'p', account: 'a', blockedUntil: epoch }] })
    assert.deepEqual(await store.outbox!.read(all), [])
  })

  test('tells the log of an erased recipient behind what was logged of them', async (store) => {
    const notification = someNotification({ id: 'n1', status: 'suppressed' })
    await must(store, { accept: [notification] })
    const { tenant, to } = notification
    await store.beginErasure(tenant, to.id)
    assert.deepEqual(await store.erase(tenant, to.id), { done: true })
    const [before, erasure, ...rest] = await records(store)
    assert.deepEqual(rest, [])
    assert.equal(isErasure(before!), false)
    assert.deepEqual(erasure, { tenant, recipient: to.id, erasedAt: epoch })
  })

  if (capabilities.durable)
    test('keeps its rows over a restart, and removed ones stay removed', async (store, context) => {
      await must(store, { accept: [someNotification({ id: 'n1' })] })
      await must(store, { accept: [someNotification({ id: 'n2' })] })
      const [first] = await store.outbox!.read(1)
      await store.outbox!.remove([first!.position])
      const again = await context.reopen()
      const found = await entries(again)
      assert.ok(found.length > 0 && found.every((entry) => entry.startsWith('n2/')))
      assert.equal(await again.outbox!.size(), found.length)
      await must(again, { accept: [someNotification({ id: 'n3' })] })
      assert.equal(await again.outbox!.size(), (await entries(again)).length)
    })
}
