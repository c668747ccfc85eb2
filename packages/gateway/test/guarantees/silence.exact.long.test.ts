/**
 * A whole gateway in real time, and APNs as it is under load: it takes longer, and says nothing. Calls at once and
 * HTTP/2 connections, as the other side counts them, fall within ten seconds, and come back when it has recovered.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as after } from 'node:timers/promises'
import { stringify } from 'yaml'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'
import type { Draft } from '../../src/model.ts'
import { createApnsProvider } from '../../src/providers/apns/adapter.ts'
import { createSandbox } from '../../src/providers/sandbox/adapter.ts'
import { apnsExample } from '../../src/sandbox/example-keys.ts'
import { createSandboxServer } from '../../src/sandbox/server.ts'
import { temporaryFolder } from '../config/folder.ts'

/** The streams of one connection here, few so that there are several connections. */
const streamsMax = 5
const concurrencyMax = 50
const latencyMs = 60

test('calls and connections to a provider that slows down in silence become fewer, and more again', async (t) => {
  const server = await createSandboxServer({ behaviour: { latency: latencyMs } })
  const { keyId, teamId, privateKey } = apnsExample
  const cwd = temporaryFolder(t, {
    'apns.p8': privateKey,
    'policy.yaml': stringify({ version: 1 }),
    'sluice.yaml': stringify({
      store: 'sqlite::memory:',
      policy: './policy.yaml',
      log: { level: 'silent' },
      tenants: { default: { rate: 'unlimited', modules: 'unlimited' } },
      pools: {
        push: {
          provider: 'apns',
          shedding: false,
          accounts: [
            {
              id: 'shop',
              url: server.url,
              keyId,
              teamId,
              topic: 'com.example.shop',
              secretFile: './apns.p8',
              rate: 'unlimited',
              concurrency: concurrencyMax,
            },
          ],
        },
        websocket: { provider: 'sandbox' },
      },
    }),
  })
  const clock = createSystemClock()
  const gateway = await createGateway(loadConfig({ cwd, env: {} }), {
    clock,
    providers: [createApnsProvider({ clock, connections: { streamsMax } }), createSandbox({ clock })],
  })
  await gateway.startStages()
  t.after(async () => {
    await gateway.stop()
    await server.close()
  })

  let posted = 0
  /** So many a second, for so long. */
  async function flow(perSecond: number, seconds: number): Promise<void> {
    const until = performance.now() + seconds * 1_000
    while (performance.now() < until) {
      const drafts = Array.from({ length: perSecond / 5 }, (): Draft => {
        posted += 1
        const to = { id: `user-${posted}`, pushToken: posted.toString(16).padStart(64, '0') }
        const content = { text: `Message ${posted}` }
        return { to, channel: 'push', category: 'product', priority: 'normal', content }
      })
      await gateway.gate.admit({ caller: { tenant: 'default', module: 'default' }, drafts })
      await after(200)
    }
  }
  const concurrency = (): number =>
    gateway.pools().find(({ channel }) => channel === 'push')!.accounts[0]!.concurrency
  const seen = () => ({ calls: concurrency(), connections: server.connections() })
  async function until(
    what: string,
    holds: () => boolean,
    seconds: number,
    perSecond: number,
  ): Promise<number> {
    const began = performance.now()
    while (!holds()) {
      assert.ok(performance.now() - began < seconds * 1_000, `${what}: ${JSON.stringify(seen())}`)
      await flow(perSecond, 0.2)
    }
    return (performance.now() - began) / 1_000
  }

  await flow(150, 5)
  const before = seen()
  assert.equal(before.calls, concurrencyMax)
  assert.ok(before.connections >= 3, JSON.stringify(before))

  const slow = { latency: latencyMs, slowDown: { above: { max: 20, windowMs: 1_000 }, factor: 15 } }
  server.behave(slow, keyId)
  const fellS = await until(
    'they fall',
    () => concurrency() <= concurrencyMax / 3 && server.connections() <= 4,
    10,
    150,
  )
  const low = seen()

  server.behave({ latency: latencyMs }, keyId)
  const cameBackS = await until(
    'they come back',
    () => concurrency() >= low.calls * 2 && server.connections() > low.connections,
    20,
    150,
  )
  t.diagnostic(
    `${JSON.stringify(before)} → ${JSON.stringify(low)} after ${fellS.toFixed(1)} s → ${JSON.stringify(seen())} after ${cameBackS.toFixed(1)} s more`,
  )
  for (let tries = 0; server.counters().arrived < posted && tries < 600; tries += 1) await after(50)
  assert.equal(server.counters().arrived, posted, 'nothing is lost, nothing comes twice')
})
