/** A recipient who connects while the record does not answer is looked for again. In virtual time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryRoom } from '../../src/adapters/state/memory-room.ts'
import { someNotification } from '../../src/conformance/store/sample.ts'
import { SluiceError } from '../../src/errors.ts'
import { createWebSocketHub } from '../../src/http/websocket/hub.ts'
import { createLedger } from '../../src/ledger/ledger.ts'
import { awayDetail, type Notification } from '../../src/model.ts'
import type { Store } from '../../src/ports.ts'
import { startOfflineRecheck } from '../../src/scheduler/offline-recheck.ts'
import { createReconnect } from '../../src/scheduler/reconnect.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'

const start = 5_000
const minute = 60_000

test('what waits for a recipient who connected while the record did not answer is due as soon as it does', async () => {
  const clock = createVirtualClock(start)
  const store = createMemoryStore()
  const boundsFor = () => ({ queueMax: 10, waitingMax: 10, bytesMax: 1_000_000 })
  const ledger = await createLedger({ store, clock, room: createMemoryRoom(), boundsFor })
  const hub = createWebSocketHub({ clock, windowsOf: () => [], marginMs: 0, waitingMax: 10 })
  let asked = 0
  const waiting: Store['waiting'] = (...of) => {
    asked += 1
    if (clock.now() >= start + minute) return store.waiting(...of)
    throw new SluiceError('STORE_UNAVAILABLE', 'It is away.', { retryAfterMs: 1_000 })
  }
  const placed: Notification[] = []
  const scheduler = {
    place: (some: readonly Notification[]) => void placed.push(...some),
    recover: async () => assert.fail('nothing was refused'),
  }
  const reconnect = createReconnect({ store: { waiting }, ledger, scheduler, clock, onError: () => {} })
  const stop = startOfflineRecheck({
    ledger,
    look: async (names) => ({ connected: hub.areConnected(names), isWhole: true }),
    here: hub.recipients,
    onConnect: hub.onConnect,
    members: { onDeath: () => () => {} },
    reconnect,
    clock,
  })
  await ledger.commit({
    accept: ['ada', 'eve'].map((id) =>
      someNotification({
        id: `for-${id}`,
        to: { id },
        channel: 'websocket',
        status: 'scheduled',
        dueAt: start + 60 * minute,
        timeline: [
          { at: start, status: 'accepted' },
          { at: start, status: 'scheduled', reason: 'retry', detail: awayDetail },
        ],
      }),
    ),
  })
  await clock.runUntil(start + 1_000)
  const socket = { send: () => {} }
  for (const id of ['ada', 'eve']) hub.subscribe('acme', `recipient:${id}`, socket)
  await clock.runUntil(start + 2_000)
  hub.room('acme').unsubscribe('recipient:eve', socket)
  await clock.runUntil(start + 2 * minute)
  assert.deepEqual(
    placed.map(({ id }) => id),
    ['for-ada'],
  )
  assert.ok(asked < 20, `the record is asked ${asked} times`)
  stop()
})
