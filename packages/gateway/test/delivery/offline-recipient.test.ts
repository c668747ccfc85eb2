import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Absent, away } from '../../src/delivery/offline-recipient.ts'
import { awaitsConnection, type Notification } from '../../src/model.ts'
import { queuedAt } from '../queued.ts'

const queued = queuedAt(0, 'n1', { channel: 'websocket' })
const wait: Absent = { kind: 'wait', forMs: 1_000 }
const move = (patch: Partial<Notification>, absent: Absent, now: number): Notification =>
  away({ notification: { ...queued, ...patch }, events: [], absent, now }).after

test('a notification waits from the first moment at which its recipient was offline, then expires', () => {
  const first = move({}, wait, 100)
  assert.deepEqual([first.status, first.dueAt], ['scheduled', 1_100])
  assert.equal(awaitsConnection(first), true)
  const again = { ...first, status: 'queued' as const }
  assert.deepEqual([move(again, wait, 600).status, move(again, wait, 600).dueAt], ['scheduled', 1_100])
  assert.equal(move(again, wait, 1_100).status, 'expired')
})

test('a notification for an offline recipient expires at its own expiresAt if that is earlier', () => {
  assert.equal(move({ expiresAt: 500 }, wait, 100).dueAt, 500)
})

test('a fallback channel is admitted anew once, and a second fallback waits', () => {
  const absent: Absent = { kind: 'fallback', channel: 'push', forMs: 1_000 }
  const { status, channel, requestedChannel, undecided, dueAt } = move({}, absent, 100)
  assert.deepEqual(
    [status, channel, requestedChannel, undecided, dueAt],
    ['scheduled', 'push', 'websocket', true, 100],
  )
  const second = move({ requestedChannel: 'push' }, absent, 100)
  assert.deepEqual([second.status, second.channel, second.dueAt], ['scheduled', 'websocket', 1_100])
})

test('events in memory are written with the move', () => {
  const events = [{ at: 50, status: 'queued' as const }]
  const { timeline } = away({ notification: queued, events, absent: wait, now: 100 }).after
  assert.deepEqual(
    timeline.slice(2).map(({ at, status }) => [at, status]),
    [
      [50, 'queued'],
      [100, 'scheduled'],
    ],
  )
})

test('a notification that must not wait is suppressed as without an address', () => {
  const { status, timeline } = move({}, { kind: 'drop', forMs: 1_000 }, 100)
  assert.deepEqual(
    [status, timeline.at(-1)!.reason, timeline.at(-1)!.detail],
    ['suppressed', 'invalid_address', 'not connected'],
  )
})
