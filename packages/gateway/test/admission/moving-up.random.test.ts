/**
 * Storms of arrivals, cancellations, ends in the queue, preferences, wider and narrower policies, restarts and kills,
 * against an oracle that knows nothing of how it works: from what is on record it counts every literal window and tries
 * every instant at which something could become free. Nobody who waits could leave earlier, nobody who waits for their
 * expiry could leave before it, no newcomer has overtaken one of its kind, and nobody was moved to a later instant but
 * by hours that became quiet or limits that became narrower.
 */
import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { Notification } from '../../src/model.ts'
import { createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { createHarness, day, type Harness, hour, minute, second, seeded, testSeed } from '../harness.ts'

const runs = Number(process.env.SLUICE_RUNS ?? 2)
const steps = 90
/** Each window is kept this much longer than it is written. */
const marginMs = 20
const gapMs = 5 * minute

interface ForbiddenHours {
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
/** It waits for its expiry, because its limits would let it leave only after that. */
const isDoomed = ({ status, undecided, dueAt, expiresAt }: Notification): boolean =>
  status === 'scheduled' && undecided === true && dueAt === expiresAt
const instantOf = (row: Notification): number => row.firedAt ?? row.dueAt

/** What counts of it: a kill may have left open whether it was sent before. */
const instantsOf = (row: Notification): number[] => [...(row.suspects ?? []), instantOf(row)]

function isQuiet(instant: number, { from, to, zoneHours }: ForbiddenHours): boolean {
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
  readonly forbiddenHours: Map<string, ForbiddenHours>
  /** When they last changed. */
  readonly changedAt: Map<string, number>
  readonly ids: string[]
  /** When limits last became narrower: what was promised before may be moved to later instants. */
  narrowedAt: number
  /** How late what had an instant may have left because nothing left for a while: those behind are as late. */
  lateMs: number
  /** The instants that were promised last. */
  promised: Map<string, number>
}

const pool = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1d', adaptive: false }

/** Nobody is to leave in the next minutes, so that nobody is late where nothing leaves. */
async function isCalm(run: Run): Promise<boolean> {
  const soon = run.harness.clock.now() + 10 * minute
  return (await recordOf(run)).every(({ status, dueAt }) => status !== 'scheduled' || dueAt > soon)
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
  for (const row of rows.filter((each) => isWaiting(each) || isDoomed(each))) {
    const own = counted.filter((other) => other !== row && other.to.id === row.to.id).flatMap(instantsOf)
    const rareOnes = counted.filter((other) => other !== row && other.category === 'rare').flatMap(instantsOf)
    const admits = (t: number): boolean =>
      !isFull(own, t, hourly, hour + marginMs) &&
      !isFull(own, t, fourHourly, 4 * hour + marginMs) &&
      !isFull(own, t, 1, gapMs + marginMs) &&
      !(row.category === 'rare' && isFull(rareOnes, t, rare, 2 * hour + marginMs)) &&
      !isQuiet(t, run.forbiddenHours.get(row.to.id) ?? { from: 22, to: 6, zoneHours: 0 })
    const start = Math.max(now, row.sendAt ?? 0)
    const edges = [...own, ...rareOnes].flatMap((at) =>
      [hour, 2 * hour, 4 * hour, gapMs].map((windowMs) => at + windowMs + marginMs),
    )
    for (let at = Math.ceil(now / hour) * hour; at < row.dueAt; at += hour) edges.push(at)
    for (const t of [start, ...edges])
      assert.ok(
        t < start || t >= row.dueAt || !admits(t),
        `${row.id} ${isDoomed(row) ? 'would end' : 'waits until'} ${row.dueAt - run.harness.start} and could leave at ${t - run.harness.start}`,
      )
    const before = isDoomed(row) ? undefined : run.promised.get(row.id)
    if (before !== undefined && row.to.id !== mayBeLater && row.createdAt > run.narrowedAt)
      assert.ok(row.dueAt <= before + run.lateMs, `${row.id} was moved to a later instant`)
  }
  run.promised = new Map(rows.filter(isWaiting).map((row) => [row.id, row.dueAt]))
  const plain = counted.filter(({ sendAt, expiresAt }) => sendAt === undefined && expiresAt === undefined)
  for (const alike of Map.groupBy(plain, ({ to, category }) => `${to.id} ${category}`).values()) {
    // Hours that became quiet may have put one behind another; who came after that is a newcomer to all.
    const changedAt = run.changedAt.get(alike[0]!.to.id) ?? 0
    for (const [index, row] of alike.entries())
      for (const other of alike.slice(0, index))
        assert.ok(
          row.createdAt <= changedAt ||
            other.createdAt <= run.narrowedAt ||
            instantOf(other) <= instantOf(row),
          `${row.id} has overtaken ${other.id}`,
        )
  }
  // Of what was promised under wider limits, or stands behind what left late, only what has left since holds them.
  const isExact = run.narrowedAt === 0 && run.lateMs === 0
  const held = isExact ? counted : counted.filter(({ status }) => status === 'delivered')
  const densestOf = (of: readonly Notification[], windowMs: number): number =>
    densestSince(of.map(instantOf), windowMs, run.narrowedAt)
  for (const own of Map.groupBy(held, ({ to }) => to.id).values()) {
    assert.ok(densestOf(own, hour) <= hourly)
    assert.ok(densestOf(own, 4 * hour) <= fourHourly)
  }
  const rareOnes = held.filter(({ category }) => category === 'rare')
  assert.ok(densestOf(rareOnes, 2 * hour) <= rare)
}

/** The most in any window that ends with one of these instants since then. */
function densestSince(instants: readonly number[], windowMs: number, since: number): number {
  const counts = instants
    .filter((at) => at > since)
    .map((at) => instants.filter((other) => other > at - windowMs && other <= at).length)
  return Math.max(0, ...counts)
}

test(`those who wait have every place that is free before newcomers, in ${runs} storms (seed ${testSeed})`, async () => {
  for (let number = 0; number < runs; number += 1) {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-moving-up-'))
    const draw = seeded(testSeed * 1_000 + number)
    const below = (count: number): number => Math.floor(draw() * count)
    let file = join(folder, 'sluice.db')
    const widths = { hourly: 2, fourHourly: 4, rare: 1 }
    // The next call is answered with so many seconds to wait, and nothing leaves before.
    let blockSeconds: number | undefined
    const open = (opened: string, of: Widths, more: object = {}): Promise<Harness> =>
      createHarness({
        file: opened,
        policy: policyOf(of),
        parts: {
          providers: [
            createScripted(() => {
              const seconds = blockSeconds
              blockSeconds = undefined
              return seconds === undefined ? delivered : throttled(String(seconds))
            }).provider,
          ],
        },
        config: { pools: { email: pool, websocket: pool } },
        ...more,
      })
    const harness = await open(file, widths)
    const run: Run = {
      draw,
      harness,
      widths,
      forbiddenHours: new Map(),
      changedAt: new Map(),
      ids: [],
      narrowedAt: 0,
      lateMs: 0,
      promised: new Map(),
    }
    let [moved, kills, narrowed, ended] = [0, 0, 0, 0]
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
        run.forbiddenHours.set(changed, { from, to, zoneHours })
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
        const rows = await recordOf(run)
        const victim = rows.find(isWaiting)
        // What was with a provider may have been sent: a kill leaves that open, which is not tried here.
        if (victim !== undefined && rows.every((row) => row.status !== 'queued') && below(2) === 0) {
          void gate.cancel('default', victim.id).catch(() => {})
          for (let turn = below(8); turn > 0; turn -= 1) await run.harness.clock.settle()
          const killed = file
          file = join(folder, `sluice-${step}.db`)
          for (const end of ['', '-wal']) if (existsSync(killed + end)) copyFileSync(killed + end, file + end)
          kills += 1
        }
        await run.harness.stop()
        const { hourly, fourHourly, rare } = run.widths
        const change = below(4)
        if (change < 2)
          run.widths = { hourly: hourly + below(2), fourHourly: fourHourly + below(2), rare: rare + below(2) }
        else if (change === 2 && step > steps / 2 && hourly > 1) {
          run.widths = { hourly: hourly - 1, fourHourly: Math.max(1, fourHourly - 1), rare }
          run.narrowedAt = now
          narrowed += 1
        }
        run.harness = await open(file, run.widths, {
          // What is late by the time that a gateway was down may put off others: `fire` sees to that.
          start: now,
          seed: testSeed + step,
        })
        // Who is new may come before anybody was met in the background.
        if (below(2) === 0) await post()
        await run.harness.runFor(second)
      } else if (what === 17 && (await isCalm(run))) {
        blockSeconds = 3 * 60 + 2
        await run.harness.post({ recipient: 'elsewhere', priority: 'critical' })
        await run.harness.runFor(second)
        const expiresAt = now + 3 * minute
        const dying = await run.harness.post({ recipient: `u${below(3)}`, expiresAt })
        run.ids.push(dying.id)
        await run.harness.runFor(3 * minute)
        assert.equal(blockSeconds, undefined)
        run.lateMs = 10 * second
        if (dying.status === 'queued') ended += 1
      } else await run.harness.runFor(below(2 * hour))
      await check(run, changed)
    }
    for (const row of await recordOf(run))
      if (row.timeline.some(({ detail }) => detail === 'moved up')) moved += 1
    await run.harness.check()
    await run.harness.stop()
    rmSync(folder, { recursive: true, force: true })
    console.log(
      `${run.ids.length} notifications, ${moved} of them moved up, ${kills} kills, ${narrowed} times narrower, ${ended} ended in the queue`,
    )
    assert.ok(moved > 0)
  }
})
