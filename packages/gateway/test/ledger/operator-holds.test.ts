/** Holds of operators: in force at once, on record before the answer, and over by themselves. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOperatorHolds, type HoldChange } from '../../src/ledger/operator-holds.ts'
import type { Change, CommitResult } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'

const start = 1_000_000
const account = { name: 'sms/a', channel: 'sms', account: 'a', reason: 'r' } as const

async function setUp() {
  const clock = createVirtualClock(start)
  const store = createMemoryStore()
  const told: [HoldChange['kind'], string, number][] = []
  const errors: unknown[] = []
  let beforeCommit: () => Promise<void> = async () => {}
  const open = async () => {
    const holds = await createOperatorHolds({
      store,
      ledger: {
        async commit(change: Change): Promise<CommitResult> {
          await beforeCommit()
          return store.commit(change)
        },
      },
      clock,
      onError: (_, error) => void errors.push(error),
    })
    holds.listen(({ kind, hold }) => void told.push([kind, hold.name, clock.now() - start]))
    return holds
  }
  return {
    clock,
    store,
    told,
    errors,
    open,
    holds: await open(),
    onCommit(work: () => Promise<void>) {
      beforeCommit = work
    },
  }
}

test('a hold is in force before it is on record, and answered when it is', async () => {
  const { holds, store, told, onCommit } = await setUp()
  const { promise, resolve } = Promise.withResolvers<void>()
  onCommit(() => promise)
  let answered = false
  const put = holds.put({ ...account, until: start + 50 }).then(() => {
    answered = true
  })
  await Promise.resolve()
  await Promise.resolve()
  assert.deepEqual([told, answered, await store.holds()], [[['put', 'sms/a', 0]], false, []])
  resolve()
  await put
  assert.deepEqual(await store.holds(), [{ ...account, since: start, until: start + 50 }])
})

test('a hold ends by itself, in memory and on record', async () => {
  const { holds, clock, store, told } = await setUp()
  await holds.put({ ...account, until: start + 50 })
  await holds.put({ ...account, name: 'sms/b', account: 'b', until: start + 20 })
  await clock.runUntil(start + 30)
  assert.deepEqual(
    holds.list().map(({ name }) => name),
    ['sms/a'],
  )
  await clock.runUntil(start + 60)
  assert.deepEqual([holds.list(), await store.holds()], [[], []])
  assert.deepEqual(told.slice(2), [
    ['ended', 'sms/b', 20],
    ['ended', 'sms/a', 50],
  ])
})

test('a hold is known again after a restart, and one that ended meanwhile ends at once', async () => {
  const { holds, open, clock, told, store } = await setUp()
  await holds.put({ ...account, until: start + 50 })
  await holds.put({ ...account, name: 'sms/b', account: 'b', until: start + 20 })
  await holds.close()
  await clock.runUntil(start + 30)
  told.length = 0
  const again = await open()
  await clock.runUntil(start + 31)
  assert.deepEqual(
    again.list().map(({ name }) => name),
    ['sms/a'],
  )
  assert.deepEqual(told, [
    ['put', 'sms/a', 30],
    ['put', 'sms/b', 30],
    ['ended', 'sms/b', 30],
  ])
  assert.deepEqual(
    (await store.holds()).map(({ name }) => name),
    ['sms/a'],
  )
})

test('a hold that cannot be written is not in force', async () => {
  const { holds, told, onCommit } = await setUp()
  await holds.put({ ...account, until: start + 50 })
  onCommit(async () => {
    throw new Error('the disk is away')
  })
  await assert.rejects(holds.put({ ...account, until: start + 90 }), /the disk is away/)
  await assert.rejects(holds.put({ ...account, name: 'new', until: start + 90 }), /the disk is away/)
  await assert.rejects(holds.end('sms/a'), /the disk is away/)
  assert.deepEqual(
    holds.list().map(({ name, until }) => [name, until - start]),
    [['sms/a', 50]],
  )
  assert.deepEqual(told.at(-1), ['ended', 'new', 0])
})

test('the same hold twice is written and told once, and keeps its beginning when its end moves', async () => {
  const { holds, told, clock } = await setUp()
  const first = await holds.put({ ...account, until: start + 50 })
  await clock.runUntil(start + 10)
  assert.deepEqual(await holds.put({ ...account, until: start + 50 }), first)
  assert.equal(told.length, 1)
  assert.deepEqual(await holds.put({ ...account, until: start + 80 }), { ...first, until: start + 80 })
  await clock.runUntil(start + 60)
  assert.equal(holds.list().length, 1, 'the earlier end does not count any more')
  assert.equal(await holds.end('sms/a'), true)
  assert.equal(await holds.end('sms/a'), false)
})

test('there are a thousand holds at most', async () => {
  const { holds } = await setUp()
  for (let number = 0; number < 1_000; number += 1)
    await holds.put({ name: `h${number}`, until: start + 50, reason: 'r' })
  await assert.rejects(holds.put({ ...account, until: start + 50 }), { code: 'INVALID_REQUEST' })
  await holds.put({ name: 'h7', until: start + 60, reason: 'r' })
})
