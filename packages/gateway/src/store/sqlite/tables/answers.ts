/**
 * Stored answers for retried requests. Found by a hash of the key, which clients make at random, and then compared in
 * full.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { AnswerKey, StoredAnswer } from '../../../ports.ts'
import { erasedAnswer } from '../../erased-answer.ts'
import type { ShortAnswer } from '../codec/change-log.ts'
import { checksum, checksumOf, damageIn, isSound, unsoundSumOf } from '../codec/checksum.ts'
import type { HashKey } from '../indexes/hash.ts'
import { hashOf } from '../indexes/hash.ts'
import type { WriteBehindIndex } from '../indexes/write-behind-index.ts'
import { createWriteBehindIndex } from '../indexes/write-behind-index.ts'

export interface Answers extends Pick<WriteBehindIndex, 'flush' | 'finish'> {
  /** Writes an answer; false where the key is taken. */
  write(answer: ShortAnswer): boolean
  find(key: AnswerKey): StoredAnswer | undefined
  /** Answers that were damaged at the opening: a retry finds one of them only where its key is sound. */
  readonly damaged: readonly string[]
  /** @throws damage where an answer is missing. Reads all answers. */
  verify(): void
  /** Renames a recipient in up to `max` answers after `after`; returns the next position. */
  rename(of: RenamedAnswers): number | undefined
  /** Deletes up to `max` older answers; returns the number. */
  prune(before: number, max: number): number
}

interface RenamedAnswers {
  readonly tenant: string
  readonly recipient: string
  readonly pseudonym: string
  readonly after: number
  readonly max: number
}

export function prepareAnswers(db: DatabaseSync, key: HashKey): Answers {
  const insert = db.prepare('INSERT INTO answers (seq, created_at, body, sum) VALUES (?, ?, ?, ?)')
  const select = db.prepare(`SELECT body, sum FROM answers WHERE seq IN
    (SELECT seq FROM answer_rows WHERE hash = ? UNION SELECT value FROM json_each(?))`)
  const oldest = db.prepare('SELECT seq, body, created_at AS at FROM answers ORDER BY seq LIMIT ?')
  const remove = db.prepare('DELETE FROM answers WHERE seq = ?')
  const following = db.prepare('SELECT seq, body, sum FROM answers WHERE seq > ? ORDER BY seq LIMIT ?')
  const update = db.prepare('UPDATE answers SET body = ?, sum = ? WHERE seq = ?')

  const index = createWriteBehindIndex({ db, table: 'answer_rows' })
  const last = Number(db.prepare('SELECT max(seq) AS seq FROM answers').get()?.seq ?? 0)
  let next = Math.max(last + 1, index.from)
  const hash = (of: AnswerKey): number =>
    hashOf(key, `${of.tenant}\0${of.module}\0${of.method}\0${of.path}\0${of.key}`)
  const flushed = db.prepare('SELECT seq, body, sum FROM answers WHERE seq < ? ORDER BY seq')
  const unflushed = db.prepare('SELECT seq, body, sum FROM answers WHERE seq >= ? ORDER BY seq')
  const damaged: string[] = []
  for (const { seq, body, sum } of unflushed.iterate(index.from)) {
    if (!isSound(body, sum)) damaged.push(`the stored answer ${seq}`)
    const key = keyIn(body)
    if (key !== undefined) index.add(hash(key), seq as number)
  }

  function findHashed(wanted: AnswerKey, hashed: number): StoredAnswer | undefined {
    for (const { body, sum } of select.all(hashed, index.noted(hashed))) {
      checksum(body as string, sum, `the answer to ${wanted.key}`)
      const answer = JSON.parse(body as string) as StoredAnswer
      if (isSame(answer, wanted)) return answer
    }
    return undefined
  }

  return {
    flush: index.flush,
    finish: index.finish,
    damaged,
    write(answer) {
      const hashed = hash(answer)
      if (findHashed(answer, hashed) !== undefined) return false
      const seq = next++
      insert.run(seq, answer.createdAt, answer.body, checksumOf(answer.body))
      index.add(hashed, seq)
      return true
    },
    verify() {
      for (const { seq, body, sum } of flushed.iterate(index.from)) {
        // The index still has the key that a damaged answer was written with: a retry finds it, and its damage is told.
        const key = isSound(body, sum) ? keyIn(body) : undefined
        if (key !== undefined && !index.has(hash(key), seq as number)) {
          throw damageIn(`the index of answers, row ${seq}`)
        }
      }
    },
    rename({ tenant, recipient, pseudonym, after, max }) {
      const rows = following.all(after, max)
      for (const { seq, body, sum } of rows) {
        if (!isSound(body as string, sum)) {
          // An unreadable answer is emptied: it cannot be told for certain whose name is in it.
          update.run('', unsoundSumOf(''), seq!)
          continue
        }
        const stored = JSON.parse(body as string) as StoredAnswer
        if (stored.tenant !== tenant) continue
        const erased = erasedAnswer(stored.body, recipient, pseudonym)
        if (erased === stored.body) continue
        const text = JSON.stringify({ ...stored, body: erased })
        update.run(text, checksumOf(text), seq!)
      }
      return rows.length < max ? undefined : (rows.at(-1)!.seq as number)
    },
    find: (wanted) => findHashed(wanted, hash(wanted)),
    prune(before, max) {
      const rows = oldest.all(max)
      // Rows are in the order of creation, so the first young one ends the search.
      const young = rows.findIndex(({ at }) => (at as number) >= before)
      const old = young === -1 ? rows : rows.slice(0, young)
      for (const { seq, body } of old) {
        remove.run(seq as number)
        const key = keyIn(body)
        if (key !== undefined) index.remove(hash(key), seq as number)
      }
      return old.length
    },
  }
}

/** The key in an answer; undefined where the row is so damaged that it is no JSON any more. */
function keyIn(body: unknown): AnswerKey | undefined {
  try {
    return JSON.parse(body as string) as StoredAnswer
  } catch {
    return undefined
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
