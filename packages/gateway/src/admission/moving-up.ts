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

export interface MovingUpOptions {
  readonly state: Pick<LimitState, 'waiting' | 'delist' | 'pause' | 'resume' | 'queueBehind'>
  readonly limiter: Pick<RecipientLimiter, 'enlist'>
  readonly store: Pick<Store, 'notification' | 'digest' | 'scan' | 'crashed'>
  readonly policy: Policy
  readonly ledger: Pick<Ledger, 'commit' | 'live' | 'release'>
  readonly recipients: Pick<RecipientCache, 'find'>
  readonly scheduler: Pick<Scheduler, 'place' | 'recover'>
  readonly evaluator: Pick<Evaluator, 'advance' | 'evaluate' | 'preview'>
  readonly closer: DigestCloser
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

/** Evaluates a waiting notification again under its recipient's present preferences (redecision.ts). */
export type Review = (waiting: Notification) => Promise<void>

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
   * In the background: everybody who was promised an instant under another policy, the record through. After a kill
   * everybody, and what their people had asked for is brought to them: a place that became free may not have been given
   * to anybody. Whoever is asked for before has moved up before that.
   */
  start(review: Review): void
  /** True if that has come to its end. */
  isThrough(): boolean
  /** Resolves when nobody moves any more. */
  stop(): Promise<void>
}

/** Looked at before the event loop goes on with others: about 5 ms. */
const sliceMax = 64
/**
 * Newcomers are held up while so many are looked at, some 100 ms. Where more wait for one subject, newcomers are booked
 * behind all of them after that, and close up when the pass is over.
 */
const pausedMax = 2_000
/** Rows of the record looked at in one go: about 1 ms of the store where none waits, 10 ms where all do. */
const scanMax = 500
/** Subjects that are settled together, and the pause after them, in which others have the store: ms. */
const subjectsAtOnce = 50
const restMs = 5
/** Until the record is asked again that could not be read, ms. */
const againMs = 1_000
/** A recipient with many who wait is met again and again: so many of those met are known. */
const metMax = 20_000
/** A record that moves on again and again is on its way. */
const triesMax = 8

interface Turn {
  readonly over: Promise<void>
  /** A place has become free since the pass under way began. */
  again: boolean
}

export function createMovingUp(options: MovingUpOptions): MovingUp {
  const { state, limiter, store, policy, ledger, recipients, scheduler, evaluator, closer, clock, onError } =
    options
  /** One for each subject that is being settled. */
  const turns = new Map<string, Turn>()
  let stopped = false
  let through = false
  let sweeping: Promise<void> | undefined
  let wake: (() => void) | undefined

  async function settle(subject: Subject): Promise<void> {
    const turn = turns.get(subject.key)
    if (turn === undefined) return takeTurn(subject)
    turn.again = true
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
    const own: Turn = { over: promise, again: false }
    turns.set(subject.key, own)
    const pausing = { isPaused: true }
    try {
      await work?.()
      let ids: readonly string[] = await state.waiting(subject)
      do {
        own.again = false
        const last = ids.at(-1) ?? ''
        await pass(subject, ids, pausing)
        if (!own.again && !pausing.isPaused) {
          await state.pause([subject])
          pausing.isPaused = true
        }
        // Newcomers that came meanwhile stand behind those that have moved: they close up.
        const waiting = await state.waiting(subject)
        ids = own.again ? waiting : waiting.filter((id) => id > last)
      } while ((ids.length > 0 || own.again) && !stopped)
    } catch (error) {
      onError('let those who wait move up', error)
    } finally {
      await state.queueBehind(subject, [])
      turns.delete(subject.key)
      if (pausing.isPaused) await state.resume([subject])
      resolve()
    }
  }

  /** Moves all up that can, by slices. Newcomers are held up at first, and booked behind all of them after that. */
  async function pass(subject: Subject, ids: readonly string[], pausing: { isPaused: boolean }) {
    await state.queueBehind(subject, ids)
    for (let from = 0; from < ids.length && !stopped; from += sliceMax) {
      if (from > 0) await new Promise<void>((next) => clock.soon(next))
      await moveUp(subject, ids.slice(from, from + sliceMax))
      if (!pausing.isPaused || from + sliceMax < pausedMax) continue
      pausing.isPaused = false
      await state.resume([subject])
    }
  }

  /** Books each anew, one after the other; what they gain is written together. */
  async function moveUp(subject: Subject, ids: readonly string[]): Promise<void> {
    const { tenant } = subject
    const found = await Promise.all(ids.map((id) => ledger.live(id)?.notification ?? read(tenant, id)))
    const writes: Promise<unknown>[] = []
    for (const [index, notification] of found.entries()) {
      const id = ids[index]!
      try {
        if (notification === undefined) await closeEarlier(subject, id)
        else if (waits(notification)) await moveOne(notification, writes)
        else await state.delist([{ subject, id }])
      } catch (error) {
        if (concernsAll(error)) throw error
        // It keeps its instant, and those behind it move up.
        onError(`let ${id} move up`, error)
      }
    }
    await Promise.all(writes)
  }

  async function moveOne(notification: Notification, writes: Promise<unknown>[]): Promise<void> {
    const { tenant, to } = notification
    const each: Candidate = { notification, recipient: await findOrNobody(recipients, tenant, to.id) }
    if (notification.undecided === true) return rescue(each)
    const verdict = await evaluator.advance(each)
    if (verdict !== undefined) writes.push(write(notification, verdict))
  }

  /** One whose row is damaged waits for nothing any more. */
  async function read(tenant: string, id: string): Promise<Notification | undefined> {
    try {
      return await store.notification(tenant, id)
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
    let before: Notification | undefined = found
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
      const disarm = clock.at(clock.now() + ms, resolve)
      wake = () => {
        disarm()
        resolve()
      }
    })
  }

  /** All who were promised an instant under another policy, or by a process that was killed. */
  async function sweep(review: Review): Promise<void> {
    let met = new Set<string>()
    for (let cursor: string | null | undefined; cursor !== null && !stopped; ) {
      try {
        const page = await store.scan({
          statuses: store.crashed ? ['scheduled', 'digesting', 'queued'] : ['scheduled', 'digesting'],
          ...(store.crashed ? {} : { notPolicy: policy.version }),
          limit: scanMax,
          ...(cursor === undefined ? {} : { cursor }),
        })
        const subjects = await subjectsOf(page.items, met, review)
        await settleAll([...subjects.values()])
        if (met.size + subjects.size > metMax) met = new Set()
        for (const key of subjects.keys()) met.add(key)
        cursor = page.nextCursor
      } catch (error) {
        onError('let those who wait move up who were there at the start', error)
        await rest(againMs)
      }
      if (cursor !== null && !stopped) await new Promise<void>((next) => clock.soon(next))
    }
    through = !stopped
  }

  /** Where those of them wait who were not met yet. After a kill their preferences are brought to them first. */
  async function subjectsOf(found: readonly Notification[], met: ReadonlySet<string>, review: Review) {
    const subjects = new Map<string, Subject>()
    for (const notification of found) {
      const { status, tenant, to } = notification
      if (status === 'scheduled' && !waits(notification)) continue
      const recipient = await findOrNobody(recipients, tenant, to.id)
      if (store.crashed && recipient !== null)
        await review(notification).catch((error) => onError(`review ${notification.id}`, error))
      if (status === 'queued') continue
      for (const { subject, rules } of policy.rulesFor(notification, recipient))
        if (rules.length > 0 && !met.has(subject.key)) subjects.set(subject.key, subject)
    }
    return subjects
  }

  async function settleAll(subjects: readonly Subject[]): Promise<void> {
    for (let from = 0; from < subjects.length && !stopped; from += subjectsAtOnce) {
      const some = subjects.slice(from, from + subjectsAtOnce)
      await state.pause(some)
      await freed(some)
      await rest(restMs)
    }
  }

  return {
    freed,
    settleAfter,
    enlist,
    isThrough: () => through,
    start(review) {
      sweeping = sweep(review)
    },
    async stop() {
      stopped = true
      wake?.()
      await sweeping
      await Promise.all([...turns.values()].map((turn) => turn.over))
    },
  }
}

/** Its limits would have let it leave only after its end. */
function isDoomed({ undecided, dueAt, expiresAt, decision }: Notification): boolean {
  return undecided === true && dueAt === expiresAt && decision.reason !== 'send_at'
}
