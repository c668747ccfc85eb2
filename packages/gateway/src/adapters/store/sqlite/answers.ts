/**
 * What repetitions of a request are answered. Found by a 53-bit hash of the key and then compared in full: the long
 * keys of clients are random, and an index over them would dirty a page of its own for every request.
 */
import { createHash } from 'node:crypto'
import type { DatabaseSync } from 'node:sqlite'
import type { AnswerKey, StoredAnswer } from '../../../ports.ts'
import { readJson } from './rows.ts'

export interface Answers {
  /** False where the key is taken. */
  write(answer: StoredAnswer): boolean
  find(key: AnswerKey): StoredAnswer | undefined
  /** Drops up to `max` that are older; returns how many. */
  prune(before: number, max: number): number
}

export function prepareAnswers(db: DatabaseSync): Answers {
  const insert = db.prepare('INSERT INTO answers (hash, created_at, body) VALUES (?, ?, ?)')
  const select = db.prepare('SELECT body FROM answers WHERE hash = ?')
  const remove = db.prepare(`DELETE FROM answers WHERE seq IN
    (SELECT seq FROM answers WHERE created_at < ? ORDER BY seq LIMIT ?)`)

  const find = (key: AnswerKey, hash: number): StoredAnswer | undefined =>
    select
      .all(hash)
      .map((row) => readJson<StoredAnswer>(row.body))
      .find((answer) => isSame(answer, key))

  return {
    write(answer) {
      const hash = hashOf(answer)
      if (find(answer, hash) !== undefined) return false
      insert.run(hash, answer.createdAt, JSON.stringify(answer))
      return true
    },
    find: (key) => find(key, hashOf(key)),
    prune: (before, max) => Number(remove.run(before, max).changes),
  }
}

function isSame(a: AnswerKey, b: AnswerKey): boolean {
  return (
    a.key === b.key &&
    a.tenant === b.tenant &&
    a.module === b.module &&
    a.method === b.method &&
    a.path === b.path
  )
}

function hashOf({ tenant, module, method, path, key }: AnswerKey): number {
  const digest = createHash('sha256')
    .update(JSON.stringify([tenant, module, method, path, key]))
    .digest()
  return Number(digest.readBigUInt64BE() >> 11n)
}
