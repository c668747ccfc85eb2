/** Holds of operators: in force at once, on record before the answer, and over by themselves. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOperatorHolds, type HoldChange } from '../../src/ledger/operator-holds.ts'
import type { Change, CommitResult } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryRecord, createMemoryStore } from '../../src/store/memory/memory.ts'

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

test('a hold that the record refuses, as the process was declared dead, is not answered, and neither is its end', async () => {
  const { clock, a, record } = await setUpTwo()
  const put = a.holds.put({ name: 'night', until: start + 9_000, reason: 'r' })
  await clock.runUntil(start + 250)
  await put
  record.declareDead('a')
  const refused = { code: 'STORE_UNAVAILABLE', message: /declared it dead/ }
  const ends = [
    assert.rejects(a.holds.put({ name: 'day', until: start + 9_000, reason: 'r' }), refused),
    assert.rejects(a.holds.end('night'), refused),
  ]
  await clock.runUntil(start + 1_000)
  await Promise.all(ends)
  assert.deepEqual(a.names(), ['night'])
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

/** Holds of two processes over one record, whose rights to send last 250 ms. */
async function setUpTwo() {
  const clock = createVirtualClock(start)
  const record = createMemoryRecord(250)
  const open = async (member: string) => {
    const store = record.open(member)
    const reads = { fail: false }
    const writes = { wait: Promise.resolve() }
    const holds = await createOperatorHolds({
      store: {
        othersCallForMs: store.othersCallForMs,
        holds: () => (reads.fail ? Promise.reject(new Error('the store is away')) : store.holds()),
      },
      ledger: {
        async commit(change: Change): Promise<CommitResult> {
          await writes.wait
          return store.commit(change)
        },
      },
      clock,
      onError: (_, error) => assert.fail(String(error)),
    })
    const mark = async () => (await store.begin([])).holds!
    return {
      holds,
      reads,
      writes,
      mark,
      onRecord: () => store.holds(),
      names: () => holds.list().map(({ name }) => name),
    }
  }
  return { clock, record, a: await open('a'), b: await open('b') }
}

test('a hold is answered when the rights that others got before it have ended', async () => {
  const { clock, a, b } = await setUpTwo()
  const answeredAt: number[] = []
  const hold = { name: 'night', until: start + 1_000, reason: 'r' }
  const put = (at: typeof a) => at.holds.put(hold).then(() => void answeredAt.push(clock.now() - start))
  const first = put(a)
  await clock.runUntil(start + 100)
  // Nor is it answered before by a process that has only heard of it.
  await b.holds.reread()
  const second = put(b)
  await clock.runUntil(start + 249)
  assert.deepEqual(answeredAt, [])
  await clock.runUntil(start + 400)
  await Promise.all([first, second])
  assert.deepEqual(answeredAt, [250, 350])
})

test('a right to send that comes with another mark is used when the holds of others are in force here', async () => {
  const { clock, a, b } = await setUpTwo()
  await b.holds.follow(await b.mark())
  const put = a.holds.put({ name: 'night', until: start + 1_000, reason: 'r' })
  await clock.runUntil(start + 1)
  assert.deepEqual(b.names(), [], 'nobody has told it')
  b.reads.fail = true
  await assert.rejects(b.holds.follow(await b.mark()), /the store is away/)
  b.reads.fail = false
  await b.holds.follow(await b.mark())
  assert.deepEqual(b.names(), ['night'])
  b.reads.fail = true
  await b.holds.follow(await b.mark())
  b.reads.fail = false
  await clock.runUntil(start + 300)
  await put
  await a.holds.end('night')
  await b.holds.follow(await b.mark())
  assert.deepEqual(b.names(), [])
})

test('a hold is put on record though this process knows it, as another one may have ended it', async () => {
  const { clock, a, b } = await setUpTwo()
  const hold = { name: 'night', until: start + 9_000, reason: 'r' }
  const first = a.holds.put(hold)
  await clock.runUntil(start + 250)
  await first
  await b.holds.reread()
  assert.ok(await a.holds.end('night'))
  const second = b.holds.put(hold)
  await clock.runUntil(start + 1_000)
  await second
  assert.equal((await a.onRecord()).length, 1)
})

test('a hold that is over does not take the one with it that another process has put in force under its name', async () => {
  const { clock, a, b } = await setUpTwo()
  const first = a.holds.put({ name: 'night', until: start + 1_000, reason: 'r' })
  await clock.runUntil(start + 300)
  await first
  await b.holds.reread()
  // The process was stopped when the hold ended: what it writes then arrives behind the next hold.
  const { promise, resolve } = Promise.withResolvers<void>()
  b.writes.wait = promise
  await clock.runUntil(start + 1_010)
  const second = a.holds.put({ name: 'night', until: start + 5_000, reason: 'r' })
  await clock.runUntil(start + 1_300)
  const hold = await second
  resolve()
  await b.holds.reread()
  assert.deepEqual(await b.onRecord(), [hold])
  assert.deepEqual(b.names(), ['night'])
})

test('a hold that another process has shortened is over here with it, also where that dies before it can end it', async () => {
  const { clock, a, b } = await setUpTwo()
  const first = a.holds.put({ name: 'night', until: start + 60_000, reason: 'r' })
  await clock.runUntil(start + 300)
  await first
  await b.holds.reread()
  const second = a.holds.put({ name: 'night', until: start + 2_000, reason: 'r' })
  await clock.runUntil(start + 600)
  await second
  a.writes.wait = new Promise(() => {})
  await clock.runUntil(start + 3_000)
  await b.holds.reread()
  await clock.runUntil(start + 3_001)
  assert.deepEqual([b.names(), await b.onRecord()], [[], []])
})

test('a hold that another process has put in force is ended by one that has not heard of it', async () => {
  const { clock, a, b } = await setUpTwo()
  const put = a.holds.put({ name: 'night', until: start + 60_000, reason: 'r' })
  await clock.runUntil(start + 300)
  await put
  assert.equal(await b.holds.end('night'), true)
  assert.deepEqual(await b.onRecord(), [])
  assert.equal(await b.holds.end('night'), false)
})
