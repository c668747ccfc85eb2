/**
 * The record of a run: what a process leaves to the next one. It is a journal of all writes that were performed, in their
 * order; a process reads and writes a memory store that was filled from it. As SQLite does at the opening after a crash,
 * it notes for each notification that was due and is not settled that it may have been sent.
 */
import { lineAt } from '../../src/adapters/clock.ts'
import type { Notification } from '../../src/model.ts'
import type { Change, Store, TimeLine } from '../../src/ports.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'
import { copyOf } from './copy.ts'

type Write = 'commit' | 'beginErasure' | 'erase' | 'keepTimeLine' | 'prune'

interface JournalEntry {
  readonly method: Write
  readonly args: readonly unknown[]
  /** The process that wrote it, where there are several. */
  readonly process?: number
}

/** Sees a write once it is on record. */
type Observer = (entry: JournalEntry) => void

const writes: ReadonlySet<string> = new Set<Write>([
  'commit',
  'beginErasure',
  'erase',
  'keepTimeLine',
  'prune',
])

export interface SimRecord {
  /** Opens the record for a process; `wallNow` is what its wall clock reads. */
  open(wallNow: number): Promise<Store>
  readonly observers: Set<Observer>
  readonly timeLine: TimeLine | undefined
}

/** How long a right to send lasts, ms. */
const rightMs = 250

export function createSimRecord(): SimRecord {
  const journal: JournalEntry[] = []
  const observers = new Set<Observer>()
  let isClosed = true
  let timeLine: TimeLine | undefined
  let serial = 0

  function note(entry: JournalEntry): void {
    journal.push(entry)
    if (entry.method === 'keepTimeLine') timeLine = entry.args[0] as TimeLine
    for (const observer of observers) observer(entry)
  }

  /** Notes at the opening after a crash that what was due may have been sent. */
  function suspect(now: number): void {
    const last = new Map<string, { readonly index: number; readonly row: Notification }>()
    for (const [index, { method, args }] of journal.entries()) {
      if (method !== 'commit') continue
      const { accept = [], moves = [] } = args[0] as Change
      for (const row of accept) last.set(row.id, { index, row })
      for (const { after } of moves) last.set(after.id, { index, row: after })
    }
    for (const { index, row } of last.values()) {
      const isUnsettled = row.status === 'scheduled' || row.status === 'queued' || row.status === 'sending'
      if (!isUnsettled || row.dueAt > now) continue
      const suspected = { ...row, suspects: [...(row.suspects ?? []), now] }
      const change = journal[index]!.args[0] as Change
      const replaced: Change = {
        ...change,
        ...(change.accept && { accept: change.accept.map((each) => (each === row ? suspected : each)) }),
        ...(change.moves && {
          moves: change.moves.map((move) => (move.after === row ? { ...move, after: suspected } : move)),
        }),
      }
      journal[index] = { method: 'commit', args: [replaced] }
    }
  }

  return {
    observers,
    get timeLine() {
      return timeLine
    },
    async open(wallNow) {
      serial += 1
      const opened = serial
      const crashed = !isClosed
      if (crashed) suspect(timeLine === undefined ? wallNow : lineAt(wallNow, timeLine))
      isClosed = false
      const store = createMemoryStore()
      for (const { method, args } of journal) await Reflect.apply(store[method], store, args)
      return new Proxy(store, {
        get(target, property) {
          if (property === 'crashed') return crashed
          const value = Reflect.get(target, property, target) as unknown
          if (typeof value !== 'function') return value
          const bound = value.bind(target) as (...args: unknown[]) => Promise<unknown>
          if (property === 'close')
            return () => {
              if (opened === serial) isClosed = true
              return bound()
            }
          if (property === 'mayHave' || property === 'claimedUntil') return bound
          // As an engine across a network: a right ends, by the clock of the process that asked for it.
          if (property === 'begin')
            return async (of: never) => ({ ...(await store.begin(of)), forMs: rightMs })
          // The answer of a store is read from its file: no object of the process that wrote it comes back.
          if (!writes.has(String(property)))
            return (...args: unknown[]) => bound(...args).then((value) => copyOf(value))
          return (...args: unknown[]) => {
            if (opened !== serial) throw new Error('a process wrote after the next one had opened the record')
            const result = bound(...args)
            // The memory store writes within the call, so nothing comes between it and its note.
            const entry = { method: property as Write, args }
            return result.then((value) => {
              const isRefused = (value as { applied?: boolean } | undefined)?.applied === false
              if (!isRefused) note(entry)
              return value
            })
          }
        },
      })
    },
  }
}
