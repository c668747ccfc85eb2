/**
 * Storms of arrivals, cancellations, preferences, wider policies and restarts, against an oracle that knows nothing of
 * how it works: from what is on record it counts every literal window and tries every instant at which something
 * could become free. Nobody who waits could leave earlier, no newcomer has overtaken one of its kind, and nobody was
 * moved to a later instant but by hours that became quiet.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { Notification } from '../../src/model.ts'
import {
  createHarness,
  day,
  densest,
  type Harness,
  hour,
  minute,
  second,
  seeded,
  testSeed,
} from '../harness.ts'

const runs = Number(process.env.SLUICE_RUNS ?? 2)
const steps = 90
/** Each window is kept this much longer than it is written. */
const marginMs = 20
const gapMs = 5 * minute

interface Hours {
  readonly from: number
  readonly to: number
  /** Ahead of UTC. */
  readonly zoneHours: number
}

/** How many an hour, in four hours, and of what is rare in two hours over all recipients. */
interface Widths {
  readonly hourly: number
  readonly fourHourly: number
  readonly rare: number
}

const policyOf = ({ hourly, fourHourly, rare }: Widths) => ({
  version: 1,
  limits: [
    { name: 'all', for: 'any', max: [`${hourly}/h`, `${fourHourly}/4h`], minGap: '5min', over: 'delay' },
    { name: 'rare', for: { category: 'rare' }, per: ['tenant'], max: [`${rare}/2h`], over: 'delay' },
  ],
  quietHours: {
    default: { from: '22:00', to: '06:00', channels: ['email'] },
    unknownTimeZone: 'UTC',
    spread: '1ms',
  },
})

const isWaiting = ({ status, undecided }: Notification): boolean =>
  status === 'scheduled' && undecided !== true
const instantOf = (row: Notification): number => row.firedAt ?? row.dueAt

function isQuiet(instant: number, { from, to, zoneHours }: Hours): boolean {
  const local = ((instant + zoneHours * hour) % day) / hour
  return from <= to ? local >= from && local < to : local >= from || local < to
}

function isFull(others: readonly number[], t: number, max: number, windowMs: number): boolean {
  const inside = others.filter((at) => Math.abs(at - t) < windowMs)
  return [...inside, t]
    .filter((from) => from <= t && t < from + windowMs)
    .some((from) => inside.filter((at) => at >= from && at < from + windowMs).length >= max)
}

interface Run {
  readonly draw: () => number
  harness: Harness
  widths: Widths
  readonly hours: Map<string, Hours>
  /** When they last changed. */
  readonly changedAt: Map<string, number>
  readonly ids: string[]
  /** The instants that were promised last. */
  promised: Map<string, number>
}

async function recordOf({ harness, ids }: Run): Promise<Notification[]> {
  return Promise.all(ids.map((id) => harness.notification(id)))
}

/** `mayBeLater` is whose hours have changed. */
async function check(run: Run, mayBeLater: string | undefined): Promise<void> {
  await run.harness.runFor(second)
  const rows = await recordOf(run)
  const now = run.harness.clock.now()
  const counted = rows.filter(
    (row) => row.status === 'delivered' || isWaiting(row) || row.status === 'queued',
  )
  const { hourly, fourHourly, rare } = run.widths
  for (const row of rows.filter(isWaiting)) {
    const own = counted.filter((other) => other !== row && other.to.id === row.to.id).map(instantOf)
    const rareOnes = counted.filter((other) => other !== row && other.category === 'rare').map(instantOf)
    const admits = (t: number): boolean =>
      !isFull(own, t, hourly, hour + marginMs) &&
      !isFull(own, t, fourHourly, 4 * hour + marginMs) &&
      !isFull(own, t, 1, gapMs + marginMs) &&
      !(row.category === 'rare' && isFull(rareOnes, t, rare, 2 * hour + marginMs)) &&
      !isQuiet(t, run.hours.get(row.to.id) ?? { from: 22, to: 6, zoneHours: 0 })
    const start = Math.max(now, row.sendAt ?? 0)
    const edges = [...own, ...rareOnes].flatMap((at) =>
      [hour, 2 * hour, 4 * hour, gapMs].map((windowMs) => at + windowMs + marginMs),
    )
    for (let at = Math.ceil(now / hour) * hour; at < row.dueAt; at += hour) edges.push(at)
    for (const t of [start, ...edges])
      assert.ok(
        t < start || t >= row.dueAt || !admits(t),
        `${row.id} waits until ${row.dueAt - run.harness.start} and could leave at ${t - run.harness.start}`,
      )
    const before = run.promised.get(row.id)
    if (before !== undefined && row.to.id !== mayBeLater)
      assert.ok(row.dueAt <= before, `${row.id} was moved to a later instant`)
  }
  run.promised = new Map(rows.filter(isWaiting).map((row) => [row.id, row.dueAt]))
  const plain = counted.filter(({ sendAt, expiresAt }) => sendAt === undefined && expiresAt === undefined)
  for (const alike of Map.groupBy(plain, ({ to, category }) => `${to.id} ${category}`).values()) {
    // Hours that became quiet may have put one behind another; who came after that is a newcomer to all.
    const changedAt = run.changedAt.get(alike[0]!.to.id) ?? 0
    for (const [index, row] of alike.entries())
      for (const other of alike.slice(0, index))
        assert.ok(
          row.createdAt <= changedAt || instantOf(other) <= instantOf(row),
          `${row.id} has overtaken ${other.id}`,
        )
  }
  for (const own of Map.groupBy(counted, ({ to }) => to.id).values()) {
    assert.ok(densest(own.map(instantOf), hour) <= hourly)
    assert.ok(densest(own.map(instantOf), 4 * hour) <= fourHourly)
  }
  const rareOnes = counted.filter(({ category }) => category === 'rare').map(instantOf)
  assert.ok(densest(rareOnes, 2 * hour) <= rare)
}

test(`those who wait have every place that is free before newcomers, in ${runs} storms (seed ${testSeed})`, async () => {
  for (let number = 0; number < runs; number += 1) {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-moving-up-'))
    const draw = seeded(testSeed * 1_000 + number)
    const below = (count: number): number => Math.floor(draw() * count)
    const file = join(folder, 'sluice.db')
    const widths = { hourly: 2, fourHourly: 4, rare: 1 }
    const harness = await createHarness({ file, policy: policyOf(widths) })
    const run: Run = {
      draw,
      harness,
      widths,
      hours: new Map(),
      changedAt: new Map(),
      ids: [],
      promised: new Map(),
    }
    let moved = 0
    for (let step = 0; step < steps; step += 1) {
      const { gate } = run.harness.gateway
      const now = run.harness.clock.now()
      const what = below(20)
      let changed: string | undefined
      const post = async () => {
        const row = await run.harness.post({
          recipient: `u${below(3)}`,
          category: below(3) === 0 ? 'rare' : 'product',
          ...(below(6) === 0 ? { sendAt: now + below(6 * hour) } : {}),
          ...(below(8) === 0 ? { expiresAt: now + hour + below(20 * hour) } : {}),
        })
        run.ids.push(row.id)
      }
      if (what < 9) await post()
      else if (what < 14 && run.ids.length > 0) {
        const waiting = (await recordOf(run)).filter(isWaiting)
        const victim = waiting[below(Math.min(3, waiting.length))]
        if (victim === undefined) continue
        const cancelled = gate.cancel('default', victim.id)
        // A newcomer in the middle of it.
        if (below(2) === 0) await post()
        await run.harness.done(cancelled).catch((error: unknown) => {
          if (!(error instanceof SluiceError)) throw error
        })
      } else if (what === 14 || what === 15) {
        changed = `u${below(3)}`
        const [from, to] = [below(24), below(24)]
        if (from === to) continue
        const zoneHours = below(2) * 9
        run.changedAt.set(changed, now)
        run.hours.set(changed, { from, to, zoneHours })
        const two = (clock: number): string => `${String(clock).padStart(2, '0')}:00`
        await run.harness.done(
          gate.saveRecipient({
            tenant: 'default',
            id: changed,
            timeZone: zoneHours === 0 ? 'UTC' : 'Asia/Tokyo',
            quietHours: { default: { from: two(from), to: two(to) } },
          }),
        )
      } else if (what === 16) {
        await run.harness.stop()
        if (below(2) === 0) {
          const { hourly, fourHourly, rare } = run.widths
          run.widths = { hourly: hourly + below(2), fourHourly: fourHourly + below(2), rare: rare + below(2) }
        }
        run.harness = await createHarness({
          file,
          policy: policyOf(run.widths),
          // What is late by the time that a gateway was down may put off others: `fire` sees to that.
          start: now,
          seed: testSeed + step,
        })
        // Who is new may come before anybody was met in the background.
        if (below(2) === 0) await post()
        await run.harness.runFor(second)
      } else await run.harness.runFor(below(2 * hour))
      await check(run, changed)
    }
    for (const row of await recordOf(run))
      if (row.timeline.some(({ detail }) => detail === 'moved up')) moved += 1
    await run.harness.check()
    await run.harness.stop()
    rmSync(folder, { recursive: true, force: true })
    console.log(`${run.ids.length} notifications, ${moved} of them moved up`)
    assert.ok(moved > 0)
  }
})
