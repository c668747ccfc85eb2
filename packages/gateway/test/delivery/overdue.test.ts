/** Notifications that waited for capacity in vain, and which another gateway has moved on meanwhile. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SendResult } from '../../src/ports.ts'
import { createStage, queued } from './stage.ts'

const limited: SendResult = { outcome: 'rate_limited', retryAfter: '60', detail: 'too many' }

for (const isElsewhere of [false, true]) {
  const what = isElsewhere ? 'keeps the count of what another gateway has sent' : 'releases its slot'
  test(`a dead letter ${what}`, async (t) => {
    const stage = await createStage(t, {
      pool: { shedAfterMs: 1_000 },
      answer: () => limited,
      wrapLedger: (ledger) => ({
        ...ledger,
        async commit(change) {
          const [move] = change.moves ?? []
          if (!isElsewhere || move?.after.status !== 'dead') return ledger.commit(change)
          return { applied: false, conflicts: [{ kind: 'notification', key: move.before.id }] }
        },
      }),
    })
    await stage.queue(queued('x'))
    assert.deepEqual([...stage.counted.keys()], ['x'], 'the limits have counted it')
    await stage.runFor(10_000)
    assert.deepEqual([...stage.counted.keys()], isElsewhere ? ['x'] : [])
  })
}
