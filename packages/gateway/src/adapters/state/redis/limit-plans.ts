/**
 * Plans a subject again that is late (ports/limiter.ts): its entries are read from Redis, and the planned instants written for
 * those that still stand where they were read. Nothing of the subject is fired meanwhile, in any process: the script that
 * refused the first one holds the others up under the token of this plan, which lapses with its process.
 */
import type { RestoredEntry } from '@sluice/limits'
import type { HeldMove, KnownEntries, LateSubject, PlanLate, SubjectEntries } from '../../../ports/limiter.ts'
import type { Subject } from '../../../ports.ts'
import { keepingId, type LimitCalls } from './limit-calls.ts'
import type { LimitHolds } from './limit-holds.ts'

export interface LimitPlansOptions {
  readonly calls: Pick<LimitCalls, 'newToken' | 'run'>
  readonly holds: Pick<LimitHolds, 'note' | 'resume' | 'beginPlan' | 'endPlan'>
  readonly planLate: PlanLate
}

/** Plans the subject, whose others the script holds up under the token. Resolves when these may be fired again; never rejects. */
export type PlanFiring = (late: LateSubject, token: string) => Promise<void>

/** An entry as the script tells it. `cjson` writes no streams as an object. */
type Row = readonly [
  id: string,
  at: number,
  fired: boolean,
  weight: number,
  streams: readonly string[] | object,
]

const entryOf = ([id, at, fired, weight, streams]: Row): RestoredEntry => ({
  id,
  at,
  fired,
  weight,
  streams: Array.isArray(streams) ? streams : [],
})

/** Reads the entries of a subject; none of one that has very many, which keeps what it holds. */
export async function readEntries(
  calls: Pick<LimitCalls, 'run'>,
  subject: Subject,
): Promise<readonly RestoredEntry[]> {
  const [text = '[]'] = await calls.run({ operation: 'entries', subject })
  const rows = JSON.parse(String(text)) as readonly Row[] | object
  return Array.isArray(rows) ? (rows as readonly Row[]).filter(([id]) => id !== keepingId).map(entryOf) : []
}

export function createLimitPlans({ calls, holds, planLate }: LimitPlansOptions): PlanFiring {
  const read = (subject: Subject): Promise<readonly RestoredEntry[]> => readEntries(calls, subject)

  async function readAll(subjects: Iterable<Subject>): Promise<KnownEntries> {
    return new Map(
      await Promise.all(Array.from(subjects, async (subject) => [subject.key, await read(subject)] as const)),
    )
  }

  /** Writes the instants of one subject; true where notifications wait there, which are paused under the token. */
  async function moveIn(
    { subject, rows }: { readonly subject: Subject; readonly rows: readonly unknown[] },
    token: string,
  ): Promise<boolean> {
    const [isPaused] = await calls.run({ operation: 'move', subject, token, own: [JSON.stringify(rows)] })
    if (isPaused === 1) holds.note(subject, token)
    return isPaused === 1
  }

  async function move(moves: readonly HeldMove[], peeked: KnownEntries): Promise<readonly Subject[]> {
    const found = new Map([...peeked].map(([key, entries]) => [key, new Map(entries.map((e) => [e.id, e]))]))
    const bySubject = new Map<string, { readonly subject: Subject; readonly rows: unknown[] }>()
    for (const { id, at, subjects } of moves)
      for (const { subject, streams } of subjects) {
        const before = found.get(subject.key)?.get(id)
        if (before === undefined) continue
        let own = bySubject.get(subject.key)
        if (own === undefined) {
          own = { subject, rows: [] }
          bySubject.set(subject.key, own)
        }
        own.rows.push([id, before.at, before.fired, at, streams])
      }
    const token = calls.newToken()
    const all = [...bySubject.values()]
    const ends = await Promise.allSettled(all.map((each) => moveIn(each, token)))
    const paused = all.flatMap(({ subject }, index) => {
      const end = ends[index]!
      return end.status === 'fulfilled' && end.value ? [subject] : []
    })
    const failure = ends.find((end) => end.status === 'rejected')
    if (failure === undefined) return paused
    await holds.resume(paused)
    throw failure.reason
  }

  return async (late, token) => {
    const { subject } = late
    let peeked: KnownEntries = new Map()
    const entries: SubjectEntries = {
      read,
      async peek(subjects) {
        peeked = await readAll(subjects)
        return peeked
      },
      move: (moves) => move(moves, peeked),
    }
    holds.beginPlan(subject, token)
    try {
      await planLate(late, entries)
    } finally {
      await holds.endPlan(subject, token)
    }
  }
}
