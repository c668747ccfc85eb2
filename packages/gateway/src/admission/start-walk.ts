/**
 * The walk through the record at a start and after a reload of the policy: every notification that waits and was promised
 * an instant under another policy moves up, and after a kill, or a stop that cut moving up short, every one that waits.
 * The walk goes on in the background, a page and some subjects at a time.
 */
import { waitingReason } from '../backlog-cell.ts'
import { concernsAll } from '../errors.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, LimitState, Store, Subject } from '../ports.ts'
import { isHoldReason } from './quiet-hours.ts'
import { findOrNobody, type RecipientCache } from './recipient-cache.ts'

export interface StartWalkOptions {
  readonly store: Pick<Store, 'scan' | 'unsettled'>
  readonly policy: Policy
  readonly recipients: Pick<RecipientCache, 'find'>
  readonly state: Pick<LimitState, 'pause'>
  /** Lets those who wait in these subjects move up, which are paused. */
  readonly freed: (subjects: readonly Subject[]) => Promise<void>
  readonly isWaiting: (notification: Notification) => boolean
  /** Resolves after so many ms, or at the stop. */
  readonly sleep: (ms: number) => Promise<void>
  readonly isStopped: () => boolean
  readonly clock: Pick<Clock, 'soon'>
  readonly onError: (what: string, error: unknown) => void
}

/**
 * Evaluates a waiting notification again under its recipient's present preferences (redecision.ts). A released one is
 * reserved again in any case.
 */
export type Review = (waiting: Notification, isReleased?: boolean) => Promise<void>

export interface StartWalk {
  /** Resolves at the end of the record, or at the stop. */
  start(review: Review): Promise<void>
  /** The walk under way, or the next one, meets all who wait: a process was killed that nobody has outlived. */
  meetAll(): void
  /** True if it has come to the end of the record once. */
  isThrough(): boolean
  /** True unless there are some to meet after a kill. */
  isWhole(): boolean
  isUnderWay(): boolean
}

/** Rows of the record looked at in one go: about 1 ms of the store where none waits, 10 ms where all do. */
const scanMax = 500
/** Subjects in which some move up at once, and the pause after them, in which others have the store: ms. */
const subjectsAtOnce = 50
const restMs = 5
/** Delay before the record is asked again where it could not be read, ms. */
const againMs = 1_000
/** A recipient with many who wait is met again and again: so many of those met are known. */
const metMax = 20_000

export function createStartWalk(options: StartWalkOptions): StartWalk {
  const { store, policy, recipients, state, freed, isWaiting, sleep, isStopped, clock, onError } = options
  let through = false
  let isUnderWay = false
  /** After a kill a walk meets all who wait, whatever their policy. */
  let meetsAll = store.unsettled
  let kills = 0

  async function walk(review: Review): Promise<void> {
    isUnderWay = true
    let met = kills
    for (let version: string | undefined; (version !== policy.version || met !== kills) && !isStopped(); ) {
      // A policy that is replaced meanwhile, or a kill, leads to another walk.
      version = policy.version
      met = kills
      await walkOnce(review)
      through ||= !isStopped()
      if (met === kills && !isStopped()) meetsAll = false
    }
    isUnderWay = false
  }

  /** Lets all move up who were promised an instant under another policy, or by a process that did not finish. */
  async function walkOnce(review: Review): Promise<void> {
    let met = new Set<string>()
    for (let cursor: string | null | undefined; cursor !== null && !isStopped(); ) {
      try {
        const page = await store.scan({
          statuses: meetsAll ? ['scheduled', 'digesting', 'queued'] : ['scheduled', 'digesting'],
          ...(meetsAll ? {} : { notPolicy: policy.version }),
          limit: scanMax,
          ...(cursor === undefined ? {} : { cursor }),
        })
        const subjects = await subjectsOf(page.items, met, review)
        await moveUpIn([...subjects.values()])
        if (met.size + subjects.size > metMax) met = new Set()
        for (const key of subjects.keys()) met.add(key)
        cursor = page.nextCursor
      } catch (error) {
        onError('let those who wait move up who were there at the start', error)
        await sleep(againMs)
      }
      if (cursor !== null && !isStopped()) await new Promise<void>((next) => clock.soon(next))
    }
  }

  /** Finds the subjects in which they wait and that were not met yet. After a kill their preferences are applied first. */
  async function subjectsOf(found: readonly Notification[], met: ReadonlySet<string>, review: Review) {
    const subjects = new Map<string, Subject>()
    for (const notification of found) {
      const { status, tenant, to } = notification
      if (status === 'scheduled' && !isWaiting(notification)) continue
      const recipient = await findOrNobody(recipients, tenant, to.id)
      if (meetsAll && recipient !== null) await reviewOne(notification, review, false)
      if (status === 'queued') continue
      const rulesOfAll = policy.rulesFor(notification, recipient)
      // One without limits that waited for a hold waits in no subject: a kill may have cut the end of the hold short.
      if (isHoldReason(waitingReason(notification)) && rulesOfAll.every(({ rules }) => rules.length === 0))
        await reviewOne(notification, review, true)
      for (const { subject, rules } of rulesOfAll)
        if (rules.length > 0 && !met.has(subject.key)) subjects.set(subject.key, subject)
    }
    return subjects
  }

  /** A damaged row does not keep the others from theirs; where the store fails, the page is read again. */
  async function reviewOne(notification: Notification, review: Review, isReleased: boolean): Promise<void> {
    await review(notification, isReleased).catch((error) => {
      if (concernsAll(error)) throw error
      onError(`review ${notification.id}`, error)
    })
  }

  async function moveUpIn(subjects: readonly Subject[]): Promise<void> {
    for (let from = 0; from < subjects.length && !isStopped(); from += subjectsAtOnce) {
      const some = subjects.slice(from, from + subjectsAtOnce)
      await state.pause(some)
      await freed(some)
      await sleep(restMs)
    }
  }

  return {
    start: walk,
    meetAll() {
      kills += 1
      meetsAll = true
    },
    isThrough: () => through,
    isWhole: () => !meetsAll,
    isUnderWay: () => isUnderWay,
  }
}
