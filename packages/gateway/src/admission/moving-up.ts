/**
 * Notifications that wait for a recipient's limits move up when a slot becomes free: another one was cancelled, expired
 * or suppressed, a preference or the policy became wider. While those of a subject move up it is paused, so that no newcomer
 * takes a place before those who wait: each of them, in the order of acceptance, is reserved anew where its limits admit
 * it earlier, again and again until nobody gains. Each step brings one to an earlier instant, so that it comes to an
 * end. Nobody is moved to a later instant here.
 */

import { concernsAll } from '../errors.ts'
import type { Notification, Recipient } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, LimitState, Store, Subject } from '../ports.ts'
import { createSleeper } from '../sleeper.ts'
import type { Ledger, RecipientLimiter, Scheduler } from '../stages.ts'
import { withUndo } from '../undo.ts'
import type { Candidate } from './candidate.ts'
import type { DigestCloser } from './digests/digest-closer.ts'
import type { Evaluator } from './evaluate.ts'
import { createMoveUpPause } from './move-up-pause.ts'
import { createMoveUpRetries } from './move-up-retries.ts'
import { comesBefore, createMoveUpTurn, type MoveUpTurn } from './move-up-turn.ts'
import { createMoveUpWriter } from './move-up-writer.ts'
import { findOrNobody, type RecipientCache } from './recipient-cache.ts'
import { createStartWalk, type Review } from './start-walk.ts'
import { createUnrecorded } from './unrecorded.ts'
import { createUnwrittenMoves } from './unwritten-moves.ts'

export interface MovingUpOptions {
  readonly state: Pick<LimitState, 'waiting' | 'delist' | 'pause' | 'resume' | 'queueBehind' | 'mayKeepHolds'>
  readonly limiter: Pick<RecipientLimiter, 'enlist' | 'putBack'>
  readonly store: Pick<Store, 'notification' | 'digest' | 'scan' | 'unsettled' | 'isVersioned'>
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
  /**
   * Places of these subjects, which are paused, are free; resolves when all have moved up and they are resumed. `at` is the
   * instant of the place, epoch ms, where it is known.
   */
  freed(subjects: readonly Subject[], at?: number): Promise<void>
  /**
   * Does what makes places of a subject free, which is paused, while nobody moves up there, and then the same; rejects
   * with what the work rejects with.
   */
  moveUpAfter(subject: Subject, work: () => Promise<void>): Promise<void>
  /** One that waits for its expiry: it is tried again whenever a place of its limits becomes free. */
  enlist(notification: Notification, recipient: Recipient | null): Promise<void>
  /**
   * Tells that a notification is on record now. One whose slot was looked at while its commit was under way could not
   * move up: it is tried again.
   */
  recorded(id: string): void
  /**
   * Walks the record in the background and lets those move up who were promised an instant under another policy; after a
   * kill, or a stop that cut this short, everybody, for a place that became free may not have been given to anybody. Saved
   * preferences are applied by `review` before that. A subject in which a place becomes free meanwhile does not wait for it.
   */
  start(review: Review): void
  /** Another policy is in force, or a process was killed: walks as at a start, but for a `death` that others outlived. */
  walkAgain(why: 'policy' | 'kill' | 'death'): void
  /** True if that has come to its end. */
  isThrough(): boolean
  /** Resolves when nobody moves any more: to false where the next start has to move those up who are left. */
  stop(): Promise<boolean>
}

/** Looked at before the event loop goes on with others: about 5 ms. */
const sliceMax = 64
/** Looked at and written before all others, so that the first who wait have their places soon. */
const firstMax = 8
/** Writes under way at once: several slices share a commit where the disk is slow. */
const writesMax = 8 * sliceMax
/** An instant before, and one behind all others. */
const [noInstant, anyInstant] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]

export function createMovingUp(options: MovingUpOptions): MovingUp {
  const { state, store, policy, ledger, recipients, scheduler, evaluator, closer, clock, onError } = options
  /** One for each subject in which some move up now. */
  const turns = new Map<string, MoveUpTurn>()
  let stopped = false
  const isStopped = (): boolean => stopped
  let walking: Promise<void> | undefined
  /** Undefined before the start. */
  let reviewing: Review | undefined
  /** True if somebody may have been left with a later instant than there was. */
  let isCutShort = false
  const { sleep, wakeAll } = createSleeper(clock)
  const writer = createMoveUpWriter({ store, ledger, scheduler, clock, sleep, isStopped, onError })
  const { waits, write } = writer
  const { limiter } = options
  const moved = { limiter, state, store, ledger, recipients, clock, waits, freed, sleep, isStopped, onError }
  const unwritten = createUnwrittenMoves(moved)
  const unrecorded = createUnrecorded({ moveUpFrom, sleep, isStopped, onError })
  const retries = createMoveUpRetries({
    state,
    moveUpAfter,
    before: unwritten.putBackNoted,
    sleep,
    isStopped,
  })

  /** @param at - the instant of the place that is free, where it is known */
  async function moveUpIn(subject: Subject, at?: number): Promise<void> {
    const turn = turns.get(subject.key)
    if (turn === undefined) return takeTurn(subject)
    turn.freed(at)
    // The turn under way holds newcomers up already.
    await state.resume([subject])
    return turn.over
  }

  /** Evaluates a notification again that was not on record when it was evaluated, and those behind it. */
  async function moveUpFrom(subject: Subject, id: string): Promise<void> {
    await state.pause([subject])
    const turn = turns.get(subject.key)
    if (turn === undefined) return takeTurn(subject, { from: id })
    turn.revisit(id)
    await state.resume([subject])
  }

  async function moveUpAfter(subject: Subject, work: () => Promise<void>): Promise<void> {
    for (let turn = turns.get(subject.key); turn !== undefined; turn = turns.get(subject.key)) await turn.over
    const ends: PromiseSettledResult<void>[] = []
    await takeTurn(subject, { work: async () => void ends.push(...(await Promise.allSettled([work()]))) })
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  async function takeTurn(
    subject: Subject,
    { work, from }: { readonly work?: () => Promise<void>; readonly from?: string } = {},
  ): Promise<void> {
    const pause = createMoveUpPause(subject, state, clock)
    const turn = createMoveUpTurn(pause, policy.longestWindowMs, from)
    turns.set(subject.key, turn)
    try {
      await work?.()
      await passUntilNobodyGains(subject, turn)
      retries.succeeded(subject)
    } catch (error) {
      leave(subject, turn)
      onError('let those who wait move up', error)
      retries.later(subject, error)
    } finally {
      await pause.end()
      turn.end()
    }
  }

  function leave({ key }: Subject, turn: MoveUpTurn): void {
    if (turns.get(key) === turn) turns.delete(key)
  }

  /** Passes again until nobody gains, nothing more became free, and nobody came meanwhile. */
  async function passUntilNobodyGains(subject: Subject, turn: MoveUpTurn): Promise<void> {
    for (let first = true, hasFloor = false; ; first = false) {
      const waiting = await state.waiting(subject, { first })
      // Newcomers that came meanwhile stand behind those that have moved: they close up.
      const ids = turn.next(waiting)
      // In the step that found nothing left to do: what becomes free from here on begins another turn.
      if (ids.length === 0 && !first && !hasFloor) return leave(subject, turn)
      if (await state.queueBehind(subject, waiting)) turn.pause.endSoon()
      hasFloor = true
      await pass(subject, ids, turn)
      if (stopped) {
        isCutShort = true
        return leave(subject, turn)
      }
      if (turn.isBehind) continue
      await turn.pause.begin()
      await state.queueBehind(subject, [])
      hasFloor = false
    }
  }

  /**
   * Moves all up that can, by slices, of which the first is small: its places are on record soon. Newcomers are held up
   * at first, and reserved behind all of them after that. A place that becomes free meanwhile goes to the first who wait at
   * once, and to the others by the next pass.
   */
  async function pass(subject: Subject, ids: readonly string[], turn: MoveUpTurn): Promise<void> {
    let writes: Promise<unknown>[] = []
    const written = async (): Promise<void> => {
      const all = writes
      writes = []
      await Promise.all(all)
    }
    try {
      let first = 0
      for (let from = 0, size = firstMax; from < ids.length && !stopped; from += size, size = sliceMax) {
        if (from > 0) await new Promise<void>((next) => clock.soon(next))
        if (turn.isFreed && from > 0) {
          await written()
          turn.isFreed = false
          let gone: number
          do {
            gone = await moveUp(subject, ids.slice(first, first + sliceMax), turn, writes)
            first += gone
          } while (gone === sliceMax && first < from)
        }
        await moveUp(subject, ids.slice(from, from + size), turn, writes)
        if (from === 0 || writes.length >= writesMax) await written()
      }
    } finally {
      await written()
    }
  }

  /**
   * Books each anew, one after the other, and begins to write what they gain. Returns how many of the first do not wait
   * any more.
   */
  async function moveUp(
    subject: Subject,
    ids: readonly string[],
    turn: MoveUpTurn,
    writes: Promise<unknown>[],
  ): Promise<number> {
    const found = await Promise.all(ids.map((id) => ledger.live(id)?.notification ?? read(subject, id)))
    let gone = 0
    for (const [index, notification] of found.entries()) {
      const id = ids[index]!
      turn.evaluating(id)
      try {
        if (notification === undefined) turn.keeps(await closeEarlier(subject, id))
        else if (waits(notification)) turn.keeps(await moveOne(subject, notification, writes))
        else if (notification.status === 'queued' && notification.undecided) {
          unrecorded.note(id, subject)
          unrecorded.missed(id, subject)
        } else {
          if (index === gone) gone += 1
          await state.delist([{ subject, id }])
        }
      } catch (error) {
        if (concernsAll(error)) throw error
        turn.keeps(anyInstant)
        // It keeps its instant, and those behind it move up.
        onError(`let ${id} move up`, error)
      }
      await turn.pause.lookedAt()
    }
    return gone
  }

  /** Returns the instant at which it leaves now. */
  async function moveOne(
    subject: Subject,
    notification: Notification,
    writes: Promise<unknown>[],
  ): Promise<number> {
    const { tenant, to } = notification
    const each: Candidate = { notification, recipient: await findOrNobody(recipients, tenant, to.id) }
    if (isLeftElsewhere(subject, each)) return anyInstant
    if (notification.undecided === true) {
      await rescue(each)
      return anyInstant
    }
    const verdict = await evaluator.advance(each).catch((error) => {
      if (concernsAll(error)) unwritten.note(notification)
      throw error
    })
    if (verdict === undefined) return notification.dueAt
    const writing = write(notification, verdict)
    // It is awaited later.
    writing.catch(() => undefined)
    writes.push(writing)
    return verdict.dueAt
  }

  /**
   * Leaves a notification to the turn of another subject in which it waits as well. There it is evaluated behind those who
   * were accepted before it: moved here, it would take their places. Two turns never leave one to each other.
   */
  function isLeftElsewhere(own: Subject, { notification, recipient }: Candidate): boolean {
    if (turns.size === 1) return false
    for (const { subject, rules } of policy.rulesFor(notification, recipient)) {
      const turn = turns.get(subject.key)
      if (turn === undefined || rules.length === 0 || !comesBefore(subject, own)) continue
      turn.revisit(notification.id)
      return true
    }
    return false
  }

  /** One whose row is damaged waits for nothing any more. */
  async function read(subject: Subject, id: string): Promise<Notification | undefined> {
    unrecorded.note(id, subject)
    try {
      const notification = await store.notification(subject.tenant, id)
      if (notification !== undefined) unrecorded.found(id)
      return notification
    } catch (error) {
      if (concernsAll(error)) throw error
      return undefined
    }
  }

  /**
   * A digest whose window is over waits for a limit: it is closed now, or has an earlier instant; one that only the policy of
   * others has is left to them. Returns the instant that the id may hold; none where it is not on record: it is evaluated then.
   */
  async function closeEarlier(subject: Subject, id: string): Promise<number> {
    const digest = await store.digest(id)
    const windowMs = digest && (policy.digest(digest.name)?.windowMs ?? (store.isVersioned ? anyInstant : 0))
    if (digest === undefined) unrecorded.missed(id, subject)
    else unrecorded.found(id)
    const isHeldUp = digest !== undefined && digest.openedAt + windowMs! <= clock.now()
    if (!isHeldUp) await state.delist([{ subject, id }])
    else if (!closer.hasFailed(digest)) await closer.close(digest)
    return digest === undefined ? noInstant : anyInstant
  }

  /** One that waits for its expiry holds the instant that its limits admit before that, if there is one now. */
  async function rescue(each: Candidate): Promise<void> {
    await withUndo(onError, async (undo) => {
      await evaluator.evaluate([each], undo, { again: true, waitOnly: true, waited: true })
      if (each.verdict?.reserved !== true) return
      // Where the record has moved on, whoever moved it does not know of this place.
      if ((await write(each.notification, each.verdict)) !== 'gone') undo.keep()
    })
  }

  async function enlist(notification: Notification, recipient: Recipient | null): Promise<void> {
    await limiter.enlist([{ notification, recipient }])
    // A place may have become free since it was decided.
    const each: Candidate = { notification, recipient }
    await evaluator.preview([each], { again: true, waitOnly: true })
    if (each.verdict?.reserved !== true) return
    const subjects = policy.rulesFor(notification, recipient).map(({ subject }) => subject)
    await state.pause(subjects)
    await freed(subjects)
  }

  async function freed(subjects: readonly Subject[], at?: number): Promise<void> {
    await Promise.all(subjects.map((subject) => moveUpIn(subject, at)))
  }

  const walk = createStartWalk({
    store,
    policy,
    recipients,
    state,
    freed,
    isWaiting: waits,
    sleep,
    isStopped,
    clock,
    onError,
  })

  return {
    freed,
    moveUpAfter,
    enlist,
    recorded: unrecorded.recorded,
    isThrough: walk.isThrough,
    start(review) {
      reviewing = review
      walking = walk.start(review)
      if (store.unsettled) unwritten.look()
    },
    walkAgain(why) {
      if (why !== 'policy') unwritten.look()
      if (why === 'kill') walk.meetAll()
      // A walk under way goes on, and begins anew at its end.
      if (why === 'death' || reviewing === undefined || stopped || walk.isUnderWay()) return
      walking = walk.start(reviewing)
    },
    async stop() {
      stopped = true
      wakeAll()
      await Promise.all([walking, unwritten.over()])
      await Promise.all([...turns.values()].map((turn) => turn.over))
      return !isCutShort && !retries.isCutShort() && !writer.isBehind() && walk.isWhole()
    },
  }
}
