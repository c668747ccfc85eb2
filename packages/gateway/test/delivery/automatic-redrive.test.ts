import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AutomaticRedrive, createAutomaticRedrive } from '../../src/delivery/automatic-redrive.ts'
import type { Route } from '../../src/delivery/pools/route.ts'
import { type Notification, type Priority, priorities, type Status, statuses } from '../../src/model.ts'
import { createVirtualClock, type VirtualClock } from '../../src/simulation/clock.ts'

const second = 1_000
const tickMs = 100

interface Dead {
  readonly id: string
  readonly priority: Priority
  readonly attempts: number
}

interface Setup {
  readonly ratePerSecond?: number
  /** Redriven notifications leave the queue at once. @defaultValue true */
  readonly leaves?: boolean
  /** Dead letters on record at start. @defaultValue 1 */
  readonly deadAtStart?: number
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
    applied: boolean
    /** Empty pages that precede the last page of each list. */
    emptyPages: number
  }
  /** Redriven dead letters in order, with their instants. */
  readonly returned: { readonly at: number; readonly id: string }[]
  readonly queued: { size: number; critical: number }
  readonly asked: number[]
  /** Counts of the pages and rows read. */
  readonly read: { pages: number; rows: number }
  bury(count: number, more?: Partial<Dead>): void
  /** Counts the dead letters that return in each tick from now on, this instant included. */
  ticks(count: number): Promise<number[]>
}

function setUp({
  ratePerSecond = 100,
  leaves = true,
  deadAtStart = 1,
  holds = () => true,
}: Setup = {}): Scene {
  const clock = createVirtualClock(0)
  const state = { freeAt: 0 as number | undefined, empty: false, budget: 0, applied: true, emptyPages: 0 }
  const graves: Dead[] = []
  const returned: { readonly at: number; readonly id: string }[] = []
  const queued = { size: 0, critical: 0 }
  const asked: number[] = []
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
      asked: (_: number, count: number) => asked.push(count),
    } as unknown as Route,
    store: {
      async deadLetters({ priority, limit, cursor = '' }) {
        const of = graves.filter((dead) => dead.priority === priority && dead.id > cursor)
        if (state.emptyPages > 0 && cursor === '') {
          read.pages += 1
          return { items: [], nextCursor: '!' }
        }
        const items = of.slice(0, limit).map(notificationOf)
        read.pages += 1
        read.rows += items.length
        return { items, nextCursor: of.length > limit ? items.at(-1)!.id : null }
      },
    },
    ledger: {
      counts: () => ({ ...noCounts, dead: deadAtStart }),
      async commit({ moves = [] }) {
        if (!state.applied) return { applied: false, conflicts: [] }
        for (const { after } of moves)
          graves.splice(
            graves.findIndex(({ id }) => id === after.id),
            1,
          )
        return { applied: true }
      },
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
    asked,
    read,
    bury(count, { priority = 'normal', attempts = 0 } = {}) {
      for (let index = 0; index < count; index += 1) {
        serial += 1
        graves.push({ id: `${priority}-${String(serial).padStart(5, '0')}`, priority, attempts })
      }
    },
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

function notificationOf({ id, priority, attempts }: Dead): Notification {
  return { id, priority, attempts, status: 'dead', channel: 'email', timeline: [] } as unknown as Notification
}

const noCounts = Object.fromEntries(statuses.map((status) => [status, 0])) as Record<Status, number>

test('the store is not queried for dead letters until there is one', async () => {
  const { automaticRedrive, bury, ticks, read, returned } = setUp({ deadAtStart: 0 })
  automaticRedrive.wake()
  await ticks(20)
  assert.equal(read.pages, 0)
  bury(1)
  automaticRedrive.note('normal')
  automaticRedrive.wake()
  await ticks(20)
  assert.equal(returned.length, 1)
})

test('the redrive begins at a tenth of the rate and doubles each second, whatever the priorities', async () => {
  const { automaticRedrive, bury, ticks, returned, asked } = setUp()
  for (const priority of priorities.toReversed()) bury(30, { priority })
  automaticRedrive.wake()
  const counts = await ticks(40)
  assert.deepEqual(counts.slice(0, 10), Array(10).fill(1))
  assert.equal(counts[20], 4)
  const ranks = returned.map(({ id }) => priorities.indexOf(id.split('-')[0] as Priority))
  assert.equal(returned.length, 120)
  assert.deepEqual(ranks, ranks.toSorted(), 'most urgent first')
  assert.deepEqual(asked, Array(120).fill(-1), 'a redriven notification is no new demand')
})

test('a process without the role redrives nothing, and begins at a tenth of the rate when it gets it', async () => {
  const roles: string[] = []
  let isHolder = false
  const { automaticRedrive, bury, ticks, read } = setUp({
    holds(role) {
      roles.push(role)
      return isHolder
    },
  })
  bury(30)
  automaticRedrive.wake()
  await ticks(35)
  assert.equal(read.pages, 0)
  assert.deepEqual(new Set(roles), new Set(['redrive:email']))
  assert.equal(roles.length, 4, 'it looks again every second')
  isHolder = true
  const counts = await ticks(10)
  assert.deepEqual(counts, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
})

test('queued notifications take room from the redrive, and freed room is used', async () => {
  const { automaticRedrive, bury, ticks, queued } = setUp({ ratePerSecond: 1_000, leaves: false })
  bury(100)
  automaticRedrive.wake()
  assert.deepEqual(await ticks(2), [10, 0])
  queued.size = 0
  const [, later] = await ticks(2)
  assert.ok(later! >= 10, `${later}`)
})

test('critical dead letters return while others wait, up to the critical ones in the queue', async () => {
  const { automaticRedrive, bury, ticks, queued, state, returned } = setUp({
    ratePerSecond: 1_000,
    leaves: false,
  })
  bury(20, { priority: 'critical' })
  bury(20)
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
  const { automaticRedrive, bury, ticks, state } = setUp({ ratePerSecond: 10_000, leaves: false })
  bury(100)
  state.empty = true
  automaticRedrive.wake()
  assert.deepEqual(await ticks(3), [1, 0, 0])
})

test('the redrive waits for a free account, and looks again at once when accounts change', async () => {
  const { clock, automaticRedrive, bury, ticks, state, returned } = setUp()
  bury(10)
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
  const { clock, automaticRedrive, bury, ticks, state } = setUp({ ratePerSecond: 1_000 })
  bury(5_000)
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
  const { automaticRedrive, bury, ticks } = setUp({ ratePerSecond: 1_000 })
  bury(20)
  automaticRedrive.wake()
  assert.deepEqual(await ticks(4), [10, 10, 0, 0])
  await ticks(30)
  bury(2_000)
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
  const { automaticRedrive, bury, ticks, read } = setUp()
  bury(1)
  automaticRedrive.wake()
  await ticks(5)
  const { pages } = read
  automaticRedrive.wake()
  await ticks(50)
  assert.equal(read.pages, pages)
})

test('dead letters without retry budget are skipped page by page, and return when there is budget', async () => {
  const { automaticRedrive, bury, ticks, state, returned, read } = setUp({ ratePerSecond: 1_000 })
  bury(600, { attempts: 1 })
  bury(25)
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
  const { automaticRedrive, bury, ticks, state, returned, read } = setUp()
  bury(600, { attempts: 1 })
  bury(400)
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
  const { automaticRedrive, bury, ticks } = setUp({ ratePerSecond: 1_000 })
  bury(40, { attempts: 1 })
  bury(400)
  automaticRedrive.wake()
  const counts = await ticks(10)
  assert.ok(Math.max(...counts) <= 20, `${counts}`)
})

for (const count of [1, 3]) {
  test(`${count} dead letters without retry budget are tried again later`, async () => {
    const { automaticRedrive, bury, ticks, state, returned } = setUp()
    bury(count, { attempts: 1 })
    automaticRedrive.wake()
    await ticks(5)
    assert.equal(returned.length, 0)
    state.budget = count
    await ticks(30)
    assert.equal(returned.length, count)
  })
}

test('the pace does not grow while the queue is longer than the allowance', async () => {
  const { automaticRedrive, bury, ticks, queued } = setUp({ ratePerSecond: 1_000 })
  bury(1_000)
  queued.size = 500
  automaticRedrive.wake()
  await ticks(40)
  queued.size = 0
  assert.equal((await ticks(2))[1], 10)
})

test('a stop waits for dead letters that are returning, and none returns after it', async () => {
  const { clock, automaticRedrive, bury, returned } = setUp()
  bury(10)
  automaticRedrive.wake()
  let stopped = false
  const stop = automaticRedrive.stop().then(() => {
    stopped = true
    return returned.length
  })
  assert.equal(stopped, false)
  await clock.settle()
  assert.equal(await stop, 1)
  const waiting = setUp()
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
  const { state, automaticRedrive, bury, returned, read, ticks } = setUp()
  state.emptyPages = 1
  bury(3)
  automaticRedrive.note('normal')
  automaticRedrive.wake()
  await ticks(20)
  assert.equal(returned.length, 3)
  const { pages } = read
  await ticks(20)
  assert.equal(read.pages, pages, 'nothing is looked for any more')
})
