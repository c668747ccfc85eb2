/** Oracle 5 for account slots: many processes lease the same accounts, and every window of their merged log is counted. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import process from 'node:process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { needs } from '../../../../scripts/services/needs.ts'
import { type SlotLog, slotAccounts } from './redis-slots-accounts.ts'

const processes = 6
const runMs = 6_000
/** Tokens come again every 51 slots of 20 ms: over whole rounds of that, it does not matter how they lie within one. */
const roundMicros = 51 * 20_000
const worker = fileURLToPath(new URL('redis-slots-worker.ts', import.meta.url))

/** The fullest half-open window of this length. */
function fullest(uses: readonly number[], windowMicros: number): number {
  let most = 0
  for (let first = 0, last = 0; last < uses.length; last += 1) {
    while (uses[last]! - uses[first]! >= windowMicros) first += 1
    most = Math.max(most, last - first + 1)
  }
  return most
}

test(
  'six processes are granted 95 % and more of an account’s rate, and no rolling window of their uses holds too many',
  needs('redis'),
  async (t) => {
    const args = ['--conditions=sluice-source', worker, process.env.SLUICE_TEST_REDIS!, `${randomUUID()}:`]
    const run = () =>
      promisify(execFile)(process.execPath, [...args, String(runMs)], { maxBuffer: 64 * 1_024 * 1_024 })
    const outputs = await Promise.all(Array.from({ length: processes }, run))
    const logs = outputs.map(({ stdout }) => JSON.parse(stdout) as Record<string, SlotLog>)
    for (const { account, bounds } of slotAccounts) {
      const uses = logs.flatMap((log) => log[account]!.used).sort((a, b) => a - b)
      for (const [max, windowMs] of bounds) {
        const most = fullest(uses, windowMs * 1_000)
        t.diagnostic(`${account}: at most ${most} of ${max} in ${windowMs} ms`)
        assert.ok(most <= max, `${account}: ${most} of ${max} in ${windowMs} ms`)
      }
    }
    const grants = logs.flatMap((log) => log.thousand!.granted)
    const uses = logs.flatMap((log) => log.thousand!.used)
    const instants = grants.map(([at]) => at)
    // The first second is another matter: it begins with a thousand at once.
    const from = Math.min(...instants) + 1_000_000
    const rounds = Math.floor((Math.max(...instants) - from) / roundMicros)
    const isCounted = (at: number) => at >= from && at < from + rounds * roundMicros
    const seconds = (rounds * roundMicros) / 1e6
    const granted = grants.reduce((sum, [at, count]) => sum + (isCounted(at) ? count : 0), 0) / seconds
    const used = uses.filter(isCounted).length / seconds
    t.diagnostic(`of 1,000 a second ${granted.toFixed(0)} were granted and ${used.toFixed(0)} used`)
    assert.ok(rounds >= 3 && granted >= 950, `only ${granted.toFixed(0)} of 1,000 a second were granted`)
    assert.ok(used >= granted / 2, 'what is lost on a busy machine woke up too late; it is not most of it')
  },
)
