/** Takes back what this process holds on record and not in memory: what may have left counts in the limits. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch, someNotification } from '../../src/conformance/store/sample.ts'
import { advance, type Notification } from '../../src/model.ts'
import { createOwnSweep } from '../../src/scheduler/own-sweep.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'

const untilDone = async (): Promise<void> => {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve()
}

test('counts what a dead process may have sent where the answer to its takeover was lost', async () => {
  const record = createMemoryRecord(250)
  const dead = record.open('dead')
  const sent = someNotification({ status: 'scheduled', dueAt: epoch + 1 })
  const waiting = someNotification({ status: 'scheduled', dueAt: epoch + 2 })
  await dead.commit({ accept: [sent, waiting] })
  await dead.claimDue(epoch + 1_000, 2)
  await dead.begin([{ notification: sent }])
  record.declareDead('dead')
  const store = record.open('alive')
  // Nobody hears the answer.
  await store.takeOver(epoch + 20_000, 10)

  const alarms: (() => void)[] = []
  const counted: string[] = []
  const placed: string[] = []
  let now = epoch + 20_100
  const sweep = createOwnSweep({
    store,
    ledger: { live: () => undefined },
    scheduler: { place: (page: readonly Notification[]) => void placed.push(...page.map(({ id }) => id)) },
    clock: {
      now: () => now,
      at(instant, callback) {
        alarms.push(() => {
          now = instant
          callback()
        })
        return () => {}
      },
    },
    countSuspects: async (page) => void counted.push(...page.map(({ id }) => id)),
    onError: (_what, error) => assert.fail(String(error)),
  })
  sweep.start()
  for (let look = 0; look < 2; look += 1) {
    alarms.shift()!()
    await untilDone()
  }
  await sweep.stop()
  assert.deepEqual(placed, [sent.id, waiting.id])
  assert.deepEqual(counted, [sent.id], 'it has counted under its own id when it was fired, and moves there')
})

test('ends a right to send that was given back, so that another process can cancel what waits here', async () => {
  const record = createMemoryRecord(250)
  const [store, other] = [record.open('a'), record.open('b')]
  const list = ['waits', 'leaves', 'begins'].map((id) => someNotification({ id, dueAt: epoch + 1 }))
  await store.commit({ accept: list })
  await store.begin(list.map((notification) => ({ notification })))
  // The account of one of them went out, and it is back in the queue.
  const statusOf = new Map<string, Notification['status']>([['leaves', 'sending']])
  let alarm = (): void => {}
  const sweep = createOwnSweep({
    store: {
      ...store,
      isVersioned: true,
      heldOnRecord: store.heldOnRecord.bind(store),
      async endRights(unused) {
        // One of them begins again before the store hears of it.
        await store.begin([{ notification: list[2]! }])
        await store.endRights(unused)
      },
    },
    ledger: {
      live: (id) => ({
        notification: list.find((each) => each.id === id)!,
        status: statusOf.get(id) ?? 'queued',
        events: [],
      }),
    },
    scheduler: { place: (page) => assert.equal(page.length, 0) },
    clock: {
      now: () => epoch + 10_000,
      at(_, callback) {
        alarm = callback
        return () => {}
      },
    },
    countSuspects: async () => assert.fail('nothing may have left'),
    onError: (_what, error) => assert.fail(String(error)),
  })
  sweep.start()
  alarm()
  await untilDone()
  await sweep.stop()
  const shown = await Promise.all(list.map(({ id }) => other.notification('acme', id)))
  assert.deepEqual(
    shown.map((each) => each?.status),
    ['queued', 'sending', 'sending'],
  )
  const cancelled = advance(list[0]!, [{ at: epoch + 10_000, status: 'cancelled' }])
  assert.deepEqual(await other.commit({ moves: [cancelled] }), { applied: true })
})
