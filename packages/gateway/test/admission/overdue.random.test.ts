/**
 * Tests what became due while no gateway ran, against an oracle that shares no code with the limiter: in the order of the
 * promised instants it gives each notification the earliest instant at which it fits into every window beside those
 * before it, found by trying. None may leave later than that, no newcomer before it, and no window may be over; a second
 * after the start each knows its instant.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Notification } from '../../src/model.ts'
import { createHarness, hour, minute, second, seeded, testSeed } from '../harness.ts'
import { assertNoneOver, drawLimits, earliestBeside, lateMsMax, policyOf, type Sent } from './slot-oracle.ts'

const runs = Number(process.env.SLUICE_RUNS ?? 8)
const pool = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1d', adaptive: false }
const config = { pools: { email: pool, push: pool } }

test(`what became due while no gateway ran leaves in the order of its promises, none later than it must, in ${runs} random runs (seed ${testSeed})`, async () => {
  let [overdue, shifted, latestMs] = [0, 0, 0]
  for (let number = 0; number < runs; number += 1) {
    const draw = seeded(testSeed * 1_000 + number)
    const below = (count: number): number => Math.floor(draw() * count)
    const limits = drawLimits(below)
    const hasQuietHours = below(3) === 0
    const folder = mkdtempSync(join(tmpdir(), 'sluice-overdue-'))
    const file = join(folder, 'sluice.db')
    const before = await createHarness({ file, policy: policyOf(limits, hasQuietHours), config })
    const draftOf = (now: number) => ({
      recipient: `u${below(2)}`,
      channel: below(4) === 0 ? ('push' as const) : ('email' as const),
      category: below(3) === 0 ? 'rare' : 'product',
      ...(below(4) === 0 ? { sendAt: now + below(60) * minute } : {}),
    })
    const ids: string[] = []
    for (let count = 12 + below(20); count > 0; count -= 1) {
      ids.push((await before.post(draftOf(before.clock.now()))).id)
      if (below(3) === 0) await before.runFor(below(5 * minute))
    }
    await before.runFor(second)
    const known = await Promise.all(ids.map((id) => before.notification(id)))
    await before.stop()

    const start = before.clock.now() + 10 * second + below(90 * minute)
    const after = await createHarness({
      file,
      policy: policyOf(limits, hasQuietHours),
      config,
      start,
      seed: number,
    })
    const newcomers: Notification[] = []
    for (let count = below(6); count > 0; count -= 1) {
      newcomers.push(await after.post({ ...draftOf(0), sendAt: undefined } as never))
      if (below(2) === 0) await after.runFor(below(minute))
    }
    await after.runFor(second)
    const said = new Map<string, Notification>()
    for (const { id } of known) said.set(id, await after.notification(id))
    await after.runFor(30 * hour)

    const isSent = ({ status }: Notification): boolean => status === 'delivered'
    const sent: Sent[] = known
      .filter(isSent)
      .map(({ category, to, firedAt }) => ({ recipient: to.id, category, at: firedAt! }))
    const waiting = known
      .filter((row) => !isSent(row))
      .sort((a, b) => a.dueAt - b.dueAt || (a.id < b.id ? -1 : 1))
    overdue += waiting.filter(({ dueAt }) => dueAt < start).length
    const all: Sent[] = [...sent]
    for (const row of [...waiting, ...newcomers]) {
      const from = Math.max(start, isSent(row) || newcomers.includes(row) ? row.createdAt : row.dueAt)
      const own = { recipient: row.to.id, category: row.category }
      const at = earliestBeside(limits, sent, own, from, hasQuietHours)
      if (at > from) shifted += 1
      sent.push({ ...own, at })
      const recorded = await after.notification(row.id)
      assert.equal(recorded.status, 'delivered', row.id)
      const told = said.get(row.id)
      if (told?.status === 'scheduled') {
        const besideMs = told.dueAt - at
        assert.ok(
          Math.abs(besideMs) <= lateMsMax,
          `run ${number}: ${row.id} is told ${besideMs} ms beside its instant`,
        )
      }
      all.push({ ...own, at: recorded.firedAt! })
      const lateMs = recorded.firedAt! - at
      latestMs = Math.max(latestMs, lateMs)
      assert.ok(
        lateMs <= lateMsMax,
        `run ${number}: ${row.id}, due ${(row.dueAt - start) / 1000} s after the start, left ${lateMs / 1000} s later than ${(at - start) / 1000}`,
      )
    }
    assertNoneOver(limits, all, `run ${number}`)
    await after.check()
    await after.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  console.log(
    `${overdue} became due while no gateway ran, ${shifted} could not leave at their instant; the latest left ${latestMs} ms after the oracle's`,
  )
  assert.ok(overdue > 0 && shifted > 0)
})
