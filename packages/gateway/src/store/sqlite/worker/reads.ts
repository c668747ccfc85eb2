/** The read-only questions: for the reader's connection, or the writer's where there is only one. */
import type { DatabaseSync } from 'node:sqlite'
import { hashKeyOf } from '../database.ts'
import { prepareJobWork } from '../job-work.ts'
import { prepareContentReads } from '../tables/contents.ts'
import { createCursors } from '../tables/cursor.ts'
import { prepareQueries } from '../tables/queries.ts'

/** Prepares the questions. The file must have been open for writing before, so that its keys exist. */
export function prepareReads(db: DatabaseSync) {
  const listing = prepareQueries({ db, key: hashKeyOf(db), cursors: createCursors(db) })
  return { ...listing, ...prepareContentReads(db), ...prepareJobWork(db) }
}

export type Reads = ReturnType<typeof prepareReads>
