/**
 * Asks once more for recipients whose notifications were put back because nobody was connected. A recipient who connects
 * while that is being written finds nothing that waits; and a process that did not answer may hold the connection. A
 * process that died has not asked any more: the others look for what waits for those who are connected to them.
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
  readonly members: Pick<Members, 'onDeath'>
  readonly reconnect: Reconnect
  readonly clock: Pick<Clock, 'now' | 'at' | 'soon'>
}

/** Recipients of one question. */
const togetherMax = 256
/** A process that did not answer is asked again after this time, until it answers or is declared dead, ms. */
const againMs = 1_000
/** Recipients who are asked for again at most: those beyond it wait until they connect. */
const pendingMax = 10_000

/** Returns the function that ends it. */
export function startOfflineRecheck(options: OfflineRecheckOptions): () => void {
  const { ledger, members, look, here, reconnect, clock } = options
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
    const unsure: RecipientName[] = []
    while (pending.size > 0 && isOpen) {
      const asked = [...pending.entries()].slice(0, togetherMax)
      for (const [key] of asked) pending.delete(key)
      const names = asked.map(([, name]) => name)
      const { connected, isWhole } = await look(names)
      await Promise.all(
        names.map(async (name, index) => {
          if (connected[index]) await reconnect(name.tenant, name.recipient)
          else if (!isWhole) unsure.push(name)
        }),
      )
    }
    isLooking = false
    for (const name of unsure) add(name)
    if (unsure.length > 0 && isOpen) disarm = clock.at(clock.now() + againMs, () => void lookAgain())
  }

  /** Looks for each recipient who is connected here, one after the other. */
  async function readAll(): Promise<void> {
    // A death is told again and again until all is taken over.
    if (isReadingAll) return
    isReadingAll = true
    for (const { tenant, recipient } of here()) if (isOpen) await reconnect(tenant, recipient)
    isReadingAll = false
  }

  const endDeaths = members.onDeath(() => void readAll())
  const unsubscribe = ledger.subscribe(({ notification }) => {
    if (!awaitsConnection(notification)) return
    if (pending.size === 0) clock.soon(() => void lookAgain())
    add({ tenant: notification.tenant, recipient: notification.to.id })
  })
  return () => {
    isOpen = false
    disarm?.()
    endDeaths()
    unsubscribe()
  }
}
