/** The questions that only read what is on record: for the reader's connection, or the writer's where there is one only. */
import type { DatabaseSync } from 'node:sqlite'
import { hashKeyOf } from '../database.ts'
import { prepareJobWork } from '../job-work.ts'
import { prepareContentReads } from '../tables/contents.ts'
import { createCursors } from '../tables/cursor.ts'
import { prepareQueries } from '../tables/queries.ts'

/** The file is open for writing somewhere, or was: its keys are made. */
export function prepareReads(db: DatabaseSync) {
  const listing = prepareQueries({ db, key: hashKeyOf(db), cursors: createCursors(db) })
  return { ...listing, ...prepareContentReads(db), ...prepareJobWork(db) }
}

export type Reads = ReturnType<typeof prepareReads>
