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
import { createHarness, day, hour, minute, second, seeded, testSeed } from '../harness.ts'

const runs = Number(process.env.SLUICE_RUNS ?? 8)
/** Every window is kept so much longer than it is written, ms. */
const marginMs = 20
/** A notification may be fired a moment after it is due, and those behind it in a full window are as late, ms. */
const lateMsMax = 20

interface Limit {
  readonly name: string
  /** @defaultValue every category */
  readonly category?: string
  /** True if it counts all recipients of the tenant together. */
  readonly isShared?: boolean
  readonly windows: readonly { readonly max: number; readonly minutes: number }[]
}

const pool = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1d', adaptive: false }
const config = { pools: { email: pool, push: pool } }
/** Every day from 14 to 15 o'clock UTC nothing leaves: runs begin at 12. */
const isQuiet = (at: number): boolean => at % day >= 14 * hour && at % day < 15 * hour
const policyOf = (limits: readonly Limit[], hasQuietHours: boolean) => ({
  version: 1,
  ...(hasQuietHours
    ? {
        quietHours: {
          default: { from: '14:00', to: '15:00', channels: ['email', 'push'] },
          unknownTimeZone: 'UTC',
          spread: '1ms',
        },
      }
    : {}),
  limits: limits.map(({ name, category, isShared, windows }) => ({
    name,
    ...(isShared === true ? { per: ['tenant'] } : {}),
    for: category === undefined ? 'any' : { category },
    max: windows.map(({ max, minutes }) => `${max}/${minutes}min`),
    over: 'delay',
  })),
})

/** Tests if `at` fits into the window beside the others, by looking at the window behind each instant. */
function fits(others: readonly number[], at: number, max: number, minutes: number): boolean {
  const width = minutes * minute + marginMs
  return [...others, at].every((from) => {
    if (from > at || at >= from + width) return true
    return [...others, at].filter((each) => each >= from && each < from + width).length <= max
  })
}

interface Sent {
  readonly recipient: string
  readonly category: string
  readonly at: number
}

/** The instants that a limit counts for a recipient. */
const countedBy = (
  { category, isShared }: Limit,
  sent: readonly Sent[],
  recipient: string,
): readonly number[] =>
  sent
    .filter((each) => (category ?? each.category) === each.category)
    .filter((each) => isShared === true || each.recipient === recipient)
    .map(({ at }) => at)

function earliestBeside(
  limits: readonly Limit[],
  sent: readonly Sent[],
  { category, recipient }: Omit<Sent, 'at'>,
  from: number,
  hasQuietHours: boolean,
): number {
  const own = limits.filter((limit) => (limit.category ?? category) === category)
  const edges = own.flatMap((limit) =>
    limit.windows.flatMap(({ minutes }) =>
      countedBy(limit, sent, recipient).map((at) => at + minutes * minute + marginMs),
    ),
  )
  if (hasQuietHours)
    for (let at = Math.ceil(from / hour) * hour; at < from + 10 * day; at += hour) edges.push(at)
  const at = [from, ...edges.filter((edge) => edge > from)]
    .filter((edge) => !hasQuietHours || !isQuiet(edge))
    .sort((a, b) => a - b)
    .find((edge) =>
      own.every((limit) =>
        limit.windows.every(({ max, minutes }) =>
          fits(countedBy(limit, sent, recipient), edge, max, minutes),
        ),
      ),
    )
  return at!
}

test(`what became due while no gateway ran leaves in the order of its promises, none later than it must, in ${runs} random runs (seed ${testSeed})`, async () => {
  let [overdue, shifted, latestMs] = [0, 0, 0]
  for (let number = 0; number < runs; number += 1) {
    const draw = seeded(testSeed * 1_000 + number)
    const below = (count: number): number => Math.floor(draw() * count)
    const limits: Limit[] = [
      {
        name: 'all',
        windows: [
          { max: 1 + below(3), minutes: 1 + below(6) },
          ...(below(2) === 0 ? [{ max: 4 + below(4), minutes: 20 + below(20) }] : []),
        ],
      },
      ...(below(2) === 0
        ? [{ name: 'rare', category: 'rare', windows: [{ max: 1, minutes: 5 + below(20) }] }]
        : []),
      ...(below(2) === 0
        ? [{ name: 'shared', category: 'rare', isShared: true, windows: [{ max: 1, minutes: 2 + below(8) }] }]
        : []),
    ]
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
    for (const limit of limits)
      for (const { max, minutes } of limit.windows) {
        for (const recipient of ['u0', 'u1']) {
          const instants = countedBy(limit, all, recipient)
          for (const from of instants)
            assert.ok(
              instants.filter((at) => at >= from && at < from + minutes * minute).length <= max,
              `run ${number}: ${limit.name} is over at ${from}`,
            )
        }
      }
    await after.check()
    await after.stop()
    rmSync(folder, { recursive: true, force: true })
  }
  console.log(
    `${overdue} became due while no gateway ran, ${shifted} could not leave at their instant; the latest left ${latestMs} ms after the oracle's`,
  )
  assert.ok(overdue > 0 && shifted > 0)
})
