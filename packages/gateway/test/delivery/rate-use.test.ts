/**
 * The share of an account's rate that a gateway uses while more waits than it may send, in virtual time: what it wastes
 * there it wastes on every machine.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSandbox, type Sandbox } from '../../src/providers/sandbox/adapter.ts'
import type { SandboxBehaviour } from '../../src/sandbox/behaviour.ts'
import { overfull } from '../guarantees/windows.ts'
import { createHarness, second } from '../harness.ts'

const seconds = 4
const max = 1_000

const providers: readonly (readonly [string, NonNullable<SandboxBehaviour['latency']>])[] = [
  ['after 5 ms', 5],
  ['after 50 ms, 1 % after 200 ms', { p50Ms: 50, p99Ms: 200 }],
]
for (const [name, latency] of providers) {
  test(`an account of ${max}/s is used to 95 % and never over where its provider answers ${name}`, async (t) => {
    let side: Sandbox | undefined
    const harness = await createHarness({
      policy: { version: 1, limits: [] },
      config: {
        tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 1_000_000 } },
        pools: {
          email: { provider: 'sandbox', shedAfter: '1h', accounts: [{ id: 'a', rate: `${max}/s` }] },
          websocket: { provider: 'sandbox' },
        },
      },
      providers(clock) {
        side = createSandbox({ clock, keep: 500_000, behaviour: { latency } })
        return [side]
      },
    })
    const waiting = Array.from({ length: max * (seconds + 2) }, (_, index) => ({
      to: { id: `r${index}`, email: 'ada@example.com' },
    }))
    for (let from = 0; from < waiting.length; from += 500)
      await harness.postMany(waiting.slice(from, from + 500))
    await harness.runFor(seconds * second)
    const instants = side!.calls().map(({ at }) => at)
    // The first window is used at its beginning: the rate is what follows it, over the time since then.
    const used = ((instants.length - max) * second) / (max * (instants.at(-1)! - instants[0]!))
    t.diagnostic(`${(100 * used).toFixed(1)} % in ${seconds} s`)
    assert.equal(overfull(instants, { max, windowMs: second }), 0)
    assert.ok(used >= 0.95, `${(100 * used).toFixed(1)} % used`)
    await harness.stop()
  })
}
