/**
 * What is due, by the line of claims.ts through the index `due`: no page is read twice, however much is held.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Claims, Place } from './claims.ts'
import { dueCodes } from './codes.ts'
import type { Row } from './rows.ts'
import { columns, dueAtOf, seqOf } from './rows.ts'

export interface Due {
  claim(until: number, limit: number): readonly Row[]
  unclaim(ids: readonly string[]): void
  /** The earliest dueAt that is not claimed. */
  earliest(): number | undefined
  /** At opening after a crash: what was booked by `now` and is unsettled may have been sent. */
  suspect(now: number): void
}

export function prepareDue(db: DatabaseSync, claims: Claims): Due {
  // Two ranges and not (due_at, seq) > (?, ?): the planner does not carry a row value into the rowid.
  const ties = db.prepare(`SELECT ${columns} FROM states s JOIN notifications n USING (seq)
    WHERE s.status IN ${dueCodes} AND s.due_at = ? AND s.seq > ? ORDER BY s.seq LIMIT ?`)
  const later = db.prepare(`SELECT ${columns} FROM states s JOIN notifications n USING (seq)
    WHERE s.status IN ${dueCodes} AND s.due_at > ? AND s.due_at <= ? ORDER BY s.due_at, s.seq LIMIT ?`)
  const one = db.prepare(`SELECT ${columns} FROM states s JOIN notifications n USING (seq)
    WHERE s.seq = ? AND s.due_at = ? AND s.status IN ${dueCodes}`)
  const tie = db.prepare(`SELECT due_at AS at FROM states
    WHERE status IN ${dueCodes} AND due_at = ? AND seq > ? LIMIT 1`)
  const next = db.prepare(`SELECT due_at AS at FROM states
    WHERE status IN ${dueCodes} AND due_at > ? ORDER BY due_at LIMIT 1`)
  const place = db.prepare(`SELECT s.seq, s.due_at AS dueAt FROM notifications n JOIN states s USING (seq)
    WHERE n.id = ? AND s.status IN ${dueCodes}`)
  const mark = db.prepare('UPDATE states SET suspect_at = ? WHERE status IN (1, 3, 4) AND due_at <= ?')
  for (const statement of [ties, later, one]) statement.setReturnArrays(true)

  function fromIndex(until: number, limit: number): readonly Row[] {
    const { dueAt, seq } = claims.cursor
    const tied =
      dueAt <= until && Number.isFinite(dueAt) ? (ties.all(dueAt, seq, limit) as unknown as Row[]) : []
    const rest = limit - tied.length
    const rows = rest > 0 ? [...tied, ...(later.all(dueAt, until, rest) as unknown as Row[])] : tied
    const last = rows.at(-1)
    if (rows.length < limit || last === undefined) claims.advance(until)
    else claims.advance(until, { dueAt: dueAtOf(last), seq: seqOf(last) })
    return rows
  }

  return {
    claim(until, limit) {
      const back = claims
        .takeBack(until, limit)
        .map(({ seq, dueAt }) => one.get(seq, dueAt) as unknown as Row | undefined)
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
      const { dueAt, seq } = claims.cursor
      const candidates = [
        claims.earliestBack(),
        Number.isFinite(dueAt) ? tie.get(dueAt, seq)?.at : undefined,
        next.get(dueAt)?.at,
      ].filter((at) => typeof at === 'number')
      return candidates.length === 0 ? undefined : Math.min(...candidates)
    },

    suspect(now) {
      mark.run(now, now)
    },
  }
}
