/** Results of sends over a real ledger, scheduler and queue: what is on record, what waits again, what is still held. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryRoom } from '../../src/adapters/state/memory-room.ts'
import { createCompleter } from '../../src/delivery/completer.ts'
import { InFlightCounter } from '../../src/delivery/in-flight-counter.ts'
import { SluiceError } from '../../src/errors.ts'
import { createLedger } from '../../src/ledger/ledger.ts'
import { advance, type Move, type Notification, type Status } from '../../src/model.ts'
import type { CommitResult } from '../../src/ports.ts'
import { createEmbeddedQueue } from '../../src/queue/embedded.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'
import { overriding } from '../overriding.ts'
import { createLoneScheduler, queued, start } from './stage.ts'

const tenant = 'acme'

/** @param refuses what the store answers to a commit of results, by their ids, in place of writing them */
async function setUp(
  refuses: (ids: readonly string[]) => CommitResult | Error | undefined = () => undefined,
) {
  const clock = createVirtualClock(start)
  const memory = createMemoryStore()
  /** Ids of each commit of results that was tried. */
  const tried: (readonly string[])[] = []
  const store = overriding(memory, {
    async commit(change) {
      const ids = (change.moves ?? []).map(({ after }) => after.id)
      if (ids.length === 0) return memory.commit(change)
      tried.push(ids)
      const answer = refuses(ids)
      if (answer instanceof Error) throw answer
      return answer ?? memory.commit(change)
    },
  })
  const errors: string[] = []
  const onError = (what: string, error: unknown) => void errors.push(`${what}: ${(error as Error).message}`)
  const boundsFor = () => ({ queueMax: 1e6, waitingMax: 1e6, bytesMax: 1e9 })
  const ledger = await createLedger({ store, room: createMemoryRoom(), clock, boundsFor })
  const queue = createEmbeddedQueue({ clock })
  const scheduler = createLoneScheduler({ store, ledger, queue, clock, onError })
  await scheduler.start({ resume: async () => {}, closeDigest: async () => {} })
  const inFlight = new InFlightCounter()
  /** Notifications that hold an instant of the limits. */
  const holding = new Set<string>()
  const completer = createCompleter({
    clock,
    inFlight,
    ledger,
    scheduler,
    async releaseHolds({ id }) {
      if (id === 'stuck') throw new Error('no')
      holding.delete(id)
    },
    onError,
  })
  const notifications = new Map<string, Notification>()
  /** How often the account of a send was given back, by id. */
  const givenBack = new Map<string, number>()

  /** Puts notifications on record that have been handed to a provider. */
  async function send(...ids: readonly string[]): Promise<void> {
    const accept = ids.map((id) => queued(id))
    await memory.commit({ accept })
    for (const notification of accept) {
      notifications.set(notification.id, notification)
      holding.add(notification.id)
      ledger.hold(notification)
      ledger.mark(notification, 'sending')
    }
  }

  function moveTo(id: string, status: Status): Move {
    const path: readonly Status[] = status === 'delivered' ? ['sending', status] : [status]
    return advance(
      notifications.get(id)!,
      path.map((each) => ({ at: start, status: each })),
    )
  }

  return {
    clock,
    completer,
    memory,
    ledger,
    queue,
    inFlight,
    holding,
    tried,
    errors,
    givenBack,
    send,
    moveTo,
    settle(id: string, status: Status = 'delivered'): void {
      const settled = (): void => void givenBack.set(id, (givenBack.get(id) ?? 0) + 1)
      completer.add(moveTo(id, status), { settled })
    },
    async statuses(...ids: readonly string[]): Promise<readonly (Status | undefined)[]> {
      const found = await Promise.all(ids.map((id) => memory.notification(tenant, id)))
      return found.map((each) => each?.status)
    },
  }
}

test('the results of one tick are committed together, in batches of at most 256', async () => {
  const { clock, tried, settle, send, statuses } = await setUp()
  const ids = Array.from({ length: 600 }, (_, index) => `n${index}`)
  await send(...ids)
  for (const id of ids) settle(id)
  await clock.settle()
  assert.deepEqual(
    tried.map(({ length }) => length),
    [256, 256, 88],
  )
  assert.deepEqual(new Set(await statuses(...ids)), new Set(['delivered']))
})

test('a delivered notification keeps what it counts, one that ended otherwise gives it back, a queued one goes first again', async () => {
  const { clock, queue, holding, givenBack, settle, send, statuses } = await setUp()
  await send('delivered', 'again', 'late')
  await queue.push([queued('waits')])
  settle('delivered')
  settle('again', 'queued')
  settle('late', 'expired')
  await clock.settle()
  assert.deepEqual(await statuses('delivered', 'again', 'late'), ['delivered', 'queued', 'expired'])
  assert.deepEqual([...holding], ['delivered', 'again'])
  assert.deepEqual(
    queue.pull('email', 10).map(({ id }) => id),
    ['again', 'waits'],
  )
  assert.deepEqual([...givenBack.values()], [1, 1, 1], 'each account is given back once')
})

test('a result that another writer was faster than is dropped, and the others are committed without it', async () => {
  const { clock, memory, ledger, givenBack, settle, send, moveTo, statuses } = await setUp()
  await send('a', 'b', 'c')
  await memory.commit({ moves: [moveTo('b', 'cancelled')] })
  for (const id of ['a', 'b', 'c']) settle(id)
  await clock.settle()
  assert.deepEqual(await statuses('a', 'b', 'c'), ['delivered', 'cancelled', 'delivered'])
  assert.deepEqual(Object.fromEntries(givenBack), { a: 1, b: 1, c: 1 })
  assert.equal(ledger.live('b'), undefined, 'it is not in memory any more')
})

test('a conflict without ids drops the batch instead of retrying for ever, and what is on record goes on', async () => {
  let isOdd = true
  const { clock, queue, tried, givenBack, settle, send } = await setUp(() =>
    isOdd ? { applied: false, conflicts: [] } : undefined,
  )
  await send('a')
  settle('a')
  await clock.settle()
  isOdd = false
  await clock.runUntil(start + 60_000)
  assert.deepEqual([tried.length, givenBack.get('a')], [1, 1])
  assert.deepEqual(
    queue.pull('email', 10).map(({ id }) => id),
    ['a'],
  )
})

test('an unavailable store is asked again every 200 ms until it has stored the result', async () => {
  let isAway = true
  const { clock, tried, givenBack, errors, settle, send, statuses } = await setUp(() =>
    isAway ? new SluiceError('STORE_UNAVAILABLE', 'away') : undefined,
  )
  await send('a')
  settle('a')
  await clock.runUntil(start + 599)
  assert.deepEqual([tried.length, errors], [3, Array(3).fill('settle: away')])
  assert.deepEqual([await statuses('a'), givenBack.size], [['queued'], 0])
  isAway = false
  await clock.runUntil(start + 600)
  assert.deepEqual([await statuses('a'), givenBack.get('a')], [['delivered'], 1])
})

test('a result that cannot be written is reported, and delays neither the others nor its account', async () => {
  const { clock, inFlight, givenBack, errors, settle, send, statuses } = await setUp((ids) =>
    ids.includes('b') ? new Error('unreadable') : undefined,
  )
  await send('a', 'b', 'c')
  for (const id of ['a', 'b', 'c']) settle(id)
  await clock.settle()
  assert.deepEqual(await statuses('a', 'b', 'c'), ['delivered', 'queued', 'delivered'])
  assert.deepEqual([...givenBack.keys()].toSorted(), ['a', 'b', 'c'])
  assert.deepEqual(new Set(errors), new Set(['settle: unreadable']))
  await inFlight.idle()
})

test('a result is in flight until what it held is released, also when that fails', async () => {
  const { clock, completer, errors, inFlight, send, moveTo, statuses } = await setUp()
  await send('stuck')
  let isIdle = false
  const written = completer.write(moveTo('stuck', 'expired'))
  void inFlight.idle().then(() => {
    isIdle = true
  })
  await Promise.resolve()
  assert.equal(isIdle, false)
  await clock.settle()
  await written
  assert.deepEqual([isIdle, errors, await statuses('stuck')], [true, ['give back: no'], ['expired']])
})
