/** Reads a whole file for its move to another store: all of its tables, by a connection that cannot write. */
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { dataOf } from '../../content.ts'
import type { Recipient } from '../../model.ts'
import type { JobWork, StoredAnswer } from '../../ports.ts'
import { type EntryPage, paged, type RecordSource } from '../move.ts'
import { checksum } from './codec/checksum.ts'
import { columns, type Row, readNotification } from './codec/rows.ts'
import { openUnused } from './database.ts'
import { prepareJobWork, readWork } from './job-work.ts'
import { prepareAccounts } from './tables/accounts.ts'
import { prepareContentReads, prepareContents } from './tables/contents.ts'
import { prepareDigests } from './tables/digests.ts'
import { feedbackPages, sentRecords, waitingReports } from './tables/feedback.ts'
import { prepareHolds } from './tables/holds.ts'
import { intakePositions, poisonPages } from './tables/intake.ts'
import { prepareJobs } from './tables/jobs.ts'
import { outboxPages } from './tables/outbox.ts'
import { prepareParts } from './tables/parts.ts'
import { prepareTimeLine } from './tables/time-line.ts'

/** Entries of a page: some kilobytes each. Contents and jobs may have megabytes, and make up a page each. */
const pageMax = 500
/** Records that could not be accepted have up to 64 KiB each. */
const poisonMax = 50

/** The secret keys that stand in files beside the store, as the table of a server names them. */
export const keyFiles = ['erasure', 'unsubscribe', 'log'] as const

/**
 * Opens a file for its move.
 * @throws SluiceError INVALID_CONFIG where it is in use, was not closed cleanly, or is of another version;
 * STORE_UNAVAILABLE where it is damaged
 */
export function openSqliteSource(path: string): RecordSource {
  const { db, unsettled, close } = openUnused(path)
  return {
    unsettled,
    count: async () => Number(db.prepare('SELECT count(*) AS n FROM notifications').get()!.n),
    async *pages() {
      yield* entriesOf(db)
      const keys = keyFiles.flatMap((name) => {
        const file = join(dirname(path), `${name}.key`)
        if (!existsSync(file)) return []
        return [{ name, value: Buffer.from(readFileSync(file, 'utf8').trim()).toString('base64') }]
      })
      yield { kind: 'key', entries: keys }
    },
    close: async () => close(),
  }
}

export function* entriesOf(db: DatabaseSync): Generator<EntryPage> {
  const parts = prepareParts(db)
  const jobs = prepareJobs(db, prepareContents(db, parts), parts)
  const { content } = prepareContentReads(db)
  const { jobWork } = prepareJobWork(db)
  const named = (table: string) =>
    db.prepare(`SELECT tenant, id FROM ${table} ORDER BY id`).all() as { tenant: string; id: string }[]

  for (const { tenant, id } of named('contents'))
    yield { kind: 'content', entries: [content(tenant, id)].filter((each) => each !== undefined) }
  for (const { tenant, id } of named('jobs')) {
    const job = jobs.find(tenant, id)!
    const work = job.status === 'running' ? jobWork({ tenant, id }) : undefined
    yield {
      kind: 'job',
      entries: [{ job, ...(work === undefined ? {} : { work: plainWork(readWork(work)) }) }],
    }
  }
  const digests = prepareDigests(db)
  const open = db.prepare('SELECT id FROM digests ORDER BY id').all() as { id: string }[]
  for (const page of paged(open, pageMax))
    yield { kind: 'digest', entries: page.map(({ id }) => digests.byId(id)!) }

  const following = db.prepare(
    `SELECT ${columns} FROM notifications n CROSS JOIN states s USING (seq) WHERE n.seq > ? ORDER BY n.seq LIMIT ?`,
  )
  following.setReturnArrays(true)
  for (let rows = following.all(0, pageMax) as unknown as Row[]; rows.length > 0; ) {
    yield { kind: 'notification', entries: rows.map(readNotification) }
    rows = following.all(rows.at(-1)![0]!, pageMax) as unknown as Row[]
  }

  const recipients = db.prepare('SELECT tenant, id, body, sum FROM recipients ORDER BY tenant, id').iterate()
  for (const page of paged(recipients, pageMax))
    yield {
      kind: 'recipient',
      entries: page.map(({ id, body, sum }) => {
        checksum(body as string, sum, `recipient ${id}`)
        return JSON.parse(body as string) as Recipient
      }),
    }
  const answers = db.prepare('SELECT seq, body, sum FROM answers ORDER BY seq').iterate()
  for (const page of paged(answers, pageMax))
    yield {
      kind: 'answer',
      entries: page.map(({ seq, body, sum }) => {
        checksum(body as string, sum, `the stored answer ${seq}`)
        return JSON.parse(body as string) as StoredAnswer
      }),
    }
  yield { kind: 'account', entries: sound(prepareAccounts(db).read()) }
  yield { kind: 'hold', entries: sound(prepareHolds(db).read()) }
  for (const page of feedbackPages(db, pageMax)) yield { kind: 'feedback', entries: sound(page) }
  yield { kind: 'waitingReport', entries: sound(waitingReports(db)) }
  for (const page of paged(sentRecords(db), pageMax)) yield { kind: 'sent', entries: page }
  for (const page of outboxPages(db)) yield { kind: 'log', entries: sound(page) }
  yield { kind: 'position', entries: sound(intakePositions(db)) }
  for (const page of poisonPages(db, poisonMax))
    yield {
      kind: 'poison',
      entries: sound(page).map((each) => ({ ...each, bytes: Buffer.from(each.bytes).toString('base64') })),
    }
  // Before its first step an erasure is about everything on record.
  const erasures = db
    .prepare(
      `SELECT tenant, recipient, (SELECT id FROM notifications n WHERE until_seq IS NULL OR n.seq <= until_seq
        ORDER BY seq DESC LIMIT 1) AS newest FROM erasures`,
    )
    .all()
  yield { kind: 'erasure', entries: erasures.map((row) => ({ ...row }) as never) }
  const line = prepareTimeLine(db).read()
  yield { kind: 'timeLine', entries: line === undefined ? [] : [line] }
}

/** Work whose data are no stand-ins for data that was not parsed yet. */
const plainWork = ({ message, recipients }: JobWork): JobWork => ({
  message,
  recipients: recipients.map((each) =>
    each.data === undefined ? each : { ...each, data: dataOf(each.data) },
  ),
})

/** @throws damage where one of them cannot be read: a move takes everything */
function sound<T>({
  found,
  damaged,
}: {
  readonly found: readonly T[]
  readonly damaged: readonly string[]
}): readonly T[] {
  if (damaged.length > 0) checksum('', -1, damaged.join(', '))
  return found
}
