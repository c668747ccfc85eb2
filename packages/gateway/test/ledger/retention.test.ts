import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startRetention } from '../../src/ledger/retention.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const minute = 60_000

test('what is over is pruned every ten minutes, by the one process of a fleet with the role', async () => {
  const clock = createVirtualClock(0)
  const pruned: unknown[] = []
  const looks: unknown[] = []
  const records: number[] = []
  let isHolder = true
  let isBroken = false
  const errors: string[] = []
  const retention = startRetention({
    ledger: {
      async prune(before) {
        if (before.notifications === 0) looks.push(before)
        else pruned.push({ at: clock.now(), ...before })
        if (isBroken) throw new Error('the disk is away')
        return 0
      },
    },
    intake: {
      async prunePoison(before) {
        records.push(before)
        return 0
      },
    },
    members: { holds: (role) => role === 'retention' && isHolder },
    clock,
    answersMs: 2 * minute,
    notificationsMs: 5 * minute,
    onError: (what) => void errors.push(what),
  })
  await clock.runUntil(minute)
  assert.deepEqual(
    looks,
    [{ answers: 0, notifications: 0 }],
    'the age of the record is known before the first round',
  )
  await clock.runUntil(10 * minute)
  assert.deepEqual(pruned, [{ at: 10 * minute, answers: 8 * minute, notifications: 5 * minute }])
  assert.deepEqual(records, [5 * minute], 'unreadable records are kept as long as notifications')
  isHolder = false
  await clock.runUntil(30 * minute)
  assert.equal(pruned.length, 1)
  assert.equal(looks.length, 3, 'without the role it still learns how old the record is')
  isHolder = true
  await clock.runUntil(40 * minute)
  assert.equal(pruned.length, 2)
  assert.deepEqual([retention.rounds, errors], [{ done: 2, failed: 0 }, []])
  isBroken = true
  await clock.runUntil(50 * minute)
  assert.deepEqual([retention.rounds, errors], [{ done: 2, failed: 1 }, ['forget what is over']])
  retention.stop()
  await clock.runUntil(70 * minute)
  assert.equal(pruned.length, 3)
})
