/**
 * Notifications whose limits may hold an earlier instant than the record: a move up was made in Redis, and its answer was
 * lost, or its process was killed before it was written. Nobody would ask for that place again, so that they would wait
 * for their later instant. They are put back to it, and move up anew.
 */
import type { Notification } from '../model.ts'
import type { Clock, LimitState, Store, Subject } from '../ports.ts'
import type { Sleeper } from '../sleeper.ts'
import type { Ledger, RecipientLimiter } from '../stages.ts'
import { findOrNobody, type RecipientCache } from './recipient-cache.ts'

export interface UnwrittenMovesOptions {
  readonly limiter: Pick<RecipientLimiter, 'putBack'>
  readonly state: Pick<LimitState, 'pause' | 'mayKeepHolds'>
  readonly store: Pick<Store, 'notification' | 'scan'>
  readonly ledger: Pick<Ledger, 'live'>
  readonly recipients: Pick<RecipientCache, 'find'>
  readonly clock: Pick<Clock, 'now'>
  readonly waits: (notification: Notification) => boolean
  /** Lets those who wait in these subjects move up, which are paused. */
  readonly freed: (subjects: readonly Subject[]) => Promise<void>
  readonly sleep: Sleeper['sleep']
  readonly isStopped: () => boolean
  readonly onError: (what: string, error: unknown) => void
}

export interface UnwrittenMoves {
  /** Notes one whose move failed, for whatever reason. */
  note(notification: Notification): void
  /** Puts all back that were noted; rejects where an engine is away, and does it the next time. */
  putBackNoted(): Promise<void>
  /** Looks at all who wait, in the background, and puts those back that a killed process has moved. */
  look(): void
  /** Resolves when nobody is looked at any more. */
  over(): Promise<void>
}

/** More are not noted: each keeps its instant on record. */
const notedMax = 10_000
/** Rows that are read in one go, those of them that are put back together, and the pause after these, ms. */
const [scanMax, sliceMax, restMs] = [500, 50, 5]
/** A subject in which many wait is met again and again: so many of those that it has met are known. */
const metMax = 20_000
/** Delay before the record is asked again where it could not be read, ms. */
const againMs = 1_000

export function createUnwrittenMoves(options: UnwrittenMovesOptions): UnwrittenMoves {
  const { limiter, state, store, ledger, recipients, clock, waits, freed, sleep, isStopped, onError } =
    options
  const noted = new Map<string, Pick<Notification, 'tenant' | 'id'>>()
  let looking: Promise<void> | undefined
  /** Kills since the look under way began. */
  let kills = 0

  /** True if it holds an instant to come, in the limits of its recipient. */
  const isBooked = (notification: Notification): boolean =>
    waits(notification) &&
    notification.undecided !== true &&
    notification.firedAt === undefined &&
    notification.dueAt > clock.now()

  async function putBack(recorded: readonly Notification[]) {
    const requests = recorded.filter(isBooked).map(async (notification) => {
      const { tenant, to } = notification
      return { notification, recipient: await findOrNobody(recipients, tenant, to.id) }
    })
    return requests.length === 0 ? [] : limiter.putBack(await Promise.all(requests))
  }

  /**
   * Lets those of each subject move up once, and again where somebody was put back. One that is put back already may have been so by a
   * look that was cut short, and a killed process may have begun to let others move up: nobody else would go on with it.
   */
  async function lookAtSlice(found: readonly Notification[], met: Set<string>): Promise<void> {
    const put = (await putBack(found)).filter(({ subject, isPut }) => isPut || !met.has(subject.key))
    const subjects = new Map(put.map(({ subject }) => [subject.key, subject]))
    if (subjects.size > 0) {
      await state.pause([...subjects.values()])
      await freed([...subjects.values()])
    }
    if (met.size + subjects.size > metMax) met.clear()
    for (const key of subjects.keys()) met.add(key)
    await sleep(restMs)
  }

  async function lookOnce(): Promise<void> {
    const met = new Set<string>()
    for (let cursor: string | null | undefined; cursor !== null && !isStopped(); )
      try {
        const from = cursor === undefined ? {} : { cursor }
        const page = await store.scan({ statuses: ['scheduled'], limit: scanMax, ...from })
        for (let row = 0; row < page.items.length && !isStopped(); row += sliceMax)
          await lookAtSlice(page.items.slice(row, row + sliceMax), met)
        cursor = page.nextCursor
      } catch (error) {
        // Some may have been put back, and nobody has moved up.
        met.clear()
        onError('look for moves that a killed process has not written', error)
        await sleep(againMs)
      }
  }

  async function lookUntilQuiet(): Promise<void> {
    while (kills > 0 && !isStopped()) {
      kills = 0
      await lookOnce()
    }
    looking = undefined
  }

  return {
    note({ tenant, id }) {
      if (noted.size < notedMax) noted.set(id, { tenant, id })
    },
    async putBackNoted() {
      for (const { tenant, id } of noted.values()) {
        const recorded = ledger.live(id)?.notification ?? (await store.notification(tenant, id))
        if (recorded !== undefined) await putBack([recorded])
        noted.delete(id)
      }
    },
    look() {
      // The limits of one process end with it.
      if (state.mayKeepHolds !== true || isStopped()) return
      kills += 1
      looking ??= lookUntilQuiet()
    },
    over: async () => looking,
  }
}
