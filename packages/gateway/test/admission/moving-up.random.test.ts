/**
 * Tests moving up under random arrivals, cancellations, expiries, preference changes, wider and narrower policies,
 * restarts and kills, against an independent oracle: from the store it counts every window and tries every time at which
 * a slot could become free. No waiting notification could leave earlier, none that waits for its expiry could leave
 * before it, no new one has overtaken an older one of its kind, and none was moved to a later time but by hours that
 * became quiet or limits that became narrower.
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
/** Every window is extended by this margin, ms. */
const marginMs = 20
const gapMs = 5 * minute

interface ForbiddenHours {
  readonly from: number
  readonly to: number
  /** Offset from UTC. */
  readonly zoneHours: number
}

/** The limits: per hour, per four hours, and per two hours over all recipients for the rare category. */
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
/** True for a notification that waits for its expiry, because its limits would admit it only later. */
const isDoomed = ({ status, undecided, dueAt, expiresAt }: Notification): boolean =>
  status === 'scheduled' && undecided === true && dueAt === expiresAt
const instantOf = (row: Notification): number => row.firedAt ?? row.dueAt

/** Returns the times that count in the limits: after a kill it may be unknown whether it was sent before. */
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
  /** The time of their last change. */
  readonly changedAt: Map<string, number>
  readonly ids: string[]
  /** The last time limits became narrower: earlier promises may be moved to later times. */
  narrowedAt: number
  /** Lateness of scheduled notifications while no sends were possible; later ones may be as late, ms. */
  lateMs: number
  /** The last promised times. */
  promised: Map<string, number>
}

const pool = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1d', adaptive: false }

/** True where no notification is due in the next minutes, so that a pause of sends delays none. */
async function isCalm(run: Run): Promise<boolean> {
  const soon = run.harness.clock.now() + 10 * minute
  return (await recordOf(run)).every(({ status, dueAt }) => status !== 'scheduled' || dueAt > soon)
}

async function recordOf({ harness, ids }: Run): Promise<Notification[]> {
  return Promise.all(ids.map((id) => harness.notification(id)))
}

/** Checks the store; `mayBeLater` names recipients whose quiet hours have changed. */
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
    // New quiet hours may have changed the order; a notification accepted later is new to all of them.
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
  // Promises under wider limits, or behind late sends, may exceed the windows: only sends since then are checked.
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

/** Returns the maximum in any window that ends at one of these times since then. */
function densestSince(instants: readonly number[], windowMs: number, since: number): number {
  const counts = instants
    .filter((at) => at > since)
    .map((at) => instants.filter((other) => other > at - windowMs && other <= at).length)
  return Math.max(0, ...counts)
}

test(`waiting notifications get every free slot before new ones, in ${runs} random runs (seed ${testSeed})`, async () => {
  for (let number = 0; number < runs; number += 1) {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-moving-up-'))
    const draw = seeded(testSeed * 1_000 + number)
    const below = (count: number): number => Math.floor(draw() * count)
    let file = join(folder, 'sluice.db')
    const widths = { hourly: 2, fourHourly: 4, rare: 1 }
    // The provider answers the next call with a Retry-After of that many seconds, and nothing is sent before.
    let blockSeconds: number | undefined
    const open = (opened: string, of: Widths, more: object = {}): Promise<Harness> =>
      createHarness({
        file: opened,
        policy: policyOf(of),
        parts: {
          // With few rows a page, the first who wait for the limit over all recipients are read before the others.
          recoveryRows: 8,
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
        // A new notification in the middle of it.
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
        // A kill leaves sends in flight with an unknown outcome, which is not tested here.
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
          // Sends late by the downtime of a gateway may delay others: `fire` handles that.
          start: now,
          seed: testSeed + step,
        })
        // A new notification may arrive before the limiter recovery in the background has begun.
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
