/**
 * Decides those who wait in a subject anew when a hold of notifications stops some of them. One that the hold moves would
 * find the places behind its end taken by those who were accepted later: so all of these leave their places first, and
 * each is booked again, in the order of acceptance, while newcomers are held up. The record keeps the former instants
 * until each new one is on it: a process that ends in between begins again at its start, and where the store fails in
 * between, the next rebooking of the subject books all that are left.
 */
import { concernsAll } from '../errors.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { LimitState, Store, Subject } from '../ports.ts'
import type { Ledger, RecipientLimiter } from '../stages.ts'
import type { MovingUp } from './moving-up.ts'
import type { ForbiddenHours } from './quiet-hours.ts'
import { findOrNobody, type RecipientCache } from './recipient-cache.ts'
import type { Review } from './start-walk.ts'

export interface HoldOrderOptions {
  readonly store: Pick<Store, 'notification' | 'waiting'>
  readonly ledger: Pick<Ledger, 'live'>
  readonly state: Pick<LimitState, 'pause' | 'waiting'>
  readonly limiter: Pick<RecipientLimiter, 'lift'>
  readonly movingUp: Pick<MovingUp, 'moveUpAfter'>
  readonly policy: Pick<Policy, 'rulesFor'>
  readonly recipients: Pick<RecipientCache, 'find'>
  readonly forbiddenHours: Pick<ForbiddenHours, 'heldUntil'>
  readonly review: Review
  readonly onError: (what: string, error: unknown) => void
}

/** Books those who wait in a subject anew behind the holds, in the order of acceptance. It pauses the subject at once. */
export type RebookHeld = (subject: Subject) => Rebooking

/** Both promises reject where the store or the limiter's state fails: the subject must be rebooked once more. */
export interface Rebooking {
  /** Resolves when all are booked: to false where they are too many, and each is to be reviewed alone. */
  readonly booked: Promise<boolean>
  /** Resolves when those who gain by that have moved up, and the subject is open again. */
  readonly over: Promise<void>
}

/**
 * Newcomers are held up while so many are decided anew: some 2 ms each. Where more wait in one subject, the walk
 * brings each that is stopped behind the others (hold-walk.ts).
 */
const decidedMax = 128
/** One more try for each notification that ends while the others are booked; after these the pass that follows decides. */
const triesMax = 4
/** Subjects at most whose unbooked notifications are remembered after a failure. */
const unbookedMax = 10_000

export function createHoldOrder(options: HoldOrderOptions): RebookHeld {
  const { store, ledger, state, limiter, movingUp, policy, recipients, forbiddenHours, review, onError } =
    options

  /** Ids by subject that a failure left without a place in the limits: at most `decidedMax` of each. */
  const unbooked = new Map<string, ReadonlySet<string>>()

  /** Reads those who wait in a subject in the order of acceptance; undefined where they are too many. */
  async function waitingIn(subject: Subject): Promise<readonly Notification[] | undefined> {
    const { tenant, recipient } = subject
    if (recipient !== undefined) {
      const { items, nextCursor } = await store.waiting(tenant, recipient, null, decidedMax)
      return nextCursor === null ? items : undefined
    }
    const ids = [...new Set([...(await state.waiting(subject)), ...(unbooked.get(subject.key) ?? [])])].sort()
    if (ids.length > decidedMax) return undefined
    const found = await Promise.all(
      ids.map((id) => ledger.live(id)?.notification ?? store.notification(tenant, id)),
    )
    return found.filter((each) => each !== undefined)
  }

  /** Returns false where they are too many. */
  async function decideAnew(subject: Subject): Promise<boolean> {
    const waiting = await waitingIn(subject)
    if (waiting === undefined) return false
    const unbookedIds = unbooked.get(subject.key)
    const first = waiting.findIndex(
      (each) => each.dueAt < (forbiddenHours.heldUntil(each) ?? 0) || unbookedIds?.has(each.id) === true,
    )
    if (first < 0) return true
    const ids = new Set(waiting.slice(first).map(({ id }) => id))
    await bookInOrder(subject, waiting.slice(first))
    for (let tries = 1; tries < triesMax; tries += 1) {
      const left = ((await waitingIn(subject)) ?? []).filter(({ id }) => ids.has(id))
      // The place of one that ended meanwhile went to whoever was booked next: a later one may have taken it.
      if (left.length === ids.size) return true
      ids.clear()
      for (const { id } of left) ids.add(id)
      await bookInOrder(subject, left)
    }
    return true
  }

  /** Frees the places of these notifications, and books each again in the order in which they are given. */
  async function bookInOrder(subject: Subject, waiting: readonly Notification[]): Promise<void> {
    const moved: Notification[] = []
    const places: ((isFree: boolean) => Promise<void>)[] = []
    try {
      for (const notification of waiting) {
        const { status, undecided, attempts, tenant, to } = notification
        // One that was sent before counts for that, and waits for its retry alone.
        if (status === 'digesting' || undecided === true || attempts > 0) continue
        const recipient = await findOrNobody(recipients, tenant, to.id)
        const isIn = policy
          .rulesFor(notification, recipient)
          .some((each) => each.subject.key === subject.key && each.rules.length > 0)
        if (!isIn || ledger.live(notification.id)?.status === 'sending') continue
        moved.push(notification)
        places.push(await limiter.lift({ notification, recipient }))
      }
      while (moved.length > 0) {
        const [notification] = moved
        await review(notification!, true).catch((error) => {
          if (concernsAll(error)) throw error
          onError(`review ${notification!.id}`, error)
        })
        moved.shift()
      }
    } finally {
      if (moved.length > 0 && unbooked.size < unbookedMax)
        unbooked.set(subject.key, new Set(moved.map(({ id }) => id)))
      else unbooked.delete(subject.key)
      for (const done of places) await done(false)
    }
  }

  async function rebook(subject: Subject, onBooked: (areAll: boolean) => void): Promise<void> {
    await state.pause([subject])
    await movingUp.moveUpAfter(subject, async () => {
      const areAll = await decideAnew(subject).catch((error) => {
        if (concernsAll(error)) throw error
        onError('book those whom a hold stops', error)
        return false
      })
      onBooked(areAll)
    })
  }

  return (subject) => {
    const { promise: booked, resolve, reject } = Promise.withResolvers<boolean>()
    const over = rebook(subject, resolve)
    over.catch(reject)
    // Nobody may wait for the one or the other.
    booked.catch(() => {})
    return { booked, over }
  }
}
