import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createConfigurationDifferences } from '../../src/observability/configuration-differences.ts'
import type { Peers } from '../../src/ports/fleet.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const minute = 60_000

/** Gateways that hear each other at once. */
function createFleet() {
  const clock = createVirtualClock(1_000_000)
  const listeners = new Map<string, (message: unknown, from: string) => void>()
  const lines: unknown[] = []
  function join(name: string, configured: { policy: string; settings: string }) {
    const peers: Pick<Peers, 'tell' | 'listen'> = {
      tell(_topic, message) {
        for (const [other, hear] of listeners) if (other !== name) hear(structuredClone(message), name)
      },
      listen(_topic, hear) {
        listeners.set(name, hear as (message: unknown, from: string) => void)
        return () => listeners.delete(name)
      },
    }
    const log = { warn: (line: object) => void lines.push({ at: name, ...line }) }
    return createConfigurationDifferences({ peers, clock, log, own: () => ({ ...configured }), name })
  }
  return { join, lines, runFor: (ms: number) => clock.runUntil(clock.now() + ms) }
}

test('a gateway that has another policy for longer than a rollout takes is named, and logged once', async () => {
  const { join, lines, runFor } = createFleet()
  const [a, b] = [
    { policy: '1', settings: 's' },
    { policy: '1', settings: 's' },
  ]
  const [one, two] = [join('web-1:7', a), join('web-2:9', b)]
  await runFor(10 * minute)
  assert.deepEqual([one.report(), two.report()], [[], []])
  b.policy = '2'
  await runFor(4 * minute)
  assert.deepEqual(one.report(), [], 'a rollout takes minutes')
  await runFor(2 * minute)
  assert.deepEqual(one.report(), ['gateway web-2:9 has another policy'])
  assert.deepEqual(two.report(), ['gateway web-1:7 has another policy'])
  await runFor(30 * minute)
  const event = 'gateway.configuration_differs'
  assert.deepEqual(lines, [
    { at: 'web-1:7', event, gateway: 'web-2:9', differs: ['another policy'] },
    { at: 'web-2:9', event, gateway: 'web-1:7', differs: ['another policy'] },
  ])
  a.policy = '2'
  assert.deepEqual(one.report(), [], 'its own policy has changed')
})

test('other limits are named besides, and a gateway that has gone is forgotten', async () => {
  const { join, runFor } = createFleet()
  const one = join('web-1:7', { policy: '1', settings: 's' })
  const two = join('web-2:9', { policy: '2', settings: 't' })
  await runFor(6 * minute)
  assert.deepEqual(one.report(), [
    'gateway web-2:9 has another policy and other limits of tenants or accounts',
  ])
  two.close()
  await runFor(2 * minute)
  assert.deepEqual(one.report(), [])
  one.close()
})
