/** The provider over the gateway's own hub: sockets that take what they are given, that are gone, that do not read. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { someMessage } from '../../../src/conformance/provider.ts'
import { createWebSocketHub } from '../../../src/http/websocket/hub.ts'
import { createSandbox } from '../../../src/providers/sandbox/adapter.ts'
import { createWebSocketProvider, heardByTheConnected } from '../../../src/providers/websocket/adapter.ts'

const clock = createSystemClock()
const account = { id: 'websocket', options: {} }

function createTrial() {
  const hub = createWebSocketHub({ clock, windowsOf: () => [], marginMs: 0, waitingMax: 10 })
  const heard: Buffer[] = []
  const join = (taken: boolean | undefined, tenant = 'acme'): void =>
    hub.subscribe(tenant, 'recipient:user-1', {
      send(frame, written) {
        heard.push(frame)
        if (taken !== undefined) queueMicrotask(() => written?.(taken))
      },
    })
  return { hub, heard, join, provider: createWebSocketProvider({ presence: hub }) }
}

const never = new AbortController().signal

test('a notification that one socket took is delivered', async () => {
  const { heard, join, provider } = createTrial()
  for (const taken of [false, true, undefined]) join(taken)
  assert.equal((await provider.send(someMessage('websocket'), account, never)).outcome, 'delivered')
  assert.equal(heard.length, 3)
  assert.ok(
    heard.every((frame) => frame === heard[0]),
    'it is framed once',
  )
})

test('a recipient of this tenant without a connection is a failure, as not delivered', async () => {
  const { heard, join, provider } = createTrial()
  join(true, 'globex')
  const failed = { outcome: 'failed', detail: 'not connected', recipientFault: true }
  assert.deepEqual(await provider.send(someMessage('websocket'), account, never), failed)
  assert.equal(heard.length, 0)
  join(false)
  assert.deepEqual(await provider.send(someMessage('websocket'), account, never), failed)
})

test('a socket that does not read in time is an unknown outcome', async () => {
  const { join, provider } = createTrial()
  join(undefined)
  const result = await provider.send(someMessage('websocket'), account, AbortSignal.timeout(30))
  assert.deepEqual(result, {
    outcome: 'failed',
    detail: 'connected, and not reading',
    maybeDelivered: true,
    recipientFault: true,
  })
  const late = await provider.send(someMessage('websocket'), account, AbortSignal.abort())
  assert.deepEqual(late, { outcome: 'failed', detail: 'no time left' })
})

test('a sandbox delivery is published to connected clients, and a refusal is not', async () => {
  const { hub, heard, join } = createTrial()
  join(true)
  const sandbox = createSandbox({ clock })
  const provider = heardByTheConnected(sandbox, hub)
  assert.equal((await provider.send(someMessage('websocket'), account, never)).outcome, 'delivered')
  assert.equal(heard.length, 1)
  sandbox.behave({ odds: { fail: 1 } })
  assert.equal((await provider.send(someMessage('websocket'), account, never)).outcome, 'failed')
  assert.equal(heard.length, 1)
})
