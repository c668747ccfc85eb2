/**
 * Several processes send notifications to the same recipients while Redis loses everything again and again: no rolling window
 * of the instants at which they were fired is above its maximum. The record is kept by the test, as a store keeps it: a
 * notification has the right to be sent on record before it is fired. The windows are counted by code that knows nothing of
 * the limits.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Limit, limit, parseWindow } from '@sluice/limits'
import { seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { startRedis } from '../../../../../../scripts/services/redis.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { createRedisLimits } from '../../../../src/adapters/state/redis/redis-limits.ts'
import { createRedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { SluiceError } from '../../../../src/errors.ts'
import type { RecoveredSubject } from '../../../../src/ports/recovered-subject.ts'
import type { LimitRequest, LimitState, Subject } from '../../../../src/ports.ts'
import { connect, createEnd, demote, loseAgainAndAgain } from './losses.ts'

const seconds = Number(process.env.SLUICE_SECONDS ?? 6)
const processes = Number(process.env.SLUICE_PROCESSES ?? 4)
/** No more are accepted while so many wait: each would be fired again and again. */
const waitingMax = 60
const random = seededRandom(seedOfRun())
const clock = createSystemClock()
const windows = ['3/300ms', '12/2s']
const rules: readonly Limit[] = windows.map((window) => limit(window, window, { stream: 'all' }))
const subjects = ['ada', 'bob', 'cyd', 'dan'].map(
  (recipient): Subject => ({ key: `acme/${recipient}`, tenant: 'acme', recipient }),
)

interface Row {
  readonly id: string
  readonly subject: Subject
  status: 'scheduled' | 'sending' | 'sent'
  dueAt: number
  firedAt?: number
}

interface World {
  readonly fleet: readonly LimitState[]
  readonly rows: Map<string, Row>
  /** The instants at which notifications were fired, by recipient: what the limits are about. */
  readonly fired: Map<string, number[]>
  readonly counts: {
    accepted: number
    fired: number
    later: number
    unavailable: number
    reads: number
    lost: number
  }
  readonly isOver: () => boolean
}

/** Reads the facts of a subject, as they were some milliseconds ago when they arrive. */
async function recover(
  { rows, counts }: Pick<World, 'rows' | 'counts'>,
  { key }: Subject,
): Promise<RecoveredSubject> {
  counts.reads += 1
  await sleep(random.below(4))
  const now = clock.now()
  const entries = [...rows.values()].flatMap(({ id, subject, status, dueAt, firedAt }) => {
    if (subject.key !== key || (firedAt !== undefined && firedAt < now - 3_000)) return []
    const at = status === 'scheduled' ? dueAt : (firedAt ?? now)
    return [{ id, at, fired: status !== 'scheduled', streams: ['all'] }]
  })
  await sleep(random.below(6))
  return { entries, fingerprints: [], waitlist: [] }
}

const isAway = (error: unknown): boolean => error instanceof SluiceError && error.code === 'STATE_UNAVAILABLE'
let serial = 0

/** Accepts one notification after the other in one process. */
async function accept({ rows, counts, isOver }: World, state: LimitState): Promise<void> {
  while (!isOver()) {
    await sleep(random.below(40))
    if ([...rows.values()].filter(({ status }) => status !== 'sent').length > waitingMax) continue
    serial += 1
    const row = { id: String(serial).padStart(8, '0'), subject: random.pick(subjects) }
    // A third of them hold no place, as those of a retry: only the limits at their release keep the windows.
    if (random.once(3)) {
      rows.set(row.id, { ...row, status: 'scheduled', dueAt: clock.now() })
      continue
    }
    try {
      const [place] = await state.reserve([{ ...row, rules, horizonMs: 5_000 }])
      if (!place!.held) continue
      // The way to the store.
      await sleep(random.below(6))
      rows.set(row.id, { ...row, status: 'scheduled', dueAt: place!.at })
      counts.accepted += 1
    } catch (error) {
      if (!isAway(error)) throw error
      counts.unavailable += 1
    }
  }
}

/** Sends one that is due: the right is on record before it is fired. */
async function send({ rows, fired, counts, fleet }: World, row: Row): Promise<void> {
  const { id, subject } = row
  row.status = 'sending'
  await sleep(random.below(5))
  const request: LimitRequest = { subject, id, rules }
  try {
    const [answer] = await random.pick(fleet).fire([request])
    if (answer!.fired) {
      counts.fired += 1
      fired.get(subject.key)!.push(answer!.at)
      // The call, and the way to the store.
      await sleep(random.below(120))
      rows.set(id, { ...row, status: 'sent', firedAt: answer!.at })
    } else {
      counts.later += 1
      rows.set(id, { ...row, status: 'scheduled', dueAt: answer!.at })
    }
    if (answer!.freed !== undefined) await Promise.all(fleet.map((state) => state.resume([subject])))
  } catch (error) {
    if (!isAway(error)) throw error
    counts.unavailable += 1
    // The answer may be lost: it is not sent, and fired again.
    rows.set(id, { ...row, status: 'scheduled', dueAt: clock.now() + 20 })
  }
}

async function sendDue(world: World): Promise<void> {
  const sending = new Set<Promise<void>>()
  while (!world.isOver()) {
    await sleep(4)
    for (const row of world.rows.values()) {
      if (row.status !== 'scheduled' || row.dueAt > clock.now()) continue
      const work = send(world, row).finally(() => sending.delete(work))
      sending.add(work)
    }
  }
  await Promise.all(sending)
}

/** Windows that hold more than their maximum. */
function over(fired: World['fired']): string[] {
  return [...fired].flatMap(([key, all]) => {
    const instants = all.toSorted((a, b) => a - b)
    return windows.map(parseWindow).flatMap(({ max, windowMs, text }) =>
      instants.flatMap((at, index) => {
        const last = instants[index + max]
        return last !== undefined && last - at < windowMs
          ? [`${key}: ${max + 1} of ${text} in ${last - at} ms`]
          : []
      }),
    )
  })
}

async function run(
  t: TestContext,
  url: string,
  lose: () => Promise<unknown>,
  pauseMs: readonly [number, number],
  isMet: (counts: World['counts']) => boolean,
): Promise<void> {
  const registrations = createMemoryRegistrations()
  const rows = new Map<string, Row>()
  const counts = { accepted: 0, fired: 0, later: 0, unavailable: 0, reads: 0, lost: 0 }
  const fleet = Array.from({ length: processes }, (_, index) => {
    const redis = createRedisState({ url, registrations, clock, deadlineMs: 1_000 })
    const state = createRedisLimits({
      redis,
      clock,
      member: `m${index}`,
      marginMs: 5,
      recover: (subject) => recover({ rows, counts }, subject),
      rulesName: () => 'rules',
    })
    t.after(async () => {
      await state.close()
      redis.close()
    })
    return state
  })
  const fired = new Map(subjects.map(({ key }) => [key, [] as number[]]))
  const firedMin = 20 * (seconds - 2)
  const isOver = createEnd(seconds * 1_000, () => counts.fired > firedMin && isMet(counts))
  const world: World = { fleet, rows, fired, counts, isOver }
  await Promise.all([
    ...fleet.map((state) => accept(world, state)),
    sendDue(world),
    loseAgainAndAgain({ ...world, random, lose, pauseMs }),
  ])
  t.diagnostic(`seed ${seedOfRun()}: ${JSON.stringify(counts)}`)
  assert.deepEqual(over(fired), [])
  assert.ok(counts.fired > firedMin, `${counts.fired} were fired`)
  assert.ok(isMet(counts), `subjects were lost and filled too seldom: ${JSON.stringify(counts)}`)
}

describe('limits of recipients in several processes', () => {
  it('keep every window when Redis forgets everything ten times a second', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const admin = connect(t, service.url)
    const isMet = ({ lost, reads }: World['counts']) => lost > 10 && reads > 40
    await run(t, service.url, () => admin.flushall(), [20, 180], isMet)
  })

  it('keep every window when the server is demoted, promoted, and comes back with what it had', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const admin = connect(t, service.url)
    const isMet = ({ reads }: World['counts']) => reads > 3 * subjects.length
    await run(t, service.url, () => demote(admin), [200, 500], isMet)
  })
})
