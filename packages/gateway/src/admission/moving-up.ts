/**
 * Notifications that wait for a recipient's limits move up when a slot becomes free: another one was cancelled, expired
 * or suppressed, a preference or the policy became wider. While a subject is settled it is paused, so that no newcomer
 * takes a place before those who wait: each of them, in the order of acceptance, is booked anew where its limits admit
 * it earlier, again and again until nobody gains. Each step brings one to an earlier instant, so that it comes to an
 * end. Nobody is moved to a later instant here.
 */

import { concernsAll } from '../errors.ts'
import type { Notification, Recipient } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, LimitState, Store, Subject } from '../ports.ts'
import type { Ledger, RecipientLimiter, Scheduler } from '../stages.ts'
import { withUndo } from '../undo.ts'
import type { Candidate, Verdict } from './candidate.ts'
import type { DigestCloser } from './digests/digest-closer.ts'
import { type Evaluator, moveTo } from './evaluate.ts'
import { findOrNobody, type RecipientCache } from './recipient-cache.ts'
import { createStartWalk, type Review } from './start-walk.ts'

export interface MovingUpOptions {
  readonly state: Pick<LimitState, 'waiting' | 'delist' | 'pause' | 'resume' | 'queueBehind'>
  readonly limiter: Pick<RecipientLimiter, 'enlist'>
  readonly store: Pick<Store, 'notification' | 'digest' | 'scan' | 'unsettled'>
  readonly policy: Policy
  readonly ledger: Pick<Ledger, 'commit' | 'live' | 'release'>
  readonly recipients: Pick<RecipientCache, 'find'>
  readonly scheduler: Pick<Scheduler, 'place' | 'recover'>
  readonly evaluator: Pick<Evaluator, 'advance' | 'evaluate' | 'preview'>
  readonly closer: DigestCloser
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

export interface MovingUp {
  /** Places of these subjects, which are paused, are free; resolves when all have moved up and they are resumed. */
  freed(subjects: readonly Subject[]): Promise<void>
  /**
   * Does what makes places of a subject free, which is paused, while nobody moves up there, and then the same; rejects
   * with what the work rejects with.
   */
  settleAfter(subject: Subject, work: () => Promise<void>): Promise<void>
  /** One that waits for its expiry: it is tried again whenever a place of its limits becomes free. */
  enlist(notification: Notification, recipient: Recipient | null): Promise<void>
  /**
   * Tells that a notification is on record now. One whose slot was looked at while its commit was under way could not
   * move up: its subject is settled again.
   */
  recorded(id: string): void
  /**
   * In the background: everybody who was promised an instant under another policy, the record through. After a kill, or
   * a stop that cut this short, everybody, and what their people had asked for is brought to them: a place that became
   * free may not have been given to anybody. Whoever is asked for before has moved up before that.
   */
  start(review: Review): void
  /** Another policy is in force: walks through the record as at a start, as soon as `start` was called. */
  policyChanged(): void
  /** True if that has come to its end. */
  isThrough(): boolean
  /** Resolves when nobody moves any more: to false where the next start has to move those up who are left. */
  stop(): Promise<boolean>
}

/** Looked at before the event loop goes on with others: about 5 ms. */
const sliceMax = 64
/**
 * Newcomers are held up while so many are looked at: some 10 ms where nobody gains, 50 ms where each is a row written.
 * Where more wait for one subject, newcomers are booked behind all of them after that, and close up when the pass is over.
 */
const pausedMax = 2 * sliceMax
/** Until the record is asked again that could not be read, ms; for a subject twice as long with each failure. */
const againMs = 1_000
const againMsMax = 60_000
/** Slots of commits under way that are remembered: more than a process has at once. */
const unrecordedMax = 10_000
/** A record that moves on again and again is on its way. */
const triesMax = 8

interface Turn {
  readonly over: Promise<void>
  /** A place has become free since the pass under way began. */
  again: boolean
  /** The same, since those who wait longest were looked at last. */
  isFreed: boolean
  isPaused: boolean
}

export function createMovingUp(options: MovingUpOptions): MovingUp {
  const { state, limiter, store, policy, ledger, recipients, scheduler, evaluator, closer, clock, onError } =
    options
  /** One for each subject that is being settled. */
  const turns = new Map<string, Turn>()
  let stopped = false
  let walking: Promise<void> | undefined
  /** Undefined before the start. */
  let reviewing: Review | undefined
  /**
   * Ids that were looked at and are not on record, with their subjects: slots of a commit under way. One whose commit
   * was refused stays until it is the oldest of too many.
   */
  const unrecorded = new Map<string, Subject>()
  /** True if somebody may have been left with a later instant than there was. */
  let isCutShort = false
  /** Ends a rest: as many as there are subjects that are tried again, and the walk at the start. */
  const resting = new Set<() => void>()
  /** Failed passes in a row, of the subjects that are tried again. */
  const failures = new Map<string, number>()

  async function settle(subject: Subject): Promise<void> {
    const turn = turns.get(subject.key)
    if (turn === undefined) return takeTurn(subject)
    turn.again = true
    turn.isFreed = true
    // The turn under way holds newcomers up already.
    await state.resume([subject])
    return turn.over
  }

  async function settleAfter(subject: Subject, work: () => Promise<void>): Promise<void> {
    for (let turn = turns.get(subject.key); turn !== undefined; turn = turns.get(subject.key)) await turn.over
    let failed: { readonly error: unknown } | undefined
    await takeTurn(subject, () =>
      work().catch((error: unknown) => {
        failed = { error }
      }),
    )
    if (failed !== undefined) throw failed.error
  }

  async function takeTurn(subject: Subject, work?: () => Promise<void>): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const own: Turn = { over: promise, again: false, isFreed: false, isPaused: true }
    turns.set(subject.key, own)
    try {
      await work?.()
      await passUntilSettled(subject, own)
      failures.delete(subject.key)
    } catch (error) {
      onError('let those who wait move up', error)
      retryLater(subject)
    } finally {
      turns.delete(subject.key)
      if (own.isPaused) await state.resume([subject])
      resolve()
    }
  }

  /** Tries again after a failure. Until then newcomers stay behind all who waited when the pass began. */
  function retryLater(subject: Subject): void {
    isCutShort ||= stopped
    if (stopped) return
    const count = failures.get(subject.key) ?? 0
    failures.set(subject.key, count + 1)
    const retryMs = Math.min(againMsMax, againMs * 2 ** Math.min(count, 30))
    void rest(retryMs).then(async () => {
      if (stopped) isCutShort = true
      else await state.pause([subject]).then(() => settle(subject))
    })
  }

  /** Passes again until nobody gains, nothing more became free, and nobody came meanwhile. */
  async function passUntilSettled(subject: Subject, own: Turn): Promise<void> {
    let ids: readonly string[] = await state.waiting(subject)
    do {
      own.again = false
      own.isFreed = false
      const last = ids.at(-1) ?? ''
      await pass(subject, ids, own)
      if (stopped) break
      if (!own.again) {
        if (!own.isPaused) await state.pause([subject])
        own.isPaused = true
        await state.queueBehind(subject, [])
      }
      // Newcomers that came meanwhile stand behind those that have moved: they close up.
      const waiting = await state.waiting(subject)
      ids = own.again ? waiting : waiting.filter((id) => id > last)
    } while (ids.length > 0 || own.again)
    isCutShort ||= stopped && ids.length > 0
  }

  /**
   * Moves all up that can, by slices. Newcomers are held up at first, and booked behind all of them after that. A place
   * that becomes free meanwhile goes to the first who wait at once, and to the others by the next pass.
   */
  async function pass(subject: Subject, ids: readonly string[], own: Turn): Promise<void> {
    await state.queueBehind(subject, ids)
    let first = 0
    for (let from = 0; from < ids.length && !stopped; from += sliceMax) {
      if (from > 0) await new Promise<void>((next) => clock.soon(next))
      if (own.isFreed && from > 0) {
        own.isFreed = false
        let gone: number
        do {
          gone = await moveUp(subject, ids.slice(first, first + sliceMax))
          first += gone
        } while (gone === sliceMax && first < from)
      }
      await moveUp(subject, ids.slice(from, from + sliceMax))
      if (!own.isPaused || from + sliceMax < pausedMax) continue
      own.isPaused = false
      await state.resume([subject])
    }
  }

  /**
   * Books each anew, one after the other; what they gain is written together. Returns how many of the first do not wait
   * any more.
   */
  async function moveUp(subject: Subject, ids: readonly string[]): Promise<number> {
    const found = await Promise.all(ids.map((id) => ledger.live(id)?.notification ?? read(subject, id)))
    const writes: Promise<unknown>[] = []
    let gone = 0
    for (const [index, notification] of found.entries()) {
      const id = ids[index]!
      try {
        if (notification === undefined) await closeEarlier(subject, id)
        else if (waits(notification)) await moveOne(notification, writes)
        else {
          if (index === gone) gone += 1
          await state.delist([{ subject, id }])
        }
      } catch (error) {
        if (concernsAll(error)) throw error
        // It keeps its instant, and those behind it move up.
        onError(`let ${id} move up`, error)
      }
    }
    await Promise.all(writes)
    return gone
  }

  async function moveOne(notification: Notification, writes: Promise<unknown>[]): Promise<void> {
    const { tenant, to } = notification
    const each: Candidate = { notification, recipient: await findOrNobody(recipients, tenant, to.id) }
    if (notification.undecided === true) return rescue(each)
    const verdict = await evaluator.advance(each)
    if (verdict !== undefined) writes.push(write(notification, verdict))
  }

  /** One whose row is damaged waits for nothing any more. */
  async function read(subject: Subject, id: string): Promise<Notification | undefined> {
    // Before it is read: its commit may be answered before the read is.
    unrecorded.set(id, subject)
    try {
      const notification = await store.notification(subject.tenant, id)
      if (notification !== undefined) unrecorded.delete(id)
      return notification
    } catch (error) {
      if (concernsAll(error)) throw error
      return undefined
    }
  }

  /** True if it still waits for its instant, or for its expiry. A queued notification is about to leave. */
  function waits(notification: Notification): boolean {
    const { id, status, undecided } = notification
    if (status !== 'scheduled' || (ledger.live(id)?.status ?? status) !== 'scheduled') return false
    return undecided !== true || isDoomed(notification)
  }

  /** A digest whose window is over waits for a limit: it is closed now, or has an earlier instant. */
  async function closeEarlier(subject: Subject, id: string): Promise<void> {
    const digest = await store.digest(id)
    const windowMs = digest && (policy.digest(digest.name)?.windowMs ?? 0)
    if (digest !== undefined) unrecorded.delete(id)
    const [oldest] = unrecorded.size > unrecordedMax ? unrecorded.keys() : []
    if (oldest !== undefined) unrecorded.delete(oldest)
    const isHeldUp = digest !== undefined && digest.openedAt + windowMs! <= clock.now()
    if (!isHeldUp) await state.delist([{ subject, id }])
    else if (!closer.hasFailed(digest)) await closer.close(digest)
  }

  /** One that waits for its expiry holds the instant that its limits admit before that, if there is one now. */
  async function rescue(each: Candidate): Promise<void> {
    await withUndo(onError, async (undo) => {
      await evaluator.evaluate([each], undo, { again: true, patient: true, waited: true })
      if (each.verdict?.booked !== true) return
      // Where the record has moved on, whoever moved it does not know of this place.
      if ((await write(each.notification, each.verdict)) !== 'gone') undo.keep()
    })
  }

  /** `gone` where it does not wait any more. */
  async function write(found: Notification, verdict: Verdict): Promise<'written' | 'failed' | 'gone'> {
    // The version in memory, which must not leave while the change is under way: what was read is another object.
    let before: Notification | undefined = ledger.live(found.id)?.notification ?? found
    for (let tries = 0; before !== undefined && waits(before) && tries < triesMax; tries += 1) {
      const path = ledger.live(before.id)?.events ?? []
      ledger.release(before)
      const move = moveTo(before, clock.now(), { ...verdict, detail: 'moved up' }, path)
      try {
        if ((await ledger.commit({ moves: [move] })).applied) {
          scheduler.place([move.after])
          return 'written'
        }
      } catch (error) {
        // Its place in the limits is the earlier one; it leaves when it was promised to.
        scheduler.place([before])
        onError('move up', error)
        return 'failed'
      }
      before = ledger.live(found.id)?.notification ?? (await store.notification(found.tenant, found.id))
    }
    await scheduler.recover(found)
    return 'gone'
  }

  async function enlist(notification: Notification, recipient: Recipient | null): Promise<void> {
    await limiter.enlist([{ notification, recipient }])
    // A place may have become free since it was decided.
    const each: Candidate = { notification, recipient }
    await evaluator.preview([each], { again: true, patient: true })
    if (each.verdict?.booked !== true) return
    const subjects = policy.rulesFor(notification, recipient).map(({ subject }) => subject)
    await state.pause(subjects)
    await freed(subjects)
  }

  async function freed(subjects: readonly Subject[]): Promise<void> {
    await Promise.all(subjects.map(settle))
  }

  function rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        disarm()
        resting.delete(wake)
        resolve()
      }
      const disarm = clock.at(clock.now() + ms, wake)
      resting.add(wake)
    })
  }

  const walk = createStartWalk({
    store,
    policy,
    recipients,
    state,
    freed,
    isWaiting: waits,
    rest,
    isStopped: () => stopped,
    clock,
    onError,
  })

  return {
    freed,
    settleAfter,
    enlist,
    recorded(id) {
      const subject = unrecorded.size === 0 ? undefined : unrecorded.get(id)
      if (subject === undefined) return
      unrecorded.delete(id)
      state
        .pause([subject])
        .then(() => settle(subject))
        .catch((error) => onError('let those who wait move up', error))
    },
    isThrough: walk.isThrough,
    start(review) {
      reviewing = review
      walking = walk.start(review)
    },
    policyChanged() {
      // A walk under way goes on, and begins anew at its end.
      if (reviewing === undefined || stopped || walk.isUnderWay()) return
      walking = walk.start(reviewing)
    },
    async stop() {
      stopped = true
      for (const wake of resting) wake()
      await walking
      await Promise.all([...turns.values()].map((turn) => turn.over))
      return !isCutShort && (walk.isThrough() || !store.unsettled)
    },
  }
}

/** Its limits would have let it leave only after its end. */
function isDoomed({ undecided, dueAt, expiresAt, decision }: Notification): boolean {
  return undecided === true && dueAt === expiresAt && decision.reason !== 'send_at'
}
