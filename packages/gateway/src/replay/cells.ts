/** The requests behind the cells of the matrix: what became of each of them under A, and under B. Pure. */
import type { Channel } from '../model.ts'
import { type Fate, type FateKind, fateKinds } from './fate.ts'
import { pseudonymOf, type TrafficLine } from './traffic.ts'

/** A fate as it is shown: instants are ISO texts. */
export interface ShownFate {
  readonly kind: FateKind
  readonly channel: Channel
  readonly reason?: string
  readonly limit?: string
  /** The instant for which the policy lets it leave; absent where it leaves at once or never. */
  readonly until?: string
}

interface CellItem {
  readonly id: string
  readonly at: string
  readonly tenant: string
  readonly recipient: string
  readonly category: string
  readonly a: ShownFate
  readonly b: ShownFate
}

/** A cell of the matrix that is not empty. */
export interface Cell {
  readonly a: FateKind
  readonly b: FateKind
  readonly requests: number
  /** The first requests of the cell, at most 20; those whose decision differs come before those that keep it. */
  readonly items: readonly CellItem[]
}

/** Requests of a cell that are listed: 25 cells of 20 are a page that can be read, and some 100 kB of JSON. */
const itemsMax = 20

type Fates = readonly (Fate | undefined)[]

interface CellsOptions {
  readonly requests: readonly TrafficLine[]
  readonly a: Fates
  readonly b: Fates
  /** True for each request whose decision differs. */
  readonly isChanged: readonly boolean[]
}

export function cellsOf({ requests, a, b, isChanged }: CellsOptions): readonly Cell[] {
  const counts = new Map<string, number>()
  const items = new Map<string, CellItem[]>()
  for (const wantsChanged of [true, false])
    for (const [index, line] of requests.entries()) {
      const [one, other] = [a[index], b[index]]
      if (one === undefined || other === undefined || isChanged[index] !== wantsChanged) continue
      const key = `${one.kind} ${other.kind}`
      counts.set(key, (counts.get(key) ?? 0) + 1)
      const listed = items.get(key) ?? []
      if (listed.length === 0) items.set(key, listed)
      if (listed.length < itemsMax) listed.push(itemOf(line, one, other))
    }
  return fateKinds.flatMap((one) =>
    fateKinds.flatMap((other) => {
      const key = `${one} ${other}`
      const listed = items.get(key)
      return listed === undefined ? [] : { a: one, b: other, requests: counts.get(key)!, items: listed }
    }),
  )
}

function itemOf({ id, at, tenant, recipient, category }: TrafficLine, a: Fate, b: Fate): CellItem {
  return { id: pseudonymOf(id), at, tenant, recipient, category, a: shown(a), b: shown(b) }
}

function shown({ kind, channel, reason, limit, dueAt }: Fate): ShownFate {
  return {
    kind,
    channel,
    ...(reason === undefined ? {} : { reason }),
    ...(limit === undefined ? {} : { limit }),
    ...(dueAt === undefined || kind === 'at_once' ? {} : { until: new Date(dueAt).toISOString() }),
  }
}
