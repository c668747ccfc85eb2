/**
 * Reads due notifications by the cursor of due-cursor.ts through the index of due-index.ts: no page is read twice,
 * however many notifications are held.
 */
import type { DatabaseSync } from 'node:sqlite'
import { dueCodes } from '../../status-codes.ts'
import { damageIn } from '../codec/checksum.ts'
import type { Row } from '../codec/rows.ts'
import { columns } from '../codec/rows.ts'
import type { DueCursor, OwnedPlace, Place } from '../indexes/due-cursor.ts'
import { order } from '../indexes/due-cursor.ts'
import type { DueIndex } from '../indexes/due-index.ts'

export interface Due {
  /** Claims due rows, except those of the tenants in `without`, for whom there is no room. */
  claimDue(until: number, limit: number, without: readonly string[]): readonly Row[]
  releaseDue(ids: readonly string[]): void
  /** The earliest unclaimed dueAt. */
  earliest(): number | undefined
  /** Marks notifications as possibly sent, at opening after a crash: those reserved by `now` and unsettled. */
  suspect(now: number): void
  /** @throws damage where the index and the states disagree. Reads all of both. */
  verify(): void
}

/** Index rows examined for each requested row: 3 µs each where they belong to excluded tenants. */
const looksPerRow = 4

export function prepareDue(db: DatabaseSync, cursor: DueCursor, index: DueIndex): Due {
  const one = db.prepare(`SELECT ${columns} FROM states s JOIN notifications n USING (seq)
    WHERE s.seq = ? AND s.due_at = ? AND s.status IN ${dueCodes}`)
  one.setReturnArrays(true)
  const rowAt = ({ seq, dueAt }: Place): Row | undefined => one.get(seq, dueAt) as unknown as Row | undefined
  const place =
    db.prepare(`SELECT s.seq, s.due_at AS dueAt, n.tenant FROM notifications n JOIN states s USING (seq)
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

  const ownerOf = db.prepare('SELECT tenant FROM notifications WHERE seq = ?')
  const tenantAt = ({ seq }: Place): string => String(ownerOf.get(seq)?.tenant)

  function present(at: Place): Row {
    const row = rowAt(at)
    if (row === undefined) throw damageIn(`the index of what is due, row ${at.seq}`)
    return row
  }

  /** Reads rows after the cursor. While no tenant is excluded or lags, the rows' tenants are not looked up. */
  function fromIndex(until: number, limit: number, full: ReadonlySet<string>): readonly Row[] {
    const isFor = full.size === 0 && cursor.lags.size === 0 ? undefined : cursor.lags
    const places = index.range(cursor.cursor, until, isFor === undefined ? limit : limit * looksPerRow)
    const max = isFor === undefined ? limit : limit * looksPerRow
    const rows: Row[] = []
    let looked = 0
    for (const at of places) {
      if (rows.length === limit) break
      looked += 1
      const tenant = isFor === undefined ? undefined : tenantAt(at)
      if (tenant !== undefined && (full.has(tenant) || cursor.lags.has(tenant)))
        cursor.passOver({ ...at, tenant })
      else rows.push(present(at))
    }
    if (looked === places.length && places.length < max) cursor.advance(until)
    else if (looked > 0) cursor.advance(until, places[looked - 1])
    return rows
  }

  /** Reads the passed-over rows of tenants that have room now, round robin. */
  function fromLags(limit: number, full: ReadonlySet<string>): readonly Row[] {
    const tenants = [...cursor.lags.keys()].filter((tenant) => !full.has(tenant))
    const rows: Row[] = []
    for (const [turn, tenant] of tenants.entries()) {
      const share = Math.ceil((limit - rows.length) / (tenants.length - turn))
      if (share === 0) break
      rows.push(...fromLag(tenant, share))
    }
    return rows
  }

  function fromLag(tenant: string, share: number): readonly Row[] {
    const { after, to, kept } = cursor.lags.get(tenant)!
    const max = share * looksPerRow
    const places = index.range(after, to.dueAt, max).filter((at) => order(at, to) <= 0)
    const rows: Row[] = []
    let last: Place | undefined
    for (const at of places) {
      if (rows.length === share) break
      last = at
      if (!kept.delete(at.seq) && tenantAt(at) === tenant) rows.push(present(at))
    }
    const isRead = places.length < max && last === places.at(-1)
    cursor.catchUp(tenant, isRead || last === undefined ? to : last)
    return rows
  }

  return {
    claimDue(until, limit, without) {
      const full = new Set(without)
      // A row that has moved on since it was put back is not there any more.
      const rows = cursor
        .takeBack(until, limit, full)
        .map(rowAt)
        .filter((row) => row !== undefined)
      if (rows.length < limit) rows.push(...fromLags(limit - rows.length, full))
      if (rows.length < limit) rows.push(...fromIndex(until, limit - rows.length, full))
      return rows
    },

    releaseDue(ids) {
      for (const id of ids) {
        const found = place.get(id) as OwnedPlace | undefined
        if (found === undefined || cursor.isAhead(found)) continue
        cursor.noteKept(found)
        cursor.putBack({ ...found })
      }
    },

    earliest() {
      const lagging = [...cursor.lags.values()].map(({ after }) => after.dueAt)
      const instants = [...lagging, cursor.earliestBack(), index.first(cursor.cursor)?.dueAt].filter(
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
