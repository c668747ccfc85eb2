/**
 * Decides notifications whose turn in a throttle queue has come before their stored `dueAt`. A place that frees may reach
 * one whose acceptance or first decision is still being written: it is looked for again until it is on record, since
 * otherwise it would wait for the place that it had when it joined the queue.
 */
import { awaitsLimits } from '../awaits-limits.ts'
import { concernsAll } from '../errors.ts'
import { delayingLimit, type Notification } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import type { Gate, Ledger } from '../stages.ts'

export interface PromotionOptions {
  readonly store: Pick<Store, 'notification'>
  readonly ledger: Pick<Ledger, 'live'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** Takes the turn of a notification. */
  readonly resume: (notification: Notification) => Promise<void>
  readonly onError: (what: string, error: unknown) => void
}

export interface Promotion {
  readonly promote: Gate['promote']
  /** Looks for none any more: each leaves as the record says. */
  stop(): void
}

/** Notifications promoted at once: a raised limit may let thousands pass at the same time. */
const promotedAtOnce = 100
/** Time before each further look, ms: some 13 s together, which is longer than a commit may take. */
const lookAgainMs = [50, 100, 200, 400, 800, 1_600, 3_200, 6_400]
/** Time before the record is read again that is away, ms. The queue names an entry once. */
const readAgainMs = 1_000

export function createPromotion(options: PromotionOptions): Promotion {
  const { store, ledger, clock, resume, onError } = options
  const looking = new Set<() => void>()
  let isStopped = false

  async function promoteOne(tenant: string, id: string, looks = 0): Promise<void> {
    let notification: Notification | undefined
    try {
      notification = ledger.live(id)?.notification ?? (await store.notification(tenant, id))
    } catch (error) {
      if (concernsAll(error)) lookLater(tenant, id, looks, readAgainMs)
      throw error
    }
    if (notification === undefined || awaitsLimits(notification)) lookAgain(tenant, id, looks)
    else if (delayingLimit(notification) !== undefined) await resume(notification)
  }

  /** One that is never found was refused: its place went to those behind it when it was taken back. */
  function lookAgain(tenant: string, id: string, looks: number): void {
    const waitMs = lookAgainMs[looks]
    if (waitMs !== undefined) lookLater(tenant, id, looks + 1, waitMs)
  }

  function lookLater(tenant: string, id: string, looks: number, waitMs: number): void {
    if (isStopped) return
    const disarm = clock.at(clock.now() + waitMs, () => {
      looking.delete(disarm)
      promoteOne(tenant, id, looks).catch((error) => onError(`promote ${id}`, error))
    })
    looking.add(disarm)
  }

  return {
    async promote(tenant, ids) {
      // A failure does not interrupt the others.
      let failed: PromiseRejectedResult | undefined
      for (let from = 0; from < ids.length; from += promotedAtOnce) {
        const works = ids.slice(from, from + promotedAtOnce).map((id) => promoteOne(tenant, id))
        failed ??= (await Promise.allSettled(works)).find((end) => end.status === 'rejected')
      }
      if (failed !== undefined) throw failed.reason
    },
    stop() {
      isStopped = true
      for (const disarm of looking) disarm()
      looking.clear()
    },
  }
}
