/** The writer of the delivery log, in virtual time: which entries the log gets, and what becomes of those that wait. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { createDeliveryLogWriter } from '../../src/ledger/delivery-log-writer.ts'
import { type DeliveryLog, isErasure, type LogRecord } from '../../src/ports/delivery-log.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createLoggedMemoryStore } from '../../src/store/memory/memory.ts'

interface Parts {
  readonly waitingMax?: number
  readonly holds?: () => boolean
}

function createParts({ waitingMax, holds = () => true }: Parts = {}) {
  const clock = createVirtualClock(0)
  const store = createLoggedMemoryStore(clock)
  /** Rows of the log by their key, with the number of times that each was written. */
  const rows = new Map<string, number>()
  const erased: string[] = []
  /** The instants before which the log was told that its records were read. */
  const instants: number[] = []
  const told: string[] = []
  const fault = { next: undefined as 'refused' | 'lost answer' | 'hangs' | undefined }
  const log: DeliveryLog = {
    async write(records: readonly LogRecord[], readAt: number) {
      instants.push(readAt)
      if (fault.next === 'hangs') await new Promise(() => {})
      if (fault.next === 'refused') throw new Error('away')
      for (const record of records)
        if (isErasure(record)) erased.push(record.recipient)
        else
          for (const [index] of record.events.entries()) {
            const key = `${record.notificationId}/${record.seq + index}`
            rows.set(key, (rows.get(key) ?? 0) + 1)
          }
      if (fault.next === 'lost answer') throw new Error('no answer')
    },
    notification: async () => undefined,
    close: async () => {},
  }
  const create = () =>
    createDeliveryLogWriter({
      outbox: store.outbox!,
      log,
      members: { holds: (role) => role === 'delivery-log' && holds() },
      clock,
      ...(waitingMax === undefined ? {} : { waitingMax }),
      onAway: () => told.push('away'),
      onBack: (awayMs) => told.push(`back after ${awayMs}`),
      onLost: (entries) => told.push(`lost ${entries}`),
      onError: (what, error) => told.push(`${what}: ${error}`),
    })
  /** Accepts so many notifications, of two entries each. */
  const accept = async (count: number) => {
    for (let n = 0; n < count; n += 1) await store.commit({ accept: [someNotification()] })
  }
  return { clock, store, rows, erased, instants, told, fault, create, accept }
}

test('the log gets each change of state, and the outbox is empty then', async () => {
  const { clock, store, rows, told, create, accept } = createParts()
  await accept(1_200)
  const writer = create()
  writer.start()
  await clock.runUntil(clock.now() + 2_000)
  assert.deepEqual([rows.size, Math.max(...rows.values())], [2_400, 1])
  assert.equal(await store.outbox!.size(), 0)
  await accept(1)
  await clock.runUntil(clock.now() + 2_000)
  assert.deepEqual(writer.report(), {
    waiting: 0,
    oldestAt: undefined,
    written: 2_402,
    lost: 0,
    awaySince: undefined,
  })
  assert.deepEqual(told, [])
  await writer.stop()
})

test('a log that is away gets what waited when it is back, and is told of once', async () => {
  const { clock, rows, told, fault, create, accept } = createParts()
  const writer = create()
  writer.start()
  fault.next = 'refused'
  for (let second = 0; second < 60; second += 1) {
    await accept(10)
    await clock.runUntil(clock.now() + 1_000)
  }
  const { waiting, awaySince } = writer.report()
  assert.ok(waiting >= 1_180 && waiting <= 1_200, `${waiting} wait`)
  assert.ok(awaySince! <= 2_000)
  fault.next = undefined
  await clock.runUntil(clock.now() + 3_000)
  assert.deepEqual([rows.size, Math.max(...rows.values()), writer.report().waiting], [1_200, 1, 0])
  assert.equal(told.length, 2)
  assert.deepEqual([told[0], /^back after 5\d{4}|^back after 6\d{4}/.test(told[1]!)], ['away', true])
  await writer.stop()
})

test('a write whose answer was lost, and a process that ended behind it, make no second row', async () => {
  const { clock, rows, fault, create, accept, store } = createParts()
  await accept(5)
  const first = create()
  first.start()
  fault.next = 'lost answer'
  await clock.runUntil(clock.now() + 100)
  await first.stop()
  fault.next = undefined
  const second = create()
  second.start()
  await clock.runUntil(clock.now() + 2_000)
  assert.deepEqual([rows.size, Math.max(...rows.values())], [10, 2], 'the same ten rows were written twice')
  assert.equal(await store.outbox!.size(), 0)
  await second.stop()
})

test('above the bound the oldest changes are given up, counted and told, and the newest reach the log', async () => {
  const { clock, rows, told, fault, create, accept, store } = createParts({ waitingMax: 100 })
  const writer = create()
  writer.start()
  fault.next = 'refused'
  await accept(80)
  await clock.runUntil(clock.now() + 3_000)
  assert.equal(await store.outbox!.size(), 100)
  const { items } = await store.list({ tenant: 'acme', limit: 1_000 })
  fault.next = undefined
  await clock.runUntil(clock.now() + 3_000)
  assert.deepEqual([rows.size, writer.report().lost], [100, 60])
  const newest = items.slice(0, 50).flatMap(({ id }) => [`${id}/0`, `${id}/1`])
  assert.deepEqual([...rows.keys()].sort(), newest.sort())
  assert.deepEqual(
    told.filter((line) => line.startsWith('lost')),
    ['lost 60'],
  )
  await writer.stop()
})

test('above the bound no erasure is given up: the log would keep the recipient', async () => {
  const { clock, rows, erased, fault, create, accept, store } = createParts({ waitingMax: 100 })
  const writer = create()
  writer.start()
  fault.next = 'refused'
  const recipients = ['ada', 'eve']
  await accept(10)
  for (const recipient of recipients) {
    await store.beginErasure('acme', recipient)
    assert.deepEqual(await store.erase('acme', recipient), { done: true })
  }
  for (let rounds = 0; rounds < 3; rounds += 1) {
    await accept(80)
    await clock.runUntil(clock.now() + 3_000)
    assert.equal(await store.outbox!.size(), 100)
  }
  fault.next = undefined
  await clock.runUntil(clock.now() + 3_000)
  assert.deepEqual(erased, recipients)
  assert.deepEqual([rows.size, writer.report().lost, writer.report().waiting], [98, 402, 0])
  await writer.stop()
})

test('a process that does not hold the role writes nothing, and takes over when it gets it', async () => {
  let isHolder = false
  const { clock, rows, create, accept, store } = createParts({ holds: () => isHolder })
  const writer = create()
  writer.start()
  await accept(3)
  await clock.runUntil(clock.now() + 5_000)
  assert.deepEqual([rows.size, writer.report().waiting, await store.outbox!.size()], [0, 0, 6])
  isHolder = true
  await clock.runUntil(clock.now() + 2_000)
  assert.deepEqual([rows.size, await store.outbox!.size()], [6, 0])
  await writer.stop()
})

test('a page bears the instant before it was read, and is not written where the role was lost meanwhile', async () => {
  let isHolder = true
  const { clock, rows, instants, create, accept, store } = createParts({ holds: () => isHolder })
  const read = store.outbox!.read.bind(store.outbox)
  const readMs = 5_000
  store.outbox!.read = async (limit) => {
    await new Promise<void>((resolve) => clock.at(clock.now() + readMs, resolve))
    return read(limit)
  }
  await accept(1)
  const begunAt = clock.now()
  const writer = create()
  writer.start()
  await clock.runUntil(begunAt + readMs + 100)
  assert.deepEqual([instants, rows.size], [[begunAt], 2])
  await accept(1)
  await clock.runUntil(clock.now() + 3_000)
  isHolder = false
  await clock.runUntil(clock.now() + 10_000)
  assert.deepEqual([rows.size, await store.outbox!.size()], [2, 2])
  await writer.stop()
})

test('a write that never ends keeps no process from ending', async () => {
  const { clock, fault, create, accept } = createParts()
  await accept(1)
  fault.next = 'hangs'
  const writer = create()
  writer.start()
  await clock.runUntil(clock.now() + 5_000)
  await writer.stop()
})
