/** A tenant with more due at once than memory has room for delays no other tenant. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { epoch, someNotification, stillClock } from '../../src/conformance/store/sample.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import { createSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { createHarness, second } from '../harness.ts'

test('scheduled notifications of other tenants leave in time while one tenant has 50,000 due at once', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-fairness-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  const store = createSqliteStore({ path: file, clock: stillClock(epoch), thread: false })
  const policy = { version: 1, limits: [] }
  const { version } = compilePolicy(policy)
  const content = { subject: 'a', text: 'b' }
  const rows = (count: number, tenant: string, dueAt: number) =>
    Array.from({ length: count }, (_, index) =>
      someNotification({
        tenant,
        to: { id: `r${index}`, email: 'r@example.com' },
        content,
        status: 'scheduled',
        createdAt: epoch - 1,
        dueAt,
        decision: { outcome: 'delay', at: dueAt, policyVersion: version, rules: [] },
      }),
    )
  for (let page = 0; page < 50; page += 1) await store.commit({ accept: rows(1_000, 'loud', epoch) })
  const quiet = rows(10, 'quiet', epoch + second / 2)
  await store.commit({ accept: quiet })
  await store.close()

  const pool = { provider: 'sandbox', accounts: [{ id: 'a', rate: '100/s' }] }
  const harness = await createHarness({
    file,
    start: epoch,
    policy,
    config: { pools: { email: pool, websocket: pool } },
  })
  let heldMax = 0
  for (let tenths = 0; tenths < 15; tenths += 1) {
    await harness.runFor(100)
    heldMax = Math.max(heldMax, harness.gateway.ledger.held().get('loud') ?? 0)
  }
  for (const { id } of quiet) {
    const { status, firedAt } = await harness.notification(id, 'quiet')
    assert.equal(status, 'delivered')
    assert.ok(firedAt! <= epoch + second / 2 + second)
  }
  assert.ok(heldMax <= 10_500, `${heldMax} of one tenant are in memory`)
  // Skipped notifications are read when there is room.
  await harness.runFor(8 * second)
  const { ledger } = harness.gateway
  const read = ledger.counts().delivered + (ledger.held().get('loud') ?? 0)
  assert.ok(read > heldMax + 100, `${read} of the 50,000 have been read`)
  await harness.stop()
})
