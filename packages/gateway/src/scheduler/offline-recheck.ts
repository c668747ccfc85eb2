/**
 * Looks for what waits for recipients who connect, and asks once more for those whose notifications were put back because
 * nobody was connected. A recipient who connects while that is being written finds nothing that waits; and a process that did
 * not answer may hold the connection. A process that died has not asked any more: the others look for what waits for those
 * who are connected to them. Where the record did not answer, a recipient is asked for again as long as they are connected.
 */
import { awaitsConnection } from '../model.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'
import type { Ledger } from '../stages.ts'
import type { Reconnect } from './reconnect.ts'

interface RecipientName {
  readonly tenant: string
  readonly recipient: string
}

export interface OfflineRecheckOptions {
  readonly ledger: Pick<Ledger, 'subscribe'>
  /** Tells for each recipient if a connection is open; `isWhole` is false where a process did not answer. */
  readonly look: (
    recipients: readonly RecipientName[],
  ) => Promise<{ readonly connected: readonly boolean[]; readonly isWhole: boolean }>
  /** The recipients who are connected to this process. */
  readonly here: () => readonly RecipientName[]
  /** Calls the listener for each recipient who connects to this process, until the returned function ends it. */
  readonly onConnect: (listener: (tenant: string, recipient: string) => void) => () => void
  readonly members: Pick<Members, 'onDeath'>
  readonly reconnect: Reconnect
  readonly clock: Pick<Clock, 'now' | 'at' | 'soon'>
}

/** Recipients of one question. */
const togetherMax = 256
/** A process that did not answer is asked again after this time, until it answers or is declared dead, ms. */
const againMs = 1_000
/** A record that did not answer is asked again after this time, ms. */
const unreadMs = 5_000
/** Recipients who are asked for again at most: those beyond it wait until they connect. */
const pendingMax = 10_000

/** Returns the function that ends it. */
export function startOfflineRecheck(options: OfflineRecheckOptions): () => void {
  const { ledger, members, look, here, onConnect, reconnect, clock } = options
  const pending = new Map<string, RecipientName>()
  let isOpen = true
  let isLooking = false
  let isReadingAll = false
  let disarm: (() => void) | undefined

  function add(name: RecipientName): void {
    if (pending.size < pendingMax) pending.set(JSON.stringify([name.tenant, name.recipient]), name)
  }

  async function lookAgain(): Promise<void> {
    if (isLooking || !isOpen) return
    isLooking = true
    disarm?.()
    disarm = undefined
    const unsure: RecipientName[] = []
    let isUnread = false
    while (pending.size > 0 && isOpen) {
      const asked = [...pending.entries()].slice(0, togetherMax)
      for (const [key] of asked) pending.delete(key)
      const names = asked.map(([, name]) => name)
      const { connected, isWhole } = await look(names)
      await Promise.all(
        names.map(async (name, index) => {
          if (connected[index] && !isUnread && (await reconnect(name.tenant, name.recipient))) return
          isUnread ||= connected[index] === true
          if (connected[index] || !isWhole) unsure.push(name)
        }),
      )
    }
    isLooking = false
    later(unsure, isUnread ? unreadMs : againMs)
  }

  function later(names: readonly RecipientName[], ms: number): void {
    for (const name of names) add(name)
    if (names.length === 0 || !isOpen || isLooking) return
    disarm ??= clock.at(clock.now() + ms, () => void lookAgain())
  }

  async function lookFor({ tenant, recipient }: RecipientName): Promise<void> {
    if (!(await reconnect(tenant, recipient))) later([{ tenant, recipient }], unreadMs)
  }

  /** Looks for each recipient who is connected here, one after the other. */
  async function readAll(): Promise<void> {
    // A death is told again and again until all is taken over.
    if (isReadingAll) return
    isReadingAll = true
    for (const name of here()) if (isOpen) await lookFor(name)
    isReadingAll = false
  }

  const endConnections = onConnect((tenant, recipient) => void lookFor({ tenant, recipient }))
  const endDeaths = members.onDeath(() => void readAll())
  const unsubscribe = ledger.subscribe(({ notification }) => {
    if (!awaitsConnection(notification)) return
    if (pending.size === 0) clock.soon(() => void lookAgain())
    add({ tenant: notification.tenant, recipient: notification.to.id })
  })
  return () => {
    isOpen = false
    disarm?.()
    endConnections()
    endDeaths()
    unsubscribe()
  }
}
