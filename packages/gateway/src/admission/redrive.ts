/**
 * Redrives dead letters at an operator's request. Each is decided anew and ends in one move. A letter that was named and
 * cannot be redriven is reported with the reason, and none is moved into a tenant without room in its queue.
 */
import { boundFor } from '../bounds.ts'
import { conflicted, retryOnConflict } from '../conflict.ts'
import { concernsAll, SluiceError } from '../errors.ts'
import { type Channel, type DeadCause, deadCauses, type Notification } from '../model.ts'
import type { TakenRoom } from '../ports/tenants.ts'
import type { DeadLetterQuery, Store } from '../ports.ts'
import type { Ledger, RedriveLeft, RedriveRequest, RedriveResult } from '../stages.ts'
import { withUndo } from '../undo.ts'

export interface RedriveOptions {
  readonly store: Pick<Store, 'notification' | 'deadLetters'>
  readonly ledger: Pick<Ledger, 'takeRoom'>
  /** Decides a dead letter anew and writes the move; false where the record has changed meanwhile. */
  readonly bringBack: (dead: Notification, room?: number) => Promise<boolean>
  /** True where a pool serves the channel: without one nothing is redriven. */
  readonly serves: (channel: Channel) => boolean
  readonly onError: (what: string, error: unknown) => void
}

const pageMax = 200

/** Causes that a filter has to name: sending these letters again may send them twice. */
const namedOnly: readonly DeadCause[] = ['outcome_unknown']

export function createRedrive({ store, ledger, bringBack, serves, onError }: RedriveOptions) {
  return async function redrive(request: RedriveRequest): Promise<RedriveResult> {
    const missing = new Set(request.ids)
    const left: RedriveLeft[] = []
    const { limit = Number.POSITIVE_INFINITY } = request
    let redriven = 0
    let failure: unknown
    let more = false
    for (let cursor: string | null | undefined; cursor !== null && !more; ) {
      const page = await store.deadLetters({
        ...queryOf(request),
        limit: pageMax,
        ...(cursor ? { cursor } : {}),
      })
      for (const dead of page.items) {
        const isNamed = missing.delete(dead.id)
        // It would be dead again at once, and is redriven automatically when a pool serves its channel.
        if (!serves(dead.channel)) {
          if (isNamed) left.push({ notificationId: dead.id, why: 'unserved' })
          continue
        }
        if (redriven >= limit) {
          more = true
          break
        }
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
    // Letters that were not looked at any more are not missing.
    if (!more) for (const id of missing) left.push({ notificationId: id, why: await whyNotDead(id, request) })
    // A failed letter does not stop the others; its error is the answer only where no letter was redriven.
    if (failure !== undefined && redriven === 0) throw failure
    return { redriven, left: left.slice(0, leftMax), ...(request.limit === undefined ? {} : { more }) }
  }

  /** Redrives one letter; undefined where it is queued or scheduled again, or would be. */
  async function redriveOne(dead: Notification, isDry: boolean): Promise<RedriveLeft['why'] | undefined> {
    let letter = dead
    const why = await retryOnConflict(async () => {
      const why = await bringBackOnce(letter, isDry)
      if (why !== 'not_dead') return why
      const recorded = await store.notification(dead.tenant, dead.id)
      if (recorded?.status !== 'dead') return why
      // The count of its tenant was filled again meanwhile, or it has died once more: it takes its room anew.
      letter = recorded
      return conflicted
    })
    if (why === conflicted)
      throw new SluiceError(
        'STATE_UNAVAILABLE',
        `The room of its tenant was counted anew at each try for ${dead.id}, which is dead still. Redrive it again.`,
        { retryAfterMs: 1_000 },
      )
    return why
  }

  async function bringBackOnce(dead: Notification, isDry: boolean): Promise<RedriveLeft['why'] | undefined> {
    return withUndo(onError, async (undo) => {
      let room: TakenRoom
      try {
        // A committed notification counts in the ledger by itself.
        const taking = ledger.takeRoom(dead.tenant, roomFor(dead))
        room = taking instanceof Promise ? await taking : taking
        undo.always(room.giveBack)
      } catch (error) {
        if (error instanceof SluiceError && error.code === 'QUEUE_FULL') return 'queue_full'
        throw error
      }
      return isDry || (await bringBack(dead, room.generation)) ? undefined : 'not_dead'
    })
  }

  /** Searches the given tenant only: letters of other tenants are answered like those that do not exist. */
  async function whyNotDead(id: string, { tenant, caller }: RedriveRequest): Promise<RedriveLeft['why']> {
    const of = tenant ?? caller
    const status = of === undefined ? undefined : (await store.notification(of, id))?.status
    return status === 'expired' || status === 'cancelled' ? status : 'not_dead'
  }
}

/** Letters left that an answer lists at most; a redrive of everything in a full tenant would list them all. */
const leftMax = 1_000

function queryOf(request: RedriveRequest): Omit<DeadLetterQuery, 'limit'> {
  const { caller: _, dryRun: __, limit: ___, all, ...filter } = request
  const { cause, causes, ids } = filter
  const isNamed = all === true || [cause, causes, ids].some((given) => given !== undefined)
  return isNamed ? filter : { ...filter, causes: deadCauses.filter((cause) => !namedOnly.includes(cause)) }
}

/** Room that a redrive needs: a dead letter counts in its tenant's queue already, and may be scheduled. */
function roomFor(dead: Notification) {
  const isCounted = boundFor(dead) === 'queue'
  return { queue: isCounted ? 0 : 1, critical: 0, waiting: 1 }
}
