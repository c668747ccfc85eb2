/**
 * Finds out from the record if a change whose answer was lost is on it. A change is written whole or not at all, so one
 * write that leaves a trace of its own decides: ids of notifications are used once, and a move adds an event. What was
 * written later does not hide it. Another process may have made the same change within the same millisecond; then the
 * record tells which of them has written the version that stands there.
 */
import { eventAt, isFinal, type Notification, revisionOf } from '../model.ts'
import type { AccountRecord, Change, DigestWrite, HoldRecord, HoldWrite, JobWrite, Store } from '../ports.ts'

export type LookedUp = Pick<
  Store,
  'notification' | 'job' | 'answer' | 'recipient' | 'digest' | 'accounts' | 'holds'
>

/** A notification as it is on record. */
interface Written {
  readonly notification: Notification
  /** Another process has written this version. */
  readonly isOthers: boolean
}

/** Reads a notification with its writer, both at one instant. */
export type FindWritten = (tenant: string, id: string) => Promise<Written | undefined>

/**
 * Tests if the change is on record. The reads must see every write that was sent before them.
 *
 * @param find - where several processes write the record; absent: whatever is on it was written by this one
 */
export async function isOnRecord(store: LookedUp, change: Change, find?: FindWritten): Promise<boolean> {
  const {
    accept = [],
    moves = [],
    jobs = [],
    recipients = [],
    digests = [],
    accounts = [],
    holds = [],
  } = change
  const { answer } = change
  const rows = [...accept, ...moves.map(({ after }) => after)]
  // The writer of a final version stays on record: no later version takes its place.
  const row = rows.find(({ status }) => isFinal(status)) ?? rows[0]
  if (row !== undefined) {
    if (find === undefined) return isContained(await store.notification(row.tenant, row.id), row)
    const written = await find(row.tenant, row.id)
    return isContained(written?.notification, row, written?.isOthers)
  }
  if (jobs[0] !== undefined) return jobIsWritten(store, jobs[0])
  if (answer !== undefined) {
    const stored = await store.answer(answer)
    return stored?.createdAt === answer.createdAt && stored.requestHash === answer.requestHash
  }
  if (digests[0] !== undefined) return digestIsWritten(store, digests[0])
  // Preferences, accounts and holds are replaced as a whole: one that differs is written again.
  for (const { version: _, ...recipient } of recipients) {
    const { version: _version, ...stored } = (await store.recipient(recipient.tenant, recipient.id)) ?? {}
    return isSame(stored, recipient)
  }
  for (const record of accounts) return accountIsWritten(await store.accounts(), record)
  if (holds.length === 0) return true
  const stored = await store.holds()
  return holds.every((write) => holdIsWritten(stored, write))
}

/** Tests if the row has been in this version: the last event of the version stands at its place in the timeline. */
function isContained(stored: Notification | undefined, version: Notification, isOthers = false): boolean {
  if (stored === undefined) return false
  const event = eventAt(stored, revisionOf(version) - 1)
  const last = version.timeline.at(-1)!
  const isNewer = revisionOf(stored) > revisionOf(version)
  if (!isNewer && isOthers) return false
  if (!isNewer && (stored.dueAt !== version.dueAt || stored.attempts !== version.attempts)) return false
  return event?.at === last.at && event.status === last.status && event.reason === last.reason
}

async function jobIsWritten(store: LookedUp, write: JobWrite): Promise<boolean> {
  const { tenant, id } = write.kind === 'open' ? write.job : write.after
  const stored = await store.job(tenant, id)
  if (stored === undefined || write.kind === 'open') return stored !== undefined
  const { before, after } = write
  return stored.taken >= after.taken && (after.status === before.status || stored.status === after.status)
}

async function digestIsWritten(store: LookedUp, { kind, digest }: DigestWrite): Promise<boolean> {
  const stored = await store.digest(digest.id)
  if (kind === 'close') return stored === undefined
  if (stored === undefined || kind !== 'postpone') return stored !== undefined
  return stored.closesAt === digest.closesAt && isSame(stored.heldAs ?? {}, digest.heldAs ?? {})
}

/** Tests if the record of an account stands there. One that holds nothing removes it. */
function accountIsWritten(stored: readonly AccountRecord[], record: AccountRecord): boolean {
  const { channel, provider, account, ...held } = record
  const own = stored.find(
    (each) => each.channel === channel && each.provider === provider && each.account === account,
  )
  return Object.keys(held).length === 0 ? own === undefined : isSame(own, record)
}

/** Tests if the hold stands there, or has ended; another one of its name may have been put in force since. */
function holdIsWritten(stored: readonly HoldRecord[], write: HoldWrite): boolean {
  const name = write.kind === 'end' ? write.name : write.hold.name
  const own = stored.find((each) => each.name === name)
  if (write.kind === 'put') return isSame(own, write.hold)
  return own === undefined || (write.until !== undefined && own.until !== write.until)
}

/** Compares two records as they would be stored, in whatever order their fields are. */
function isSame(stored: object | undefined, record: object): boolean {
  const text = (of: object): string =>
    JSON.stringify(of, (_, value: unknown) =>
      value === null || typeof value !== 'object' || Array.isArray(value)
        ? value
        : Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))),
    )
  return stored !== undefined && text(stored) === text(record)
}
