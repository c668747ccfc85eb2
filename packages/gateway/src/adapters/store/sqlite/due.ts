/**
 * What is due, by the line of claims.ts through the index of due-index.ts: no page is read twice, however much is held.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Claims, Place } from './claims.ts'
import { dueCodes } from './codes.ts'
import type { DueIndex } from './due-index.ts'
import type { Row } from './rows.ts'
import { columns } from './rows.ts'
import { damageIn } from './sum.ts'

export interface Due {
  claim(until: number, limit: number): readonly Row[]
  unclaim(ids: readonly string[]): void
  /** The earliest dueAt that is not claimed. */
  earliest(): number | undefined
  /** At opening after a crash: what was booked by `now` and is unsettled may have been sent. */
  suspect(now: number): void
  /** @throws damage where the index and the states disagree. Reads all of both. */
  verify(): void
}

export function prepareDue(db: DatabaseSync, claims: Claims, index: DueIndex): Due {
  const one = db.prepare(`SELECT ${columns} FROM states s JOIN notifications n USING (seq)
    WHERE s.seq = ? AND s.due_at = ? AND s.status IN ${dueCodes}`)
  one.setReturnArrays(true)
  const rowAt = ({ seq, dueAt }: Place): Row | undefined => one.get(seq, dueAt) as unknown as Row | undefined
  const place = db.prepare(`SELECT s.seq, s.due_at AS dueAt FROM notifications n JOIN states s USING (seq)
    WHERE n.id = ? AND s.status IN ${dueCodes}`)
  const suspects = [
    'seq >= ?2 AND status IN (1, 3, 4) AND due_at <= ?1',
    'seq IN (SELECT seq FROM due WHERE due_at <= ?1 AND seq < ?2) AND status IN (1, 3)',
  ].map((which) =>
    db.prepare(`UPDATE states SET suspects = CASE WHEN suspect_at IS NULL THEN NULL
        ELSE json_insert(coalesce(suspects, json_array(suspect_at)), '$[#]', ?1) END, suspect_at = ?1 WHERE ${which}`),
  )
  const missing = db.prepare(`SELECT seq FROM states s WHERE seq < ? AND status IN ${dueCodes}
    AND NOT EXISTS (SELECT 1 FROM due d WHERE d.due_at = s.due_at AND d.seq = s.seq) LIMIT 1`)
  const stray = db.prepare(`SELECT seq FROM due d WHERE NOT EXISTS
    (SELECT 1 FROM states s WHERE s.seq = d.seq AND s.due_at = d.due_at AND status IN ${dueCodes}) LIMIT 1`)

  function fromIndex(until: number, limit: number): readonly Row[] {
    const places = index.range(claims.cursor, until, limit)
    const rows = places.map((at) => {
      const row = rowAt(at)
      if (row === undefined) throw damageIn(`the index of what is due, row ${at.seq}`)
      return row
    })
    if (places.length < limit) claims.advance(until)
    else claims.advance(until, places.at(-1))
    return rows
  }

  return {
    claim(until, limit) {
      // What has moved on since it was put back is not there any more.
      const back = claims
        .takeBack(until, limit)
        .map(rowAt)
        .filter((row) => row !== undefined)
      if (back.length >= limit) return back
      return [...back, ...fromIndex(until, limit - back.length)]
    },

    unclaim(ids) {
      for (const id of ids) {
        const found = place.get(id) as Place | undefined
        if (found !== undefined && !claims.isAhead(found)) claims.putBack({ ...found })
      }
    },

    earliest() {
      const instants = [claims.earliestBack(), index.first(claims.cursor)?.dueAt].filter(
        (at) => at !== undefined,
      )
      return instants.length === 0 ? undefined : Math.min(...instants)
    },

    suspect(now) {
      for (const statement of suspects) statement.run(now, index.from)
    },

    verify() {
      const wrong = missing.get(index.from) ?? stray.get()
      if (wrong !== undefined) throw damageIn(`the index of what is due, row ${wrong.seq}`)
    },
  }
}
