/**
 * Releases the holds of a notification that ended undelivered: its reservation in the limits, its place in the throttle
 * queue, its fingerprint. Called once the end is on record. Where the limiter's state or the store fails, what is left is
 * retried in the background. A process that ends before may leave holds in limits that outlive it: another one releases
 * those of all that ended lately once more.
 */

import { awaitsLimits } from '../awaits-limits.ts'
import { concernsAll, isStateAway, SluiceError } from '../errors.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock, LimitState, Store } from '../ports.ts'
import { createSleeper, retryDelayMs } from '../sleeper.ts'
import type { RecipientLimiter, Recipients, ReleaseRequest } from '../stages.ts'
import { countsAsFirst, fingerprintHoldOf } from './duplicates.ts'
import { type Holder, LeftHolds, type Step, take } from './left-holds.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'

export interface HoldReleaserOptions {
  readonly limiter: RecipientLimiter
  readonly store: Pick<Store, 'notification' | 'endedSince'>
  /** One process of a fleet releases what is left for all. */
  readonly members: Pick<Members, 'holds'>
  readonly state: Pick<LimitState, 'fingerprintHolder' | 'holdFingerprints' | 'releaseFingerprints'>
  readonly recipients: Recipients
  readonly policy: Policy
  readonly throttle: Pick<TenantThrottle, 'giveBack'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly onError: (what: string, error: unknown) => void
}

/**
 * Releases the holds of `held`, the record before it ended as `ended`. A delivered notification keeps its holds. Rejects
 * where the first try fails, unless the server of the limits is away: nobody is decided before that is back. What is left
 * is retried all the same.
 */
export type ReleaseHolds = (held: Notification, ended: Notification['status']) => Promise<void>

export interface HoldReleaser {
  readonly releaseHolds: ReleaseHolds
  /**
   * The limiter, which takes back again in the background what it could not, because the server of the limits is away: what
   * a try to accept had reserved would stand in the way of others for a window. Before a recipient is decided, what is left
   * of their holds is released.
   */
  readonly limiter: RecipientLimiter
  /**
   * Fingerprints. One that a try had taken is released again in the background where the server of the limits is away: what
   * comes in its place, and all that wait behind that, would wait for a notification that is never accepted.
   */
  readonly fingerprints: Pick<LimitState, 'holdFingerprints' | 'releaseFingerprints'>
  /**
   * Releases what processes may have left that have gone, in one of those that are left. It calls back there with what has
   * ended lately, and does both once more where that rejects.
   */
  noteGone(members: readonly string[], onReleased?: OnReleased): void
  /** Ends the retries; resolves to false where some were left: the next start has to let others move up. */
  stop(): Promise<boolean>
}

type Print = Parameters<LimitState['releaseFingerprints']>[0][number]
type OnReleased = (ended: readonly Notification[]) => Promise<void>

/** Delay until the first retry, ms. */
const retryMs = 1_000
/** Notifications whose holds are retried at once. Those of any more are over when their instants have passed. */
const retriesMax = 10_000
/**
 * Time after the end of a process, and between two looks at the role `releases`, ms: the process that held it may be the
 * one that has gone, and another one gets it with its next beat.
 */
const goneMs = 5_000
/** Fingerprints that are released later: those of the tries under way when the server went away, and some more. */
const printsMax = 1_000
/** The looks at the role after which another process has released what was left. */
const looksMax = 4
/** Notifications that ended so long before are released once more, ms: a server of the limits may have been away for that time. */
const backMs = 10 * 60_000
/** The most of these that are released, and how many are at once. */
const [endedMax, togetherMax] = [2_000, 50]
/** The most processes that have gone, the last ones, that are remembered. */
const goneMax = 64

export function createHoldReleaser(options: HoldReleaserOptions): HoldReleaser {
  const { limiter, state, store, members, recipients, policy, throttle, clock, onError } = options
  const { sleep, wakeAll } = createSleeper(clock)
  const retries = new Set<Promise<void>>()
  const takenBackLater = new Set<string>()
  const printsLater = new Set<string>()
  const left = new LeftHolds()
  const gone = new Set<string>()
  let stopped = false
  let isLeft = false

  function stepsOf(held: Notification, ended: Notification['status']): Step[] {
    const steps: Step[] = []
    // It was accepted while the limits could not be asked.
    if (awaitsLimits(held)) return steps
    // A failed notification reached its provider: its send counts in the limits, but it is no duplicate any more.
    if (ended === 'cancelled' || ended === 'suppressed' || ended === 'expired') {
      steps.push(
        () => throttle.giveBack([held]),
        async () => {
          const recipient = await recipients.find(held.tenant, held.to.id)
          await limiter.cancel([{ notification: held, recipient }])
        },
      )
    }
    if (ended === 'cancelled' || ended === 'suppressed' || ended === 'failed')
      steps.push(() => state.releaseFingerprints([fingerprintHoldOf(policy, held)]))
    return steps
  }

  /** Retries until the steps are taken, one fails for a reason of its own, or the gateway stops. */
  async function retry(id: string, steps: Step[]): Promise<void> {
    for (let failures = 0, waitMs = retryMs; ; failures += 1) {
      await sleep(waitMs)
      if (stopped) {
        isLeft = true
        return
      }
      try {
        return await take(steps)
      } catch (error) {
        // While an engine is away each try fails, of very many: one line of the log for each of them.
        if (failures === 0 || !concernsAll(error)) onError(`release what ${id} held`, error)
        if (!isPassing(error)) return
        waitMs = retryDelayMs(retryMs, failures + 1, error, retries.size)
      }
    }
  }

  function retryLater(holder: Holder, steps: Step[]): Promise<void> {
    if (stopped) isLeft = true
    if (stopped || retries.size >= retriesMax) return Promise.resolve()
    const forget = left.add(holder, steps)
    const retrying = retry(holder.id, steps).finally(() => {
      forget()
      retries.delete(retrying)
    })
    retries.add(retrying)
    return retrying
  }

  /** One that is on record by then keeps what it holds. */
  function takeBackLater(request: ReleaseRequest): void {
    const { tenant, id, to } = request.notification
    if (takenBackLater.has(id)) return
    takenBackLater.add(id)
    const step: Step = async () => {
      if ((await store.notification(tenant, id)) === undefined) await limiter.takeBack([request])
    }
    void retryLater({ id, tenant, recipient: to.id }, [step]).finally(() => takenBackLater.delete(id))
  }

  /** One that is on record by then keeps its fingerprint. While the server is away, the record is not asked. */
  function releasePrintLater(print: Print): void {
    const { id, subject } = print
    if (printsLater.has(id) || printsLater.size >= printsMax) return
    printsLater.add(id)
    const step: Step = async () => {
      if ((await state.fingerprintHolder(print))?.id !== id) return
      const recorded = await store.notification(subject.tenant, id)
      if (recorded === undefined || !countsAsFirst(recorded)) await state.releaseFingerprints([print])
    }
    void retryLater({ id, ...holderOf(print) }, [step]).finally(() => printsLater.delete(id))
  }

  async function releaseHolds(held: Notification, ended: Notification['status']): Promise<void> {
    const steps = stepsOf(held, ended)
    try {
      await take(steps)
    } catch (error) {
      const { id, tenant, to } = held
      if (isPassing(error)) void retryLater({ id, tenant, recipient: to.id }, steps)
      if (!isStateAway(error)) throw error
    }
  }

  /** Releases the holds of all that ended lately: what holds nothing any more stays as it is. */
  async function releaseEnded(): Promise<readonly Notification[]> {
    const ended = await store.endedSince!(clock.now() - backMs, endedMax)
    const open = [...ended]
    while (open.length > 0 && !stopped)
      await Promise.all(
        open
          .splice(0, togetherMax)
          .map((each) =>
            releaseHolds({ ...each, status: 'scheduled' }, each.status).catch((error) =>
              onError(`release what ${each.id} held`, error),
            ),
          ),
      )
    return ended
  }

  async function releaseOfGone(onReleased: OnReleased | undefined): Promise<void> {
    for (let looks = 0; looks < looksMax; looks += 1) {
      await sleep(goneMs)
      if (stopped) return
      // A beat that is late takes the role away for a moment, from all.
      if (!members.holds('releases')) continue
      try {
        const ended = await releaseEnded()
        if (!stopped) await onReleased?.(ended)
        return
      } catch (error) {
        looks = 0
        onError('release what a process may have left', error)
      }
    }
  }

  // Applied for before it is needed.
  if (store.endedSince !== undefined) members.holds('releases')

  return {
    releaseHolds,
    noteGone(names, onReleased) {
      const others = names.filter((id) => !gone.has(id))
      if (stopped || others.length === 0 || store.endedSince === undefined) return
      for (const id of others) gone.add(id)
      for (const id of gone) if (gone.size > goneMax) gone.delete(id)
      const releasing = releaseOfGone(onReleased).finally(() => retries.delete(releasing))
      retries.add(releasing)
    },
    limiter: {
      ...limiter,
      reserve: (requests) =>
        left.before(
          () => requests.map(({ notification: { tenant, to } }) => ({ tenant, recipient: to.id })),
          () => limiter.reserve(requests),
        ),
      async takeBack(requests) {
        try {
          await limiter.takeBack(requests)
        } catch (error) {
          if (isStateAway(error)) for (const request of requests) takeBackLater(request)
          throw error
        }
      },
    },
    fingerprints: {
      holdFingerprints: (prints) =>
        left.before(
          () => prints.map(holderOf),
          () => state.holdFingerprints(prints),
        ),
      async releaseFingerprints(prints) {
        try {
          await state.releaseFingerprints(prints)
        } catch (error) {
          if (isStateAway(error)) for (const print of prints) releasePrintLater(print)
          throw error
        }
      },
    },
    async stop() {
      stopped = true
      wakeAll()
      await Promise.all(retries)
      return !isLeft
    },
  }
}

const holderOf = ({ subject: { tenant, recipient } }: Print): Omit<Holder, 'id'> => ({ tenant, recipient })
const isPassing = (error: unknown): boolean => error instanceof SluiceError && error.retryable
