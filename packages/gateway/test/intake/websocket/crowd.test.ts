/** A tenant with many connections that publishes as much as it may, and another one beside it, small enough for a test. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { said, startSockets } from './client.ts'

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index)

test('200 connections that all hear 200 messages hold nobody else up, and the 201st is closed with 4429', async () => {
  const sockets = await startSockets({ connections: 200 })
  const crowd = await Promise.all(range(200).map(() => sockets.open({ tenant: 'noisy' })))
  await Promise.all(crowd.map((client) => client.subscribe('all')))
  const quiet = await sockets.open({ tenant: 'quiet' })
  await quiet.subscribe('mine')
  const above = await sockets.open({ tenant: 'noisy' })
  assert.equal((await above.closed).code, 4429)

  const slowest: number[] = []
  for (const n of range(200)) {
    crowd[n]!.say({ type: 'publish', channel: 'all', data: n })
    if (n % 10 !== 0) continue
    const asked = performance.now()
    assert.deepEqual(said(await quiet.ask({ type: 'publish', channel: 'mine', data: n })), {
      type: 'message',
      channel: 'mine',
      data: n,
    })
    slowest.push(performance.now() - asked)
  }
  for (const client of crowd) for (const _ of range(200)) assert.equal((await client.next()).type, 'message')
  // What bounds it is in bench/websocket.ts; here only that it does not stand behind 40,000 frames.
  assert.ok(Math.max(...slowest) < 2_000)
  assert.equal(sockets.hub.report().passedOn, 200 * 200 + 20)
})
