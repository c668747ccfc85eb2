import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startRetention } from '../../src/ledger/retention.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const minute = 60_000

test('what is over is pruned every ten minutes, by the one process of a fleet with the role', async () => {
  const clock = createVirtualClock(0)
  const pruned: unknown[] = []
  let isHolder = true
  const stop = startRetention({
    ledger: {
      async prune(before) {
        pruned.push({ at: clock.now(), ...before })
        return 0
      },
    },
    members: { holds: (role) => role === 'retention' && isHolder },
    clock,
    answersMs: 2 * minute,
    notificationsMs: 5 * minute,
    onError: (what) => assert.fail(what),
  })
  await clock.runUntil(10 * minute)
  assert.deepEqual(pruned, [{ at: 10 * minute, answers: 8 * minute, notifications: 5 * minute }])
  isHolder = false
  await clock.runUntil(30 * minute)
  assert.equal(pruned.length, 1)
  isHolder = true
  await clock.runUntil(40 * minute)
  assert.equal(pruned.length, 2)
  stop()
  await clock.runUntil(60 * minute)
  assert.equal(pruned.length, 2)
})
