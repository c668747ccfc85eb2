/**
 * The walk through the record after a hold of notifications began, moved or was ended before its time: those that would
 * leave within the hold are booked behind its end, and those that wait for it without need move up, in the order of
 * acceptance. It goes on in the background, a page at a time; changes that come meanwhile are one more walk. A page during
 * which the store fails is followed once more.
 */
import { waitingReason } from '../backlog-cell.ts'
import { concernsAll } from '../errors.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, HoldRecord, Store, Subject } from '../ports.ts'
import { createUntilDone } from '../sleeper.ts'
import type { HeldSubjects } from './held-subjects.ts'
import type { RebookHeld } from './hold-order.ts'
import { type ForbiddenHours, isHoldReason } from './quiet-hours.ts'
import { findOrNobody, type RecipientCache } from './recipient-cache.ts'
import type { Review } from './start-walk.ts'

export interface HoldWalkOptions {
  readonly store: Pick<Store, 'scan'>
  readonly policy: Policy
  readonly recipients: Pick<RecipientCache, 'find'>
  readonly forbiddenHours: Pick<ForbiddenHours, 'heldUntil'>
  readonly review: Review
  /** Pauses these subjects, and lets those who wait in them move up. */
  readonly moveUp: (subjects: readonly Subject[]) => Promise<void>
  /** Keeps newcomers behind those whom the walk has not reached. */
  readonly heldSubjects: Pick<HeldSubjects, 'changed' | 'reach' | 'over'>
  readonly rebookHeld: RebookHeld
  readonly clock: Pick<Clock, 'now' | 'at' | 'soon'>
  readonly onError: (what: string, error: unknown) => void
}

export interface HoldWalk {
  /** Follows holds that changed; resolves when all of it is done, or at the stop. */
  follow(changed: readonly Selection[]): Promise<void>
  /** Resolves when nothing is being followed: to false where this cut it short. */
  stop(): Promise<boolean>
}

/** The notifications that a hold selects. */
type Selection = Pick<HoldRecord, 'tenant' | 'channel' | 'category'> & {
  /** An account whose hold was shortened or ended: notifications that waited for it hold no places, and are decided anew. */
  readonly isOfAccount?: boolean
}

/** A notification that is reviewed alone, and the subjects in which it waits. */
interface Single {
  readonly notification: Notification
  readonly isReleased: boolean
  readonly subjects: readonly Subject[]
}

/** Rows of the record looked at in one go: about 1 ms of the store where none waits, 10 ms where all do. */
const scanMax = 500
/** Subjects that are rebooked together, so that their commits are shared. */
const subjectsAtOnce = 16
/** Delay until the record is read again after a failure, ms. */
const againMs = 1_000

export function createHoldWalk(options: HoldWalkOptions): HoldWalk {
  const {
    store,
    policy,
    recipients,
    forbiddenHours,
    review,
    moveUp,
    heldSubjects,
    rebookHeld,
    clock,
    onError,
  } = options
  /** Changes that no walk has begun to follow. */
  let pending: Selection[] = []
  let walking: Promise<void> | undefined
  let stopped = false
  let isCutShort = false
  const untilDone = createUntilDone(clock, againMs, onError)

  async function walk(): Promise<void> {
    while (pending.length > 0 && !stopped) {
      const changed = pending
      pending = []
      for (let cursor: string | null | undefined; cursor !== null && !stopped; ) {
        const from = cursor
        await untilDone.run('follow a hold', async () => {
          cursor = await followPage(changed, from)
        })
        if (cursor !== null) await new Promise<void>((next) => clock.soon(next))
      }
      // Subjects that a newcomer has met, and that could not be rebooked.
      await untilDone.run('follow a hold', () => heldSubjects.reach([]))
      isCutShort ||= stopped
    }
    walking = undefined
    heldSubjects.over()
  }

  /** Returns where the next page begins. */
  async function followPage(changed: readonly Selection[], from: string | undefined): Promise<string | null> {
    const page = await store.scan({
      statuses: ['scheduled', 'queued'],
      limit: scanMax,
      ...(from === undefined ? {} : { cursor: from }),
    })
    await followAll(
      page.items.filter((each) => changed.some((selection) => selects(selection, each))),
      (each) => changed.some((selection) => selection.isOfAccount === true && selects(selection, each)),
    )
    return page.nextCursor
  }

  async function followAll(
    found: readonly Notification[],
    isOfAccount: (notification: Notification) => boolean,
  ): Promise<void> {
    const released = new Map<string, Subject>()
    const stoppedIn = new Map<string, Subject>()
    const singly: Single[] = []
    for (const notification of found) {
      if (stopped) return
      const heldUntil = forbiddenHours.heldUntil(notification) ?? 0
      const isStoppedNow = notification.dueAt < heldUntil
      const isReleased = notification.dueAt > heldUntil && isHoldReason(waitingReason(notification))
      if (!isStoppedNow && !isReleased) continue
      const { tenant, to } = notification
      const limited = policy
        .rulesFor(notification, await findOrNobody(recipients, tenant, to.id))
        .filter(({ rules }) => rules.length > 0)
      for (const { subject } of limited) (isReleased ? released : stoppedIn).set(subject.key, subject)
      // One without limits waits in no subject that could be rebooked; one that is queued may wait in none.
      if (isStoppedNow || limited.length === 0 || isOfAccount(notification))
        singly.push({ notification, isReleased, subjects: limited.map(({ subject }) => subject) })
    }
    const all = [...stoppedIn.values()]
    const booked = new Set<string>()
    for (let from = 0; from < all.length && !stopped; from += subjectsAtOnce)
      for (const key of await heldSubjects.reach(all.slice(from, from + subjectsAtOnce))) booked.add(key)
    for (const { notification, isReleased, subjects } of singly) {
      if (stopped) return
      // Under a hold that has changed meanwhile it would lose its place: the next walk books it in order again.
      if (!isReleased && subjects.some(({ key }) => booked.has(key))) continue
      await review(notification, isReleased).catch((error) => {
        if (concernsAll(error)) throw error
        onError(`review ${notification.id}`, error)
      })
    }
    await moveUp([...released.values()])
  }

  return {
    follow(changed) {
      pending.push(...changed)
      heldSubjects.changed(rebookHeld)
      walking ??= walk()
      return walking
    },
    async stop() {
      stopped = true
      untilDone.close()
      await walking
      return !isCutShort
    },
  }
}

const selects = ({ tenant, channel, category }: Selection, notification: Notification): boolean =>
  (tenant === undefined || tenant === notification.tenant) &&
  (channel === undefined || channel === notification.channel) &&
  (category === undefined || category === notification.category)
