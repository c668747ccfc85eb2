import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryRoom } from '../../src/adapters/state/memory-room.ts'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { SluiceError } from '../../src/errors.ts'
import { createLedger } from '../../src/ledger/ledger.ts'
import { awayDetail, type Notification } from '../../src/model.ts'
import type { Change, Clock } from '../../src/ports.ts'
import { createReconnect } from '../../src/scheduler/reconnect.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'

const now = 5_000
const clock: Clock = { now: () => now, monotonic: () => now, at: () => () => {}, soon: setImmediate }

/** A recipient for whom one notification waits; `see` is called before the recipient connects. */
async function arrive(
  see: (ledger: Awaited<ReturnType<typeof createLedger>>, it: Notification) => void,
  refuses = false,
) {
  const store = createMemoryStore()
  let refused = 0
  const commit = store.commit.bind(store)
  store.commit = (change: Change) => {
    if (!refuses || change.moves === undefined) return commit(change)
    refused += 1
    return Promise.reject(new SluiceError('STORE_UNAVAILABLE', 'away'))
  }
  const ledger = await createLedger({
    store,
    clock,
    room: createMemoryRoom(),
    boundsFor: () => ({ queueMax: 10, waitingMax: 10, bytesMax: 1_000_000 }),
  })
  const waiting = someNotification({
    to: { id: 'ada' },
    channel: 'websocket',
    status: 'scheduled',
    dueAt: 6_000,
    timeline: [
      { at: 4_000, status: 'accepted' },
      { at: 4_000, status: 'scheduled', reason: 'retry', detail: awayDetail },
    ],
  })
  await ledger.commit({ accept: [waiting] })
  see(ledger, waiting)
  const placed: Notification[] = []
  const onError = (_what: string, error: unknown) => assert.ok(refused > 0, String(error))
  const scheduler = {
    place: (some: readonly Notification[]) => placed.push(...some),
    recover: async () => assert.fail('nothing was refused'),
  }
  createReconnect({ store, ledger, scheduler, clock, onError })(waiting.tenant, 'ada')
  await new Promise((resolve) => setImmediate(resolve))
  return { ledger, waiting, placed }
}

test('a notification for an offline recipient is due when the recipient connects', async () => {
  const { placed } = await arrive(() => {})
  assert.deepEqual(
    placed.map(({ dueAt, timeline }) => [dueAt, timeline.at(-1)!.detail]),
    [[now, 'connected']],
  )
})

test('a notification held in memory because it expires soon is due when the recipient connects', async () => {
  const { ledger, waiting, placed } = await arrive((ledger, it) => ledger.hold(it))
  assert.deepEqual(
    placed.map(({ dueAt }) => dueAt),
    [now],
  )
  assert.equal(ledger.isCurrent(waiting), false, 'nothing comes of its end')
})

test('a notification already on its way is not changed when the recipient connects', async () => {
  const { placed } = await arrive((ledger, it) => {
    ledger.hold(it)
    ledger.mark(it, 'queued')
  })
  assert.deepEqual(placed, [])
})

test('a notification whose release the store refuses is placed as a copy: the scheduler still has the one from before', async () => {
  const { placed, waiting } = await arrive((ledger, it) => ledger.hold(it), true)
  assert.deepEqual(
    placed.map(({ id, dueAt }) => [id, dueAt]),
    [[waiting.id, waiting.dueAt]],
  )
  assert.notEqual(placed[0], waiting)
})

test('a notification that is put back while its recipient is searched for is due, too', async () => {
  const store = createMemoryStore()
  const ledger = await createLedger({
    store,
    clock,
    room: createMemoryRoom(),
    boundsFor: () => ({ queueMax: 10, waitingMax: 10, bytesMax: 1_000_000 }),
  })
  const placed: Notification[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  const reconnect = createReconnect({
    store: {
      async waiting(...asked) {
        const page = await store.waiting(...asked)
        await promise
        return page
      },
    },
    ledger,
    scheduler: {
      place: (some: readonly Notification[]) => void placed.push(...some),
      recover: async () => assert.fail('nothing was refused'),
    },
    clock,
    onError: (_, error) => assert.fail(String(error)),
  })
  const first = reconnect('acme', 'ada')
  await new Promise((resolve) => setImmediate(resolve))
  const timeline = [
    { at: 4_000, status: 'accepted' },
    { at: 4_000, status: 'scheduled', reason: 'retry', detail: awayDetail },
  ] as const
  const to = { id: 'ada' }
  await ledger.commit({
    accept: [
      someNotification({
        tenant: 'acme',
        to,
        channel: 'websocket',
        status: 'scheduled',
        dueAt: 6_000,
        timeline,
      }),
    ],
  })
  const second = reconnect('acme', 'ada')
  resolve()
  await Promise.all([first, second])
  assert.deepEqual(
    placed.map(({ dueAt }) => dueAt),
    [now],
  )
})
