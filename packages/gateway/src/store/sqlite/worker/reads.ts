/** The read-only questions: for the reader's connection, or the writer's where there is only one. */
import type { DatabaseSync } from 'node:sqlite'
import type { DeadLetterQuery, ListQuery } from '../../../ports.ts'
import { hashKeyOf } from '../database.ts'
import { prepareJobWork } from '../job-work.ts'
import { prepareContentReads } from '../tables/contents.ts'
import { createCursors } from '../tables/cursor.ts'
import { prepareDelivered } from '../tables/delivered.ts'
import { prepareFeedbackReads } from '../tables/feedback.ts'
import { prepareIntakeReads } from '../tables/intake.ts'
import { prepareOutboxReads } from '../tables/outbox.ts'
import { type DuePlace, prepareQueries } from '../tables/queries.ts'
import { pack } from './packed-rows.ts'

/** Prepares the questions. The file must have been open for writing before, so that its keys exist. */
export function prepareReads(db: DatabaseSync) {
  const listing = prepareQueries({ db, key: hashKeyOf(db), cursors: createCursors(db) })
  return {
    ...listing,
    notificationsOf: (ids: readonly string[]) =>
      pack({ rows: listing.notificationsOf(ids), nextCursor: null }),
    list: (query: ListQuery, noted: readonly number[]) => pack(listing.list(query, noted)),
    listDue: (query: ListQuery, places: readonly DuePlace[]) => pack(listing.listDue(query, places)),
    deadLetters: (query: DeadLetterQuery) => pack(listing.deadLetters(query)),
    delivered: prepareDelivered(db),
    ...prepareContentReads(db),
    ...prepareJobWork(db),
    ...prepareFeedbackReads(db),
    ...prepareOutboxReads(db),
    ...prepareIntakeReads(db),
  }
}

export type Reads = ReturnType<typeof prepareReads>
