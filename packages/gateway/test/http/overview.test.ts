/** The overview agrees with the metrics on which alerts fire. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOverview } from '../../src/http/overview.ts'
import { createHarness } from '../harness.ts'

test('digest items that no open digest collects are unaccounted in the overview, as in the metric', async (t) => {
  const { gateway, clock, post, stop } = await createHarness({ policy: { version: 1, limits: [] } })
  t.after(stop)
  let orphans = 0
  const { ledger, backlog, pools } = gateway
  const overview = createOverview({ ledger, backlog, pools, clock, orphans: { count: () => orphans } })
  t.after(() => overview.close())
  await post()
  assert.deepEqual([overview.unaccounted(), overview.problems(overview.waiting(undefined))], [0, []])
  orphans = 2
  assert.equal(overview.unaccounted(), 2)
  assert.deepEqual(
    overview.problems(overview.waiting(undefined)).map(({ code, count }) => [code, count]),
    [['UNACCOUNTED', 2]],
  )
})
