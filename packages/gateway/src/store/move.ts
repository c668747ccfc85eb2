/**
 * Moves a whole record from one store to another: everything is read page by page, written within one transaction of
 * the destination, read back from there, and committed only where both sides are the same. The source is not changed,
 * so a move that ends early is begun anew.
 */
import { hash } from 'node:crypto'
import { SluiceError } from '../errors.ts'
import type { Digest, Job, Notification, Recipient, SharedContent } from '../model.ts'
import type { LogRecord } from '../ports/delivery-log.ts'
import type { FeedbackEvent, SentRecord, WaitingReport } from '../ports/feedback.ts'
import type { IntakePosition, PoisonRecord } from '../ports/intake.ts'
import type { AccountRecord, HoldRecord, JobWork, StoredAnswer, TimeLine } from '../ports.ts'
import { storedJson } from './stored-json.ts'

/** A record that could not be accepted, its bytes in base64. */
type MovedPoison = Omit<PoisonRecord, 'bytes'> & { readonly bytes: string }

/** An entry of a record, by its kind. */
interface Entries {
  /** In the order of acceptance. */
  notification: Notification
  content: SharedContent
  recipient: Recipient
  digest: Digest
  /** A job has `work`, what it has yet to accept, as long as it runs. */
  job: { readonly job: Job; readonly work?: JobWork }
  answer: StoredAnswer
  account: AccountRecord
  hold: HoldRecord
  /** An erasure under way, and the newest notification that it is about; null where there is none. */
  erasure: { readonly tenant: string; readonly recipient: string; readonly newest: string | null }
  feedback: FeedbackEvent
  waitingReport: WaitingReport
  sent: SentRecord
  /** Changes of state that the delivery log has not got yet. */
  log: LogRecord
  position: IntakePosition
  poison: MovedPoison
  timeLine: TimeLine
  /** A secret key of all processes, in base64: of pseudonyms, unsubscribe links, hashes in the log. */
  key: { readonly name: string; readonly value: string }
}

type Kind = keyof Entries

/** A page of entries of one kind: some megabytes at most. */
export type EntryPage = {
  readonly [K in Kind]: { readonly kind: K; readonly entries: readonly Entries[K][] }
}[Kind]

export interface RecordSource {
  /** True if effects of the last commits may be missing: the store was closed unsettled. */
  readonly unsettled: boolean
  /** The number of notifications. */
  count(): Promise<number>
  /** Reads everything, in pages of one kind. */
  pages(): AsyncIterable<EntryPage>
  close(): Promise<void>
}

export interface RecordTarget {
  /** Begins the transaction. */
  begin(): Promise<void>
  write(page: EntryPage): Promise<void>
  /** Reads back, within the transaction, what was written. */
  pages(): AsyncIterable<EntryPage>
  /** Commits; whoever opens the store then finds it as the source was closed. */
  commit(unsettled: boolean): Promise<void>
  /** Closes; without a commit nothing was written. */
  close(): Promise<void>
}

/** The number of entries and a hash over all of them. */
interface Summary {
  readonly count: number
  readonly hash: string
}

export type Summaries = Readonly<Partial<Record<Kind, Summary>>>

/** `share` of the work that is done, from 0 to 1. */
type OnProgress = (share: number) => void

/** Reads everything of a source. */
export async function readRecord(source: RecordSource, onProgress: OnProgress): Promise<Summaries> {
  const total = Math.max(1, await source.count())
  return summaryOf(source.pages(), (read) => onProgress(read / total))
}

/** @throws SluiceError STORE_UNAVAILABLE where the destination does not hold what the source does; nothing is written then */
export async function moveRecord(
  source: RecordSource,
  target: RecordTarget,
  onProgress: OnProgress,
): Promise<Summaries> {
  const total = Math.max(1, await source.count())
  await target.begin()
  const moved = await summaryOf(written(source, target), (read) => onProgress(read / total / 2))
  const found = await summaryOf(target.pages(), (read) => onProgress(0.5 + read / total / 2))
  const kinds = new Set([...Object.keys(moved), ...Object.keys(found)]) as ReadonlySet<Kind>
  for (const kind of kinds) {
    const [from, to] = [moved[kind], found[kind]]
    if (from?.count !== to?.count || from?.hash !== to?.hash)
      throw new SluiceError(
        'STORE_UNAVAILABLE',
        `The move was not kept: of ${kind} ${from?.count ?? 0} were read and ${to?.count ?? 0} found at the destination, with ${from?.count === to?.count ? 'other content' : 'another count'}. The source is as it was.`,
      )
  }
  await target.commit(source.unsettled)
  return moved
}

async function* written(source: RecordSource, target: RecordTarget): AsyncIterable<EntryPage> {
  for await (const page of source.pages()) {
    await target.write(page)
    yield page
  }
}

/** Counts and hashes entries: the sum of their hashes, so that the order of reading does not matter. */
async function summaryOf(
  pages: AsyncIterable<EntryPage>,
  onRead: (notifications: number) => void,
): Promise<Summaries> {
  const sums = new Map<Kind, { count: number; sum: bigint }>()
  for await (const { kind, entries } of pages) {
    const known = sums.get(kind) ?? { count: 0, sum: 0n }
    for (const entry of entries) {
      known.count += 1
      // Their order is a fact of its own: which of two is the older one.
      const place = kind === 'notification' ? known.count : 0
      known.sum = BigInt.asUintN(128, known.sum + hashOf(`${place} ${canonical(entry)}`))
    }
    if (entries.length > 0) sums.set(kind, known)
    if (kind === 'notification') onRead(known.count)
  }
  return Object.fromEntries(
    [...sums].map(([kind, { count, sum }]) => [kind, { count, hash: sum.toString(16).padStart(32, '0') }]),
  )
}

const hashOf = (text: string): bigint => BigInt(`0x${hash('sha256', text, 'hex').slice(0, 32)}`)

/** The JSON of a value as it is stored, with the fields in the order of their names. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return storedJson(value) ?? 'null'
  const fields = Object.entries(value)
    .filter(([, of]) => of !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([name, of]) => `${JSON.stringify(name)}:${canonical(of)}`).join(',')}}`
}

/** Collects what is read one by one into pages. */
export function* paged<T>(entries: Iterable<T>, max: number): Iterable<readonly T[]> {
  let page: T[] = []
  for (const entry of entries) {
    page.push(entry)
    if (page.length < max) continue
    yield page
    page = []
  }
  if (page.length > 0) yield page
}
