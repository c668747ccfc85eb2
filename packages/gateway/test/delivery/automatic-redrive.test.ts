/** The pace at which dead letters leave the record and come back to the scheduler, over a real store and ledger. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryRoom } from '../../src/adapters/state/memory-room.ts'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { type AutomaticRedrive, createAutomaticRedrive } from '../../src/delivery/automatic-redrive.ts'
import type { Route } from '../../src/delivery/pools/route.ts'
import { createLedger } from '../../src/ledger/ledger.ts'
import { advance, type Notification, type Priority, priorities } from '../../src/model.ts'
import { createVirtualClock, type VirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'

const second = 1_000
const tickMs = 100

type Dead = Pick<Notification, 'priority' | 'attempts'>

interface Setup {
  readonly ratePerSecond?: number
  /** Redriven notifications leave the queue at once. @defaultValue true */
  readonly leaves?: boolean
  /** A dead letter was on record at the start. @defaultValue true */
  readonly isDeadAtStart?: boolean
  /** True if other processes share the record. @defaultValue false */
  readonly isVersioned?: boolean
  /** True while this process holds the role. @defaultValue always */
  readonly holds?: (role: string) => boolean
}

interface Scene {
  readonly clock: VirtualClock
  readonly automaticRedrive: AutomaticRedrive
  /** State of the route. */
  readonly state: {
    freeAt: number | undefined
    empty: boolean
    budget: number
    /** Demand that the route was told of. */
    demand: number
    /** Empty pages that precede the last page of each list. */
    emptyPages: number
  }
  /** Redriven dead letters in order, with their instants. */
  readonly returned: { readonly at: number; readonly id: string }[]
  readonly queued: { size: number; critical: number }
  /** Counts of the pages and rows read. */
  readonly read: { pages: number; rows: number }
  bury(count: number, more?: Partial<Dead>): Promise<void>
  /** Dead letters on record. */
  dead(): number
  /** Counts the dead letters that return in each tick from now on, this instant included. */
  ticks(count: number): Promise<number[]>
}

async function setUp({
  ratePerSecond = 100,
  leaves = true,
  isDeadAtStart = true,
  isVersioned = false,
  holds = () => true,
}: Setup = {}): Promise<Scene> {
  const clock = createVirtualClock(0)
  const state = { freeAt: 0 as number | undefined, empty: false, budget: 0, demand: 0, emptyPages: 0 }
  const store = createMemoryStore()
  const ledger = await createLedger({
    store,
    clock,
    room: createMemoryRoom(),
    boundsFor: () => ({ queueMax: 100_000, waitingMax: 100_000, bytesMax: 1_000_000_000 }),
  })
  const returned: { readonly at: number; readonly id: string }[] = []
  const queued = { size: 0, critical: 0 }
  const read = { pages: 0, rows: 0 }
  let serial = 0
  const automaticRedrive = createAutomaticRedrive({
    clock,
    route: {
      channel: 'email',
      ratePerSecond,
      freeAt: (now: number) => state.freeAt && Math.max(now, state.freeAt),
      isEmpty: () => state.empty,
      mayRepeat: () => state.budget-- > 0,
      asked(_: number, count: number) {
        state.demand += count
      },
    } as unknown as Route,
    store: {
      isVersioned,
      async deadLetters(query) {
        read.pages += 1
        if (state.emptyPages > 0 && query.cursor === undefined) return { items: [], nextCursor: '!' }
        const { cursor, ...first } = query
        const page = await store.deadLetters(cursor === '!' ? first : query)
        read.rows += page.items.length
        return page
      },
    },
    ledger: {
      commit: (change) => ledger.commit(change),
      counts: () => ({ ...ledger.counts(), dead: isDeadAtStart ? 1 : 0 }),
    },
    scheduler: {
      place(notifications) {
        for (const { id, priority } of notifications) {
          returned.push({ at: clock.now(), id })
          if (leaves) continue
          queued.size += 1
          if (priority === 'critical') queued.critical += 1
        }
      },
    },
    queue: { size: () => queued.size, critical: () => queued.critical },
    members: { holds },
  })
  return {
    clock,
    automaticRedrive,
    state,
    returned,
    queued,
    read,
    async bury(count, { priority = 'normal', attempts = 0 } = {}) {
      const queued = Array.from({ length: count }, () => {
        serial += 1
        const id = `${priority}-${String(serial).padStart(5, '0')}`
        return someNotification({ id, priority, attempts })
      })
      const moves = queued.map((each) => advance(each, [{ at: 0, status: 'dead', reason: 'pool_blocked' }]))
      await ledger.commit({ accept: queued })
      await ledger.commit({ moves })
    },
    dead: () => ledger.counts().dead,
    async ticks(count) {
      const begun = clock.now()
      await clock.runUntil(begun + count * tickMs)
      return Array.from({ length: count }, (_, index) => {
        const from = begun + index * tickMs
        return returned.filter(({ at }) => at >= from && at < from + tickMs).length
      })
    },
  }
}

test('the store is not queried for dead letters until there is one', async () => {
  const { automaticRedrive, bury, ticks, read, returned } = await setUp({ isDeadAtStart: false })
  automaticRedrive.wake()
  await ticks(20)
  assert.equal(read.pages, 0)
  await bury(1)
  automaticRedrive.note('normal')
  automaticRedrive.wake()
  await ticks(20)
  assert.equal(returned.length, 1)
})

test('the redrive begins at a tenth of the rate and doubles each second, whatever the priorities', async () => {
  const { automaticRedrive, bury, ticks, returned, state, dead } = await setUp()
  for (const priority of priorities.toReversed()) await bury(30, { priority })
  automaticRedrive.wake()
  const counts = await ticks(40)
  assert.deepEqual(counts.slice(0, 10), Array(10).fill(1))
  assert.equal(counts[20], 4)
  const ranks = returned.map(({ id }) => priorities.indexOf(id.split('-')[0] as Priority))
  assert.equal(returned.length, 120)
  assert.deepEqual(ranks, ranks.toSorted(), 'most urgent first')
  assert.equal(dead(), 0, 'none is dead on record')
  assert.equal(state.demand, -120, 'a redriven notification is no new demand: the queue counts it again')
})

test('a process without the role redrives nothing, and begins at a tenth of the rate when it gets it', async () => {
  let holder = 'another'
  const { automaticRedrive, bury, ticks, dead, read } = await setUp({
    holds: (role) => role === 'redrive:email' && holder === 'this one',
  })
  await bury(30)
  automaticRedrive.wake()
  await ticks(35)
  assert.equal(dead(), 30)
  assert.equal(read.pages, 0, 'the store is not asked either')
  holder = 'this one'
  const counts = await ticks(10)
  assert.deepEqual(counts, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
})

test('queued notifications take room from the redrive, and freed room is used', async () => {
  const { automaticRedrive, bury, ticks, queued } = await setUp({ ratePerSecond: 1_000, leaves: false })
  await bury(100)
  automaticRedrive.wake()
  assert.deepEqual(await ticks(2), [10, 0])
  queued.size = 0
  const [, later] = await ticks(2)
  assert.ok(later! >= 10, `${later}`)
})

test('critical dead letters return while others wait, up to the critical ones in the queue', async () => {
  const { automaticRedrive, bury, ticks, queued, state, returned } = await setUp({
    ratePerSecond: 1_000,
    leaves: false,
  })
  await bury(20, { priority: 'critical' })
  await bury(20)
  queued.size = 500
  state.freeAt = 60 * second
  automaticRedrive.wake()
  await ticks(3)
  assert.deepEqual(returned.length, 10)
  assert.ok(returned.every(({ id }) => id.startsWith('critical')))
  queued.critical = 3
  await ticks(1)
  assert.equal(returned.length, 17)
  queued.critical = 0
  state.empty = true
  await ticks(3)
  assert.equal(returned.length, 17, 'no account can carry them')
})

test('one dead letter returns for a probe while all accounts are out', async () => {
  const { automaticRedrive, bury, ticks, state } = await setUp({ ratePerSecond: 10_000, leaves: false })
  await bury(100)
  state.empty = true
  automaticRedrive.wake()
  assert.deepEqual(await ticks(3), [1, 0, 0])
})

test('the redrive waits for a free account, and looks again at once when accounts change', async () => {
  const { clock, automaticRedrive, bury, ticks, state, returned } = await setUp()
  await bury(10)
  state.freeAt = 10 * second
  automaticRedrive.wake()
  await clock.runUntil(5 * second)
  assert.equal(returned.length, 0)
  state.freeAt = 0
  automaticRedrive.wake()
  await ticks(1)
  assert.equal(returned.length, 0, 'its timer stands')
  automaticRedrive.changed()
  assert.deepEqual(await ticks(1), [1])
  state.freeAt = clock.now() + 2 * second
  await clock.runUntil(clock.now() + 1_999)
  const before = returned.length
  await ticks(1)
  assert.ok(returned.length > before)
})

test('the redrive keeps its pace after a busy moment, and starts again after a busy second', async () => {
  const { clock, automaticRedrive, bury, ticks, state } = await setUp({ ratePerSecond: 1_000 })
  await bury(5_000)
  automaticRedrive.wake()
  await ticks(25)
  const [usual] = await ticks(1)
  assert.ok(usual! >= 50)
  const pause = async (ms: number): Promise<number | undefined> => {
    state.freeAt = undefined
    await clock.runUntil(clock.now() + ms)
    state.freeAt = 0
    automaticRedrive.wake()
    return (await ticks(1))[0]
  }
  assert.ok((await pause(900))! >= usual!)
  assert.equal(await pause(1_200), 10)
})

test('a new dead letter restarts the pace of the redrive', async () => {
  const { automaticRedrive, bury, ticks } = await setUp({ ratePerSecond: 1_000 })
  await bury(20)
  automaticRedrive.wake()
  assert.deepEqual(await ticks(4), [10, 10, 0, 0])
  await ticks(30)
  await bury(2_000)
  automaticRedrive.wake()
  assert.deepEqual(await ticks(1), [0], 'no dead letter was noted')
  automaticRedrive.note('normal')
  automaticRedrive.wake()
  assert.deepEqual(await ticks(2), [10, 10])
  await ticks(15)
  const grown = (await ticks(2))[1]!
  assert.ok(grown > 20, `${grown}`)
  automaticRedrive.note('normal')
  assert.equal((await ticks(2))[1], 10)
})

test('the store is not queried when no dead letters are left', async () => {
  const { automaticRedrive, bury, ticks, read } = await setUp()
  await bury(1)
  automaticRedrive.wake()
  await ticks(5)
  const { pages } = read
  automaticRedrive.wake()
  await ticks(50)
  assert.equal(read.pages, pages)
})

test('dead letters without retry budget are skipped page by page, and return when there is budget', async () => {
  const { automaticRedrive, bury, ticks, state, returned, read } = await setUp({ ratePerSecond: 1_000 })
  await bury(600, { attempts: 1 })
  await bury(25)
  automaticRedrive.wake()
  await ticks(12)
  assert.equal(returned.length, 25, 'what was never tried is not held up by them')
  assert.ok(returned.every(({ id }) => id > 'normal-00600'))
  assert.ok(read.pages < 60, `${read.pages} pages`)
  state.budget = 10_000
  await ticks(100)
  assert.equal(new Set(returned.map(({ id }) => id)).size, 625)
})

test('a redriven probe reads no page of others once its position is known', async () => {
  const { automaticRedrive, bury, ticks, state, returned, read } = await setUp()
  await bury(600, { attempts: 1 })
  await bury(400)
  state.empty = true
  automaticRedrive.wake()
  await ticks(20)
  const { rows } = read
  const before = returned.length
  await ticks(100)
  assert.equal(returned.length - before, 100)
  assert.ok(read.rows - rows <= 200, `${read.rows - rows} rows`)
})

test('no more return than the allowance, also when many are read at once', async () => {
  const { automaticRedrive, bury, ticks } = await setUp({ ratePerSecond: 1_000 })
  await bury(40, { attempts: 1 })
  await bury(400)
  automaticRedrive.wake()
  const counts = await ticks(10)
  assert.ok(Math.max(...counts) <= 20, `${counts}`)
})

for (const count of [1, 3]) {
  test(`${count} dead letters without retry budget are tried again later`, async () => {
    const { automaticRedrive, bury, ticks, state, returned } = await setUp()
    await bury(count, { attempts: 1 })
    automaticRedrive.wake()
    await ticks(5)
    assert.equal(returned.length, 0)
    state.budget = count
    await ticks(30)
    assert.equal(returned.length, count)
  })
}

test('the pace does not grow while the queue is longer than the allowance', async () => {
  const { automaticRedrive, bury, ticks, queued } = await setUp({ ratePerSecond: 1_000 })
  await bury(1_000)
  queued.size = 500
  automaticRedrive.wake()
  await ticks(40)
  queued.size = 0
  assert.equal((await ticks(2))[1], 10)
})

test('a stop waits for dead letters that are returning, and none returns after it', async () => {
  const { clock, automaticRedrive, bury, returned } = await setUp()
  await bury(10)
  automaticRedrive.wake()
  let stopped = false
  const stop = automaticRedrive.stop().then(() => {
    stopped = true
    return returned.length
  })
  assert.equal(stopped, false)
  await clock.settle()
  assert.equal(await stop, 1)
  const waiting = await setUp()
  waiting.state.freeAt = 60 * second
  waiting.state.empty = true
  waiting.automaticRedrive.wake()
  assert.equal(waiting.clock.next(), 60 * second)
  await waiting.automaticRedrive.stop()
  assert.equal(waiting.clock.next(), undefined, 'no timer keeps the process')
  automaticRedrive.wake()
  automaticRedrive.changed()
  await clock.runUntil(10 * second)
  assert.equal(returned.length, 1)
})

test('an early, empty page does not end the redrive: later pages are read, then the store is left alone', async () => {
  const { state, automaticRedrive, bury, returned, read, ticks } = await setUp()
  state.emptyPages = 1
  await bury(3)
  automaticRedrive.note('normal')
  automaticRedrive.wake()
  await ticks(20)
  assert.equal(returned.length, 3)
  const { pages } = read
  await ticks(20)
  assert.equal(read.pages, pages, 'nothing is looked for any more')
})

for (const holds of [true, false])
  test(`what another process has buried, this one redrives ${holds ? 'with' : 'not without'} the role`, async () => {
    const scene = await setUp({ isDeadAtStart: false, isVersioned: true, holds: () => holds })
    scene.automaticRedrive.wake()
    await scene.bury(3)
    await scene.clock.runUntil(35 * second)
    assert.equal(scene.returned.length, holds ? 3 : 0)
  })
