/** A provider that slows down without a word, over HTTP/2: what the caller measures, and what becomes of connections. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { someMessage } from '../../src/conformance/provider.ts'
import { createApnsProvider } from '../../src/providers/apns/adapter.ts'
import { apnsExample } from '../../src/sandbox/example-keys.ts'
import { createSandboxServer } from '../../src/sandbox/server.ts'

it('a silent slow-down is measured, and connections shrink with the concurrency and grow again', async (t) => {
  const usualMs = 10
  const server = await createSandboxServer({
    behaviour: { latency: usualMs, slowDown: { above: { max: 30, windowMs: 1_000 }, factor: 20 } },
  })
  const provider = createApnsProvider({
    clock: { now: () => Date.now() },
    connections: { streamsMax: 10 },
  })
  t.after(async () => {
    await provider.close()
    await server.close()
  })
  const { keyId, teamId, privateKey } = apnsExample
  const options = { keyId, teamId, topic: 'com.example.shop' }
  const account = { id: 'a1', url: server.url, secret: privateKey, options }
  const to = { id: 'ada', pushToken: '0'.repeat(64) }

  async function send(): Promise<number> {
    const began = performance.now()
    const result = await provider.send(someMessage('push', { to }), account, AbortSignal.timeout(5_000))
    assert.equal(result.outcome, 'delivered')
    return performance.now() - began
  }
  const crowd = (size: number): Promise<number[]> => Promise.all(Array.from({ length: size }, send))
  const median = (of: number[]): number => of.sort((a, b) => a - b)[of.length >> 1]!

  provider.resize?.(account, 40)
  await crowd(1)
  const usual = median(await crowd(25))
  const slow = median((await crowd(40)).slice(-30))
  // How much more the usual is than 10 ms is the machine's; that the other is 200 ms more is the sandbox's.
  assert.ok(usual >= usualMs && usual < slow, `${usual} ms`)
  assert.ok(slow >= 200, `${slow} ms`)
  assert.equal(server.connections(), 4)
  t.diagnostic(`${usual.toFixed(0)} ms, slowed down ${slow.toFixed(0)} ms`)

  provider.resize?.(account, 10)
  for (let tries = 0; server.connections() > 1 && tries < 1_000; tries += 1)
    await new Promise((resolve) => setTimeout(resolve, 5))
  assert.equal(server.connections(), 1)
  provider.resize?.(account, 40)
  await crowd(40)
  assert.equal(server.connections(), 4)
})
