/**
 * Digests of one second under load and kills: clients post batches for a few people, so that items join all the time
 * while digests close, and the process is killed (SIGKILL) again and again, at moments and with recipients that depend
 * on the seed. What comes of it is read from the file.
 */

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, type Site } from '../child.ts'
import { seeded } from '../harness.ts'

const windowMs = 1_000
const recipientsMax = 16
const batchMax = 25
const lateMsMax = 1_000
/** Final states as the file has them: see status-codes.ts of the store. */
const finalFrom = 6

export interface Race {
  readonly items: number
  readonly kills: number
  readonly clients: number
  readonly seed: number
  /** Is told the process that runs, to measure it. */
  readonly watch?: (pidOf: () => number | undefined) => void
}

export interface RaceResult {
  readonly acknowledged: number
  readonly onRecord: number
  readonly missing: number
  readonly notFinal: number
  readonly late: number
  readonly latestMs: number
  readonly digests: number
  /** The first start, epoch ms. */
  readonly startedAt: number
  /** The kills, until the next process was ready, epoch ms. */
  readonly pauses: readonly Pause[]
  /** The digests of late items, the latest first. */
  readonly lateDigests: readonly LateDigest[]
  readonly kills: number
  readonly tookMs: number
}

/** Instants are ms since the first start. */
interface LateDigest {
  readonly digest: string
  readonly items: number
  readonly firstJoinedAt: number
  readonly lastJoinedAt: number
  readonly leftAt: number
  readonly lateMs: number
  /** The last restart before it left: when the process was killed, and when the next one was ready. */
  readonly restart: Pause | undefined
}

interface Pause {
  readonly from: number
  readonly to: number
}

interface Row {
  readonly id: string
  readonly status: number
  readonly digest: string | null
  readonly timeline: string
}

interface Event {
  readonly at: number
  readonly status: string
}

export async function race(options: Race): Promise<RaceResult> {
  const cleanups: (() => unknown)[] = []
  const site = await createSite(
    { after: (cleanup: () => unknown) => void cleanups.push(cleanup) } as Parameters<typeof createSite>[0],
    {
      policy: {
        version: 1,
        limits: [],
        digests: [
          {
            name: 'news',
            for: { template: 'new-comment' },
            window: `${windowMs}ms`,
            template: 'activity-digest',
          },
        ],
      },
    },
  )
  try {
    return await raceOn(site, options)
  } finally {
    for (const cleanup of cleanups.toReversed()) await cleanup()
  }
}

async function raceOn(site: Site, { items, kills, clients, seed, watch }: Race): Promise<RaceResult> {
  watch?.(() => site.pid)
  const acknowledged = new Set<string>()
  const pauses: Pause[] = []
  const chance = seeded(seed)
  const begun = performance.now()
  let posted = 0
  await site.start()
  const startedAt = Date.now()

  async function client(number: number): Promise<void> {
    while (acknowledged.size < items) {
      posted += 1
      const first = Math.floor(chance() * recipientsMax)
      const recipients = Array.from({ length: batchMax }, (_, index) => ({
        id: `p${(first + index * 5) % recipientsMax}`,
        email: 'ada@example.com',
        data: { posted, index, number },
      }))
      const body = { channel: 'email', category: 'product', template: 'new-comment', recipients }
      const answer = await site.call('POST', '/api/v1/notifications/batch', body).catch(() => undefined)
      if (answer?.status !== 202) {
        await sleep(20)
        continue
      }
      for (const { notificationId } of answer.json<{ results: { notificationId?: string }[] }>().results)
        if (notificationId !== undefined) acknowledged.add(notificationId)
    }
  }

  async function killer(): Promise<void> {
    for (let kill = 1; kill <= kills; kill += 1) {
      while (acknowledged.size < (items * kill) / (kills + 1)) await sleep(5)
      // At any moment of the window.
      await sleep(chance() * windowMs)
      const from = Date.now()
      await site.kill()
      await site.start()
      pauses.push({ from, to: Date.now() })
    }
  }

  await Promise.all([...Array.from({ length: clients }, (_, number) => client(number)), killer()])
  await drained(site)
  await site.terminate()
  return { ...read(site, acknowledged, pauses, startedAt), kills, tookMs: performance.now() - begun }
}

/** Until nothing waits, two minutes at most: what is left then is left for ever. */
async function drained(site: Site): Promise<void> {
  for (let tries = 0; tries < 600; tries += 1) {
    const { text } = await site.call('GET', '/metrics')
    const waits = [...text.matchAll(/^sluice_notifications\{status="(\w+)"\} (\d+)$/gm)]
      .filter(([, status]) => ['scheduled', 'digesting', 'queued', 'sending'].includes(status!))
      .reduce((sum, [, , count]) => sum + Number(count), 0)
    if (waits === 0) return
    await sleep(200)
  }
}

function read(site: Site, acknowledged: ReadonlySet<string>, pauses: readonly Pause[], startedAt: number) {
  const db = new DatabaseSync(join(site.folder, 'data', 'sluice.db'), { readOnly: true })
  const missing = new Set(acknowledged)
  let onRecord = 0
  let notFinal = 0
  let late = 0
  let latestMs = 0
  let digests = 0
  const lates = new Map<string, LateDigest>()
  const rows = db
    .prepare(
      'SELECT n.id, s.status, s.digest_id AS digest, s.timeline FROM notifications n JOIN states s USING (seq)',
    )
    .iterate() as Iterable<Row>
  for (const { id, status, digest, timeline } of rows) {
    missing.delete(id)
    if (status < finalFrom) notFinal += 1
    const events = JSON.parse(timeline) as readonly Event[]
    const joined = events.find((event) => event.status === 'digesting')
    if (joined === undefined) {
      digests += 1
      continue
    }
    onRecord += 1
    const left = events.find((event) => event.status !== 'digesting' && event.status !== 'accepted')
    if (left === undefined) continue
    const lateMs = lateness(joined.at + windowMs, left.at, pauses)
    latestMs = Math.max(latestMs, lateMs)
    if (lateMs <= lateMsMax) continue
    late += 1
    const known = lates.get(digest!)
    const restart = pauses.findLast(({ from }) => from <= left.at)
    lates.set(digest!, {
      digest: digest!,
      items: (known?.items ?? 0) + 1,
      firstJoinedAt: Math.min(known?.firstJoinedAt ?? Number.POSITIVE_INFINITY, joined.at - startedAt),
      lastJoinedAt: Math.max(known?.lastJoinedAt ?? 0, joined.at - startedAt),
      leftAt: left.at - startedAt,
      lateMs: Math.max(known?.lateMs ?? 0, lateMs),
      restart: restart && { from: restart.from - startedAt, to: restart.to - startedAt },
    })
  }
  db.close()
  return {
    acknowledged: acknowledged.size,
    onRecord,
    missing: missing.size,
    notFinal,
    late,
    latestMs,
    digests,
    startedAt,
    pauses,
    lateDigests: [...lates.values()].toSorted((a, b) => b.lateMs - a.lateMs),
  }
}

/** How long after its promise it left, without the time in which no process ran. */
function lateness(promised: number, left: number, pauses: readonly Pause[]): number {
  const away = pauses.reduce(
    (sum, { from, to }) => sum + Math.max(0, Math.min(left, to) - Math.max(promised, from)),
    0,
  )
  return left - promised - away
}
