import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { firedInTime } from '../../src/delivery/fired-in-time.ts'
import type { Store } from '../../src/ports.ts'
import { createHarness, densest, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'

test('an answer of fire that is older than the margin of the windows permits no call', () => {
  assert.deepEqual(firedInTime({ fired: true, at: 1_000 }, 1_020, false), { fired: true, at: 1_000 })
  assert.deepEqual(firedInTime({ fired: true, at: 1_000 }, 1_021, false), { fired: false, at: 1_021 })
  assert.deepEqual(firedInTime({ fired: false, at: 5_000 }, 1_021, false), { fired: false, at: 5_000 })
})

test('an answer permits a call whose writing is told for as long as one that is not written goes uncounted', () => {
  assert.deepEqual(firedInTime({ fired: true, at: 1_000 }, 1_100, true), { fired: true, at: 1_000 })
  assert.deepEqual(firedInTime({ fired: true, at: 1_000 }, 1_101, true), { fired: false, at: 1_101 })
})

test('a call that waited while the limits of another of its batch were read is counted when it leaves', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-fired-'))
  const file = join(folder, 'sluice.db')
  const policy = {
    version: 1,
    limits: [
      { name: 'all', for: 'any', max: ['1/s'] },
      { name: 'author', for: { category: 'activity' }, per: ['actor'], max: ['100/s'] },
    ],
  }
  const first = await createHarness({ policy, file })
  const sendAt = first.start + 5 * second
  const ada = { id: 'ada', email: 'ada@example.com' }
  await first.postMany([
    { to: ada, sendAt },
    { to: { id: 'bob', email: 'bob@example.com' }, sendAt, category: 'activity', actor: 'x' },
    { to: ada, sendAt: sendAt + 2.5 * second },
  ])
  await first.stop()

  /** The next process reads the record of the author slowly, while ada's notification has been asked for already. */
  const slow = (store: Store): Store =>
    overriding(store, {
      async counted(query) {
        const at = harness.clock.now() + 3 * second
        if (query.recipient === undefined) await new Promise<void>((resolve) => harness.clock.at(at, resolve))
        return store.counted(query)
      },
    })
  const harness = await createHarness({ policy, file, wrap: slow, start: first.clock.now() })
  await harness.runFor(minute)
  const calls = harness.sent({ recipient: 'ada' }).map(({ at }) => at)
  assert.equal(calls.length, 2)
  assert.equal(densest(calls, second), 1)
  await harness.stop()
  rmSync(folder, { recursive: true, force: true })
})
