/**
 * Sends dead letters on their way again, as an operator asks. Each is decided anew and ends in one move; a letter that
 * is named and cannot go is told with the reason, and none is moved into a tenant that has no room for it.
 */
import { boundFor } from '../bounds.ts'
import { concernsAll, SluiceError } from '../errors.ts'
import { type Channel, type DeadCause, deadCauses, type Notification } from '../model.ts'
import type { DeadLetterQuery, Store } from '../ports.ts'
import type { Ledger, RedriveLeft, RedriveRequest, RedriveResult } from '../stages.ts'

export interface RedriveOptions {
  readonly store: Pick<Store, 'notification' | 'deadLetters'>
  readonly ledger: Pick<Ledger, 'takeRoom'>
  /** Decides one dead letter anew and writes the move; false where the record has moved meanwhile. */
  readonly bringBack: (dead: Notification) => Promise<boolean>
  /** Whether a pool serves the channel: nothing leaves where none does. */
  readonly serves: (channel: Channel) => boolean
  readonly onError: (what: string, error: unknown) => void
}

const pageMax = 200

/** A filter that names no cause leaves these where they are: to send them again may be to send them twice. */
const namedOnly: readonly DeadCause[] = ['outcome_unknown']

export function createRedrive({ store, ledger, bringBack, serves, onError }: RedriveOptions) {
  return async function redrive(request: RedriveRequest): Promise<RedriveResult> {
    const missing = new Set(request.ids)
    const left: RedriveLeft[] = []
    let redriven = 0
    let failure: unknown
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await store.deadLetters({
        ...queryOf(request),
        limit: pageMax,
        ...(cursor ? { cursor } : {}),
      })
      for (const dead of page.items) {
        const isNamed = missing.delete(dead.id)
        // It would be dead again at once, and goes by itself when a pool serves its channel.
        if (!serves(dead.channel)) continue
        try {
          const why = await redriveOne(dead, request.dryRun === true)
          if (why === undefined) redriven += 1
          else if (why === 'queue_full' || isNamed) left.push({ notificationId: dead.id, why })
        } catch (error) {
          if (concernsAll(error)) throw error
          onError(`redrive ${dead.id}`, error)
          failure ??= error
        }
      }
      cursor = page.nextCursor
    }
    for (const id of missing) left.push({ notificationId: id, why: await whyNotDead(id, request) })
    // One that fails holds up nobody, but where nothing else goes it is what there is to say.
    if (failure !== undefined && redriven === 0) throw failure
    return { redriven, left: left.slice(0, leftMax) }
  }

  /** Undefined where the letter is on its way again, or would be. */
  async function redriveOne(dead: Notification, isDry: boolean): Promise<RedriveLeft['why'] | undefined> {
    let giveBack: () => void
    try {
      giveBack = ledger.takeRoom(dead.tenant, roomFor(dead))
    } catch (error) {
      if (error instanceof SluiceError && error.code === 'QUEUE_FULL') return 'queue_full'
      throw error
    }
    try {
      return isDry || (await bringBack(dead)) ? undefined : 'not_dead'
    } finally {
      // What was written counts by itself from here on.
      giveBack()
    }
  }

  /** Only the tenant that was asked for is searched: another one's letters are answered like those that do not exist. */
  async function whyNotDead(id: string, { tenant, caller }: RedriveRequest): Promise<RedriveLeft['why']> {
    const of = tenant ?? caller
    const status = of === undefined ? undefined : (await store.notification(of, id))?.status
    return status === 'expired' || status === 'cancelled' ? status : 'not_dead'
  }
}

/** So many letters that were left are listed; a redrive of everything in a full tenant would answer them all. */
const leftMax = 1_000

function queryOf({ caller: _, dryRun: __, all, ...filter }: RedriveRequest): Omit<DeadLetterQuery, 'limit'> {
  const isNamed = all === true || filter.cause !== undefined || filter.ids !== undefined
  return isNamed ? filter : { ...filter, causes: deadCauses.filter((cause) => !namedOnly.includes(cause)) }
}

/** A dead letter counts in its tenant's queue already; on its way it may wait where others wait. */
function roomFor(dead: Notification) {
  const isCounted = boundFor(dead) === 'queue'
  return { queue: isCounted ? 0 : 1, critical: 0, waiting: 1 }
}
