/** The overview agrees with the metrics on which alerts fire. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOverview } from '../../src/http/overview.ts'
import { createHarness } from '../harness.ts'

test('a problem says since when it is there, anew after it was gone', async (t) => {
  const { gateway, clock, runFor, stop } = await createHarness({ policy: { version: 1, limits: [] } })
  t.after(stop)
  let orphans = 1
  const { ledger, backlog, pools } = gateway
  const files = { db: 3_000, wal: 40 }
  const overview = createOverview({
    ledger,
    backlog,
    pools,
    clock,
    orphans: { count: () => orphans },
    disk: () => ({ files, freeBytes: 7, totalBytes: 9 }),
  })
  t.after(() => overview.close())
  const since = () => overview.problems(overview.waiting(undefined)).map((problem) => problem.since)
  const begun = clock.now()
  assert.deepEqual(since(), [begun])
  await runFor(60_000)
  assert.deepEqual(since(), [begun])
  orphans = 0
  assert.deepEqual(since(), [])
  orphans = 1
  assert.deepEqual(since(), [begun + 60_000])
  assert.deepEqual(overview.store(), { bytes: 3_040, freeBytes: 7, commitP99Ms: null })
  overview.series.observe('commit', 12)
  assert.ok(overview.store().commitP99Ms! >= 12)
})

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

test('another gateway with another configuration is a problem until it has the same', async (t) => {
  const { gateway, clock, stop } = await createHarness({ policy: { version: 1, limits: [] } })
  t.after(stop)
  let differences = ['gateway web-2:9 has another policy']
  const { ledger, backlog, pools } = gateway
  const configurationDifferences = () => differences
  const orphans = { count: () => 0 }
  const overview = createOverview({ ledger, backlog, pools, clock, orphans, configurationDifferences })
  t.after(() => overview.close())
  const problems = () => overview.problems(overview.waiting(undefined))
  const [problem] = problems()
  assert.deepEqual([problem?.code, problem?.severity, problem?.count], ['CONFIGURATION_DIFFERS', 'ticket', 1])
  assert.match(problem!.text, /web-2:9 has another policy/)
  differences = []
  assert.deepEqual(problems(), [])
})

test('an account that an operator holds is no trouble, and is not said to be in', async (t) => {
  const { gateway, clock, stop } = await createHarness({ policy: { version: 1, limits: [] } })
  t.after(stop)
  const { ledger, backlog } = gateway
  const pools = () =>
    gateway.pools().map((pool, index) => ({
      ...pool,
      accounts: pool.accounts.map((account) => ({
        ...account,
        ...(index === 0 && { status: 'held' as const }),
      })),
    }))
  const overview = createOverview({ ledger, backlog, pools, clock, orphans: { count: () => 0 } })
  t.after(() => overview.close())
  const { side, text } = overview.cause(overview.waiting(undefined))
  assert.equal(side, 'neither')
  assert.match(text, /^Neither: all accounts are in but 1 that an operator holds, nothing is due/)
})

test('a server of the limits that does not answer is a problem, and the cause while it lasts', async (t) => {
  const { gateway, clock, post, stop } = await createHarness({ policy: { version: 1, limits: [] } })
  t.after(stop)
  const { ledger, backlog, pools } = gateway
  let away: { ms: number; reason: string } | undefined = { ms: 12_000, reason: 'ECONNREFUSED h:1.' }
  let keeper: 'another process' | undefined
  const state = { away: () => away, keeper: () => keeper }
  const overview = createOverview({ ledger, backlog, pools, clock, orphans: { count: () => 0 }, state })
  t.after(() => overview.close())
  await post()
  const told = () => {
    const waiting = overview.waiting(undefined)
    return [
      overview
        .problems(waiting)
        .map(({ code }) => code)
        .join(),
      overview.cause(waiting).text,
    ]
  }
  const [problem] = overview.problems(overview.waiting(undefined))
  assert.equal(problem!.since, clock.now() - 12_000)
  const begin = 'Us: For 12 s the limits in Redis could not be asked, and'
  assert.deepEqual(told(), ['STATE_UNAVAILABLE', `${begin} what is due waits: ECONNREFUSED h:1.`])
  assert.equal(overview.standsStill(), 'all')
  keeper = 'another process'
  assert.deepEqual(told(), [
    'STATE_UNAVAILABLE',
    `${begin} another process keeps the limits of what is shared, and all else waits: ECONNREFUSED h:1.`,
  ])
  assert.equal(overview.standsStill(), 'undecided')
  away = undefined
  assert.match(told().join(), /^,Neither/)
})
