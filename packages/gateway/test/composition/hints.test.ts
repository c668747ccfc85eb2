/** Holds of operators are read again without any hint, also by a gateway that is alone by now. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { followHints } from '../../src/composition/hints.ts'
import { createOperatorHolds } from '../../src/ledger/operator-holds.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'

const start = 1_000_000
const rightMs = 250

test('a hold is over that another gateway has ended as its last act, though no hint of it has come', async () => {
  const clock = createVirtualClock(start)
  const record = createMemoryRecord(rightMs)
  const open = async (member: string) => {
    const store = record.open(member)
    const onError = (_: string, error: unknown) => assert.fail(String(error))
    return createOperatorHolds({ store, ledger: store, clock, onError })
  }
  const [mine, other] = [await open('a'), await open('b')]
  const end = followHints({
    notifier: { listen: () => () => {} },
    recipients: { forget() {} },
    holds: mine,
    complaints: { reread: async () => {} },
    isShared: true,
    clock,
  })
  const put = other.put({ name: 'night', until: start + 3_600_000, reason: 'r' })
  await clock.runUntil(start + 6_000)
  await put
  assert.equal(mine.list().length, 1)
  assert.ok(await other.end('night'))
  await clock.runUntil(start + 60_000)
  assert.deepEqual(mine.list(), [])
  end()
})
