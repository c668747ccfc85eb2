/**
 * Holds of operators: an account is out, or notifications are stopped, until an instant. A hold is in force from the
 * moment at which it is asked for, and answered when it is on disk; it ends by itself. Writes go one after the other,
 * so that memory and record agree on the last one. Where other processes share the record, it is answered when their
 * rights from before it have ended, and the mark that comes with each later right tells them to read it.
 */
import { SluiceError } from '../errors.ts'
import type { Notification } from '../model.ts'
import { type Clock, complaintHoldPrefix, type HoldRecord, type HoldWrite, type Store } from '../ports.ts'
import type { HoldRequest, Ledger, OperatorHolds } from '../stages.ts'

export interface OperatorHoldsOptions {
  readonly store: Pick<Store, 'holds' | 'othersCallForMs'>
  readonly ledger: Pick<Ledger, 'commit'>
  readonly clock: Clock
  /** Called when this process has written a hold, or its end. @defaultValue nobody is told */
  readonly onWritten?: () => void
  readonly onError: (what: string, error: unknown) => void
}

/** A hold was put in force, or has ended: by an operator, or because its time is over. */
export interface HoldChange {
  readonly kind: 'put' | 'ended'
  readonly hold: HoldRecord
  /** The hold of the same name that a new one replaces. */
  readonly before?: HoldRecord
}

export interface KeptHolds extends OperatorHolds {
  /** Calls the listener for each hold in force, and then for each change. */
  listen(listener: (change: HoldChange) => void): void
  /** Returns the end of the holds that stop a notification now; undefined where none does. */
  untilOf(notification: Pick<Notification, 'tenant' | 'channel' | 'category'>): number | undefined
  /** Reads the holds on record again: other processes write them too. Never rejects. */
  reread(): Promise<void>
  /**
   * Resolves when the holds are in force that are on record under this mark, which a right to send came with. Rejects where
   * they cannot be read: then no call may be made.
   */
  follow(mark: string): Promise<void>
  /** Stops waiting for the ends of holds; resolves when nothing is being written. */
  close(): Promise<void>
}

/** Holds in force at most: each notification is compared with those of notifications. */
const holdsMax = 1_000

export async function createOperatorHolds(options: OperatorHoldsOptions): Promise<KeptHolds> {
  const { store, ledger, clock, onError } = options
  const holds = new Map<string, HoldRecord>()
  const listeners: ((change: HoldChange) => void)[] = []
  /** Holds of notifications alone; nearly always none. */
  let stopping: readonly HoldRecord[] = []
  let last: Promise<unknown> = Promise.resolve()
  let disarm: (() => void) | undefined
  let closed = false
  /** The mark of the holds that were read last for a right to send. */
  let read: string | undefined
  /** When the last call can have been made under a right from before the newest hold, epoch ms. */
  let othersKnowAt = Number.NEGATIVE_INFINITY
  for (const hold of await recorded()) holds.set(hold.name, hold)
  select()

  /** Reads the holds of operators; the others belong to the complaint guard. */
  async function recorded(): Promise<readonly HoldRecord[]> {
    return (await store.holds()).filter(({ name }) => !name.startsWith(complaintHoldPrefix))
  }

  function select(): void {
    stopping = [...holds.values()].filter(({ account }) => account === undefined)
  }

  function tell(change: HoldChange): void {
    for (const listener of listeners) listener(change)
  }

  /** Sets or removes a hold in memory, and tells it. */
  function replace(name: string, hold: HoldRecord | undefined): void {
    const before = holds.get(name)
    if (hold !== undefined) holds.set(name, hold)
    else holds.delete(name)
    select()
    if (hold !== undefined) tell({ kind: 'put', hold, ...(before === undefined ? {} : { before }) })
    else if (before !== undefined) tell({ kind: 'ended', hold: before })
  }

  /** Runs one write after the other. */
  function inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = last.then(work)
    last = turn.catch(() => undefined)
    return turn
  }

  function arm(): void {
    disarm?.()
    disarm = undefined
    if (closed || holds.size === 0) return
    disarm = clock.at(Math.min(...[...holds.values()].map(({ until }) => until)), endOver)
  }

  /** Ends the holds whose time is over. One that cannot be written is ended again by the next start. */
  function endOver(): void {
    const now = clock.now()
    const over = [...holds.values()].filter(({ until }) => until <= now)
    for (const { name } of over) replace(name, undefined)
    arm()
    if (over.length === 0) return
    inTurn(async () => {
      // One of the same name may have been put in force since, here or by a process of which this one does not know yet.
      const ended = over.filter(({ name }) => !holds.has(name))
      await ledger.commit({ holds: ended.map(({ name, until }) => ({ kind: 'end', name, until })) })
    }).catch((error) => onError('end a hold on record', error))
  }

  async function write(hold: HoldWrite): Promise<void> {
    const { applied } = await ledger.commit({ holds: [hold] })
    if (!applied)
      throw new SluiceError(
        'STORE_UNAVAILABLE',
        'The record takes no writes of this gateway: the others have declared it dead, and it ends. Try again.',
        { retryAfterMs: 1_000 },
      )
  }

  /** Puts it in force before it is written, and takes that back where it cannot be. */
  async function put(request: HoldRequest): Promise<HoldRecord> {
    const before = holds.get(request.name)
    if (before === undefined && holds.size >= holdsMax)
      throw new SluiceError(
        'INVALID_REQUEST',
        `There are ${holdsMax} holds already, and there may be no more.`,
      )
    const hold = { ...request, since: before?.since ?? clock.now() }
    // Where others write holds, it may have been ended on record since.
    if (before !== undefined && store.othersCallForMs === 0 && isSame(before, hold)) return before
    replace(hold.name, hold)
    arm()
    try {
      await write({ kind: 'put', hold })
    } catch (error) {
      replace(hold.name, before)
      arm()
      throw error
    }
    othersKnowAt = clock.now() + store.othersCallForMs
    options.onWritten?.()
    return hold
  }

  /** Waits until no other process makes a call any more that the holds in force stop, also those that it put itself. */
  async function untilOthersKnow(): Promise<void> {
    const at = othersKnowAt
    if (at > clock.now()) await new Promise<void>((resolve) => clock.at(at, resolve))
  }

  async function end(name: string): Promise<boolean> {
    // Another process may have put it in force, and its hint was lost.
    if (!holds.has(name) && store.othersCallForMs > 0) await reread()
    if (!holds.has(name)) return false
    await write({ kind: 'end', name })
    options.onWritten?.()
    replace(name, undefined)
    arm()
    return true
  }

  /** Puts in force what is on record, after the writes of this process. */
  async function reread(): Promise<void> {
    const now = clock.now()
    const onRecord = new Map((await recorded()).map((hold) => [hold.name, hold]))
    for (const [name, hold] of onRecord) {
      const known = holds.get(name)
      // One that is known here as it was before is over with this: whoever has shortened it may not live to end it.
      if (known === undefined ? hold.until <= now : isSame(known, hold)) continue
      replace(name, hold)
      othersKnowAt = now + store.othersCallForMs
    }
    for (const name of [...holds.keys()]) if (!onRecord.has(name)) replace(name, undefined)
    arm()
  }

  return {
    reread: () => inTurn(reread).catch((error) => onError('read the holds again', error)),
    async follow(mark) {
      if (mark === read) return
      await inTurn(async () => {
        if (mark === read) return
        await reread()
        read = mark
      })
    },
    untilOf(notification) {
      if (stopping.length === 0) return undefined
      let until = clock.now()
      for (const hold of stopping) if (hold.until > until && isStopped(notification, hold)) until = hold.until
      return until > clock.now() ? until : undefined
    },
    list: () => [...holds.values()].sort((a, b) => (a.name < b.name ? -1 : 1)),
    async put(request) {
      const hold = await inTurn(() => put(request))
      await untilOthersKnow()
      return hold
    },
    end: (name) => inTurn(() => end(name)),
    listen(listener) {
      if (listeners.length === 0) arm()
      listeners.push(listener)
      for (const hold of holds.values()) listener({ kind: 'put', hold })
    },
    async close() {
      closed = true
      disarm?.()
      await last
    },
  }
}

const isSame = (a: HoldRecord, b: HoldRecord): boolean =>
  a.until === b.until &&
  a.reason === b.reason &&
  a.tenant === b.tenant &&
  a.channel === b.channel &&
  a.category === b.category

const isStopped = (
  notification: Pick<Notification, 'tenant' | 'channel' | 'category'>,
  { tenant, channel, category }: HoldRecord,
): boolean =>
  (tenant === undefined || tenant === notification.tenant) &&
  (channel === undefined || channel === notification.channel) &&
  (category === undefined || category === notification.category)
