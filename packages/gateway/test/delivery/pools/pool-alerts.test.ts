import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Pool } from '../../../src/delivery/pools/pool.ts'
import { createPoolAlerts } from '../../../src/delivery/pools/pool-alerts.ts'
import type { AccountChange, AccountState } from '../../../src/ports/accounts.ts'
import type { Alert } from '../../../src/ports.ts'

const now = 1_000_000

function setUp(budgetLeft = 7) {
  const told: Alert[] = []
  const lines: { readonly level: string; readonly fields: object }[] = []
  const line = (level: string) => (fields: object) => {
    lines.push({ level, fields })
  }
  const watch = createPoolAlerts({
    alerts: { send: (alert) => told.push(alert), close: () => Promise.resolve() },
    random: { id: () => 'id' },
    clock: { now: () => now },
    log: { warn: line('warn'), info: line('info') },
  })
  const pool = { channel: 'email', provider: { name: 'smtp' }, budget: { left: () => budgetLeft } }
  const account = { account: { id: 'main' } } as unknown as AccountState
  return {
    told,
    lines,
    watch,
    pool: pool as unknown as Pool,
    change: (...changes: AccountChange[]) => {
      for (const change of changes) watch.changed(pool as unknown as Pool, account, change)
    },
  }
}

const opened = { kind: 'opened', until: now + 5_000 } as const
const closed = { kind: 'closed' } as const

test('a breaker that opens, stays open through its probes and closes is alerted twice, and logged each time', () => {
  const { told, lines, change, watch, pool } = setUp()
  change(opened, { ...opened, until: now + 10_000 }, { ...opened, until: now + 20_000 }, closed, opened)
  const common = { id: 'id', at: now, channel: 'email', provider: 'smtp', account: 'main' }
  assert.deepEqual(told, [
    { ...common, type: 'account.opened', until: now + 5_000 },
    { ...common, type: 'account.closed' },
    { ...common, type: 'account.opened', until: now + 5_000 },
  ])
  assert.deepEqual(
    lines.map(({ level }) => level),
    ['warn', 'info', 'info', 'info', 'warn'],
  )
  assert.deepEqual(watch.countsOf(pool).changes, { blocked: 0, opened: 4, closed: 1, resized: 0 })
})

test('a 429 and a change of concurrency are logged and counted without an alert', () => {
  const { told, lines, change, watch, pool } = setUp()
  const retryAfter = { ms: 5_000, note: 'invalid' } as const
  change({ kind: 'blocked', until: now + 5_000, retryAfter }, { kind: 'resized', concurrency: 7 })
  change({ kind: 'blocked', until: now + 1_000, retryAfter: { ms: 1_000 } })
  assert.deepEqual(told, [])
  const account = { channel: 'email', provider: 'smtp', account: 'main' }
  assert.deepEqual(
    lines.map(({ fields }) => fields),
    [
      { event: 'account.blocked', ...account, retryAfter: 'invalid', outUntil: new Date(now + 5_000) },
      { event: 'account.resized', ...account, concurrency: 7 },
      { event: 'account.blocked', ...account, outUntil: new Date(now + 1_000) },
    ],
  )
  const before = watch.countsOf(pool)
  assert.deepEqual(before.changes, { blocked: 2, opened: 0, closed: 0, resized: 1 })
  change(opened)
  assert.equal(before.changes.opened, 0, 'what was counted then stays')
})

test('an overdrawn retry budget is reported as zero, and the rest in whole retries', () => {
  const shown = (left: number): number => {
    const { watch, pool } = setUp(left)
    return watch.countsOf(pool).retryBudget
  }
  assert.deepEqual([shown(7.9), shown(-3.5)], [7, 0])
})
