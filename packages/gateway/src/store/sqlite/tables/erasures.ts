/**
 * Erases a recipient, a slice of rows in each transaction. The recipient's rows stay for the counts, under a
 * pseudonym (made outside under a key that is not in this file), without addresses, content and details; the opt-outs
 * stay under it, too. All erasing of the file's rows is here.
 *
 * The steps: `begin` takes the preferences and the remaining work of jobs; `rows` takes ended notifications and names
 * the others; `answers` takes the recipient out of stored answers; `finish` takes the recipient out of what jobs refused
 * meanwhile, and forgets the request. Each may be repeated.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Recipient, TimelineEvent } from '../../../model.ts'
import type { ReportedOf } from '../../../ports/recipients.ts'
import { finalCodes } from '../../status-codes.ts'
import { checksumOf, isSound, unsoundSumOf } from '../codec/checksum.ts'
import type { LongRow, Row, ShortRow } from '../codec/rows.ts'
import { columns, longText, seqOf, shortAt, shortTexts } from '../codec/rows.ts'
import type { RecipientIndex } from '../indexes/recipient-index.ts'
import { rowsOf } from '../indexes/recipient-index.ts'
import type { Answers } from './answers.ts'
import type { Contents } from './contents.ts'
import type { Digests } from './digests.ts'
import type { FeedbackWrites } from './feedback.ts'
import type { Jobs } from './jobs.ts'
import type { Recipients } from './recipients.ts'

/** A recipient to erase, and its pseudonym. */
export interface Erased {
  readonly tenant: string
  readonly recipient: string
  readonly pseudonym: string
}

type ErasedRows =
  /** These notifications have not ended: nothing was done. */
  | { readonly open: readonly string[] }
  /** `until`: the newest row that it is about; absent where another erasure of the recipient has ended it. */
  | { readonly more: boolean; readonly until?: number }

export interface Erasures {
  begin(erased: Erased): void
  rows(erased: Erased, max: number): ErasedRows
  /** Returns the next position; undefined at the end. */
  answers(erased: Erased, after: number, max: number): number | undefined
  /** Ends the erasure up to this row; one that was begun again meanwhile goes on. */
  finish(erased: Erased, until: number): void
  /** True while a notification names its recipient, who is not being erased. */
  isLeft(of: ReportedOf): boolean
  /** Erasures that were begun and not finished. */
  pending(): readonly Pick<Erased, 'tenant' | 'recipient'>[]
}

export interface ErasuresParts {
  readonly db: DatabaseSync
  readonly recipientIndex: RecipientIndex
  readonly recipients: Recipients
  readonly digests: Pick<Digests, 'forget'>
  readonly jobs: Jobs
  readonly answers: Answers
  readonly contents: Pick<Contents, 'count'>
  readonly feedback: Pick<FeedbackWrites, 'forget'>
}

/** True if any recipient was ever erased: before that nobody is looked up under a pseudonym. */
export const erasedName = 'erased'
/** The maximum number of unfinished notifications returned at once. */
const openMax = 100

export function prepareErasures(parts: ErasuresParts): Erasures {
  const { db, recipientIndex, recipients, digests, jobs, answers, contents, feedback } = parts
  // One that is begun again is about all that came meanwhile, too.
  const insert = db.prepare('INSERT OR REPLACE INTO erasures (tenant, recipient) VALUES (?, ?)')
  const mark = db.prepare(`INSERT OR REPLACE INTO meta VALUES ('${erasedName}', 1)`)
  const bound = db.prepare(`UPDATE erasures SET until_seq = coalesce(until_seq, ?)
    WHERE tenant = ? AND recipient = ? RETURNING until_seq AS until`)
  const unbind = db.prepare('UPDATE erasures SET until_seq = NULL WHERE tenant = ? AND recipient = ?')
  const newest = db.prepare('SELECT coalesce(max(seq), 0) AS seq FROM notifications')
  const remove = db.prepare('DELETE FROM erasures WHERE tenant = ? AND recipient = ? AND until_seq = ?')
  const left = db.prepare(`SELECT 1 FROM notifications WHERE id = ?1 AND tenant = ?2 AND recipient = ?3
    AND NOT EXISTS (SELECT 1 FROM erasures WHERE tenant = ?2 AND recipient = ?3)`)
  const all = db.prepare('SELECT tenant, recipient FROM erasures')
  const of = (what: string, where: string) =>
    db.prepare(`SELECT ${what} FROM ${rowsOf} r CROSS JOIN notifications n USING (seq) CROSS JOIN states s USING (seq)
      WHERE n.tenant = ?3 AND n.recipient = ?4 AND n.seq <= ?5 AND s.status ${where} ${finalCodes} LIMIT ?6`)
  const open = of('n.id', 'NOT IN')
  const ended = of(columns, 'IN')
  ended.setReturnArrays(true)
  const updateLong = db.prepare(
    'UPDATE notifications SET recipient = ?, request = ?, sum = ?, shared = NULL WHERE seq = ?',
  )
  const updateShort = db.prepare('UPDATE states SET timeline = ?, sum = ? WHERE seq = ?')

  function eraseRow(row: Row, { tenant, recipient, pseudonym }: Erased): void {
    const seq = seqOf(row)
    const long = row.slice(1, shortAt) as unknown as LongRow
    const short = row.slice(shortAt) as unknown as ShortRow
    const [before, behind] = shortTexts(short)
    const isLongSound = isSound(longText(long), long[9])
    const isShortSound = isSound(`${before}${short[11]}${behind}`, short[12])
    const request = isLongSound ? anonymousRequest(long[7], pseudonym) : '{}'
    const shared = long[11]
    const after = long.with(2, pseudonym).with(7, request).with(11, null) as unknown as LongRow
    // Shared content stays as long as another notification on record refers to it.
    if (shared !== null) contents.count(shared, -1, 0)
    updateLong.run(pseudonym, request, (isLongSound ? checksumOf : unsoundSumOf)(longText(after)), seq)
    const timeline = isShortSound ? anonymousTimeline(short[11]) : '[]'
    updateShort.run(
      timeline,
      (isShortSound ? checksumOf : unsoundSumOf)(`${before}${timeline}${behind}`),
      seq,
    )
    recipientIndex.rename(tenant, recipient, pseudonym, seq)
    feedback.forget(tenant, long[0])
  }

  return {
    begin(erased) {
      const { tenant, recipient, pseudonym } = erased
      insert.run(tenant, recipient)
      mark.run()
      const body = recipients.take(tenant, recipient)
      const optOuts = optOutsIn(body)
      if (optOuts !== undefined && optOuts.length > 0)
        recipients.write(tenant, pseudonym, JSON.stringify({ tenant, id: pseudonym, optOuts }))
      jobs.rename(tenant, recipient, pseudonym)
    },

    rows(erased, max) {
      const { tenant, recipient } = erased
      const until = bound.get(Number(newest.get()!.seq), tenant, recipient)?.until
      if (until === undefined) return { more: false }
      const end = Number(until)
      const found = recipientIndex.lookup(tenant, recipient)
      if (found === undefined) return { more: false, until: end }
      const names = [...found, tenant, recipient, end] as const
      const waiting = open.all(...names, openMax)
      if (waiting.length > 0) {
        // A digest that is made of them is accepted after all that is on record now.
        unbind.run(tenant, recipient)
        return { open: waiting.map(({ id }) => id as string) }
      }
      const rows = ended.all(...names, max) as unknown as readonly Row[]
      for (const row of rows) eraseRow(row, erased)
      return { more: rows.length === max, until: end }
    },

    answers: ({ tenant, recipient, pseudonym }, after, max) =>
      answers.rename({ tenant, recipient, pseudonym, after, max }),

    finish({ tenant, recipient, pseudonym }, until) {
      digests.forget(tenant, recipient)
      if (remove.run(tenant, recipient, until).changes > 0) jobs.renameRefused(tenant, recipient, pseudonym)
    },

    isLeft: ({ notificationId, tenant, recipient }) =>
      left.get(notificationId, tenant, recipient) !== undefined,

    pending: () =>
      all.all().map(({ tenant, recipient }) => ({ tenant: String(tenant), recipient: String(recipient) })),
  }
}

/** The opt-outs in a recipient's row; none where the row is damaged and no JSON any more: it is erased all the same. */
function optOutsIn(body: string | undefined): Recipient['optOuts'] {
  try {
    return body === undefined ? undefined : (JSON.parse(body) as Recipient).optOuts
  } catch {
    return undefined
  }
}

/** A request with only the fields that limits select and count by, and nothing of the recipient or the content. */
function anonymousRequest(request: string, pseudonym: string): string {
  const { module, priority, template, actor, actors, sendAt, expiresAt } = JSON.parse(request) as Record<
    string,
    unknown
  >
  const to = { id: pseudonym }
  // The fingerprint is emptied, because it would confirm a guessed content.
  return JSON.stringify({ module, to, priority, template, actor, actors, sendAt, expiresAt, fingerprint: '' })
}

/** Details are texts of others, which may repeat an address. */
function anonymousTimeline(timeline: string): string {
  const events = JSON.parse(timeline) as readonly TimelineEvent[]
  return JSON.stringify(events.map(({ detail: _, ...event }) => event))
}
