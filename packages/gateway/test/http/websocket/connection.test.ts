/** One connection on a socket that reports its unread bytes, in virtual time. */
import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { PassThrough } from 'node:stream'
import { test } from 'node:test'
import type { WebSocket } from 'ws'
import { Budget } from '../../../src/http/websocket/budget.ts'
import { Connection } from '../../../src/http/websocket/connection.ts'
import { Deadlines } from '../../../src/http/websocket/deadlines.ts'
import { Flusher } from '../../../src/http/websocket/flusher.ts'
import { textFrame } from '../../../src/http/websocket/frame.ts'
import { createWebSocketHub } from '../../../src/http/websocket/hub.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

const unreadMaxBytes = 1_000

function createTrial() {
  const clock = createVirtualClock(0)
  const closed: number[] = []
  const socket = Object.assign(new EventEmitter(), {
    readyState: 1,
    bufferedAmount: 0,
    close: (code: number) => void closed.push(code),
    resume: () => {},
    ping: () => {},
  })
  const connection = new Connection({
    socket: socket as unknown as WebSocket,
    stream: new PassThrough(),
    identity: { tenant: 'acme', module: 'shop', scopes: new Set() },
    anyRecipient: false,
    hub: createWebSocketHub({ clock, windowsOf: () => [], marginMs: 0, waitingMax: 10 }),
    flusher: new Flusher(clock),
    deadlines: new Deadlines(clock),
    clock,
    budgets: [new Budget(1_000)],
    subscriptionsMax: 50,
    unreadMaxBytes,
    heartbeatMs: 60_000,
    onError: (error) => assert.fail(error as Error),
  })
  return { clock, closed, socket, connection }
}

const frame = textFrame('hello')

test('a client above the bound of unread bytes is closed with 4408 after a second', async () => {
  const { clock, closed, socket, connection } = createTrial()
  socket.bufferedAmount = unreadMaxBytes + 1
  connection.send(frame)
  await clock.runUntil(999)
  assert.deepEqual(closed, [])
  await clock.runUntil(1_000)
  assert.deepEqual(closed, [4408])
  let taken: boolean | undefined
  connection.send(frame, (was) => {
    taken = was
  })
  assert.equal(taken, false)
})

test('a client that catches up within that second stays connected', async () => {
  const { clock, closed, socket, connection } = createTrial()
  socket.bufferedAmount = unreadMaxBytes + 1
  connection.send(frame)
  await clock.runUntil(500)
  socket.bufferedAmount = unreadMaxBytes
  await clock.runUntil(5_000)
  assert.deepEqual(closed, [])
})

test('sixteen times the bound closes the connection at once', async () => {
  const { clock, closed, socket, connection } = createTrial()
  socket.bufferedAmount = 16 * unreadMaxBytes + 1
  connection.send(frame)
  await clock.settle()
  assert.deepEqual(closed, [4408])

  const other = createTrial()
  let refused = 0
  for (let n = 0; n < 3_000; n += 1) other.connection.send(frame, (taken) => (refused += taken ? 0 : 1))
  assert.deepEqual(other.closed, [4408])
  assert.equal(refused, 3_000)
})
