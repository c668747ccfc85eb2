/**
 * Decides notifications that were accepted undecided while the server of the limits did not answer: in the order of their
 * acceptance, as soon as it answers again. While it is away the first of them is tried now and then, and no other. Those to
 * a recipient whose newcomers are held up wait aside.
 */
import { HeldUpError, isStateAway } from '../errors.ts'
import type { Notification } from '../model.ts'
import { revisionOf } from '../model.ts'
import { recipientSubject } from '../policy/subject.ts'
import type { Clock } from '../ports.ts'
import { createSleeper } from '../sleeper.ts'
import type { Ledger, Scheduler } from '../stages.ts'

export interface UndecidedQueueOptions {
  /** Passes the limits of its tenant, and decides it for its recipient. */
  readonly decide: (notification: Notification) => Promise<unknown>
  /** Tries a notification again later that could not be decided for another reason. */
  readonly retryLater: (notification: Notification, error: unknown) => void
  readonly ledger: Pick<Ledger, 'isCurrent' | 'live' | 'hold'>
  readonly scheduler: Pick<Scheduler, 'postpone'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly onError: (what: string, error: unknown) => void
}

export interface UndecidedQueue {
  /** Adds notifications that memory holds: as many as the scheduler has room for. */
  add(notifications: readonly Notification[]): void
  /** True if notifications wait here behind which those of the tenant wait that are accepted to this recipient now. */
  hasOf(tenant: string, recipient: string): boolean
  /** Decides nothing any more; the record has all that waits. Resolves when nothing is under way. */
  stop(): Promise<void>
}

/**
 * The most notifications that are decided side by side: their questions are asked in their order, and their changes share
 * commits. Decided one by one they would hardly end, for new notifications of their tenants wait behind them. After a
 * question without an answer the next round is one notification, and each round after it twice as many: a question
 * without an answer in the middle of a round would be decided after the rest of that round.
 */
const togetherMax = 64
/** Time between two tries while the server does not answer, ms. */
const retryMs = 100

/** Notifications to one recipient whose newcomers are held up, or all others. */
interface Part {
  /** In the order of acceptance, which is that of the ids. */
  waiting: Notification[]
  working: Promise<void> | undefined
}

/** One that waits on: newcomers of its recipient are held up, or the server did not answer. */
interface Left {
  readonly kept: Notification
  readonly isHeldUp: boolean
}

const keyOf = ({ tenant, to }: Notification): string => recipientSubject(tenant, to.id).key

export function createUndecidedQueue(options: UndecidedQueueOptions): UndecidedQueue {
  const { decide, retryLater, ledger, scheduler, clock, onError } = options
  const main: Part = { waiting: [], working: undefined }
  /** By the key of the recipient; as many as there are held up. */
  const aside = new Map<string, Part>()
  /** How many of each tenant wait in `main`. */
  const tenants = new Map<string, number>()
  const { sleep, wakeAll } = createSleeper(clock)
  let isStopped = false

  function count({ tenant }: Notification, by: 1 | -1): void {
    const left = (tenants.get(tenant) ?? 0) + by
    if (left === 0) tenants.delete(tenant)
    else tenants.set(tenant, left)
  }

  const asideOf = (each: Notification): Part | undefined =>
    aside.size === 0 ? undefined : aside.get(keyOf(each))

  function putIn(line: Part, notifications: readonly Notification[]): void {
    if (line === main) for (const each of notifications) count(each, 1)
    const last = line.waiting.at(-1)
    const isBehind = last === undefined || notifications.every(({ id }) => id > last.id)
    line.waiting = line.waiting.concat(notifications)
    if (!isBehind || notifications.length > 1) line.waiting.sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Puts those to recipients who are held up behind the others to them, where none of these is left in `main`. */
  function put(notifications: readonly Notification[]): void {
    const others: Notification[] = []
    for (const each of notifications) {
      const line = tenants.has(each.tenant) ? undefined : asideOf(each)
      if (line === undefined) others.push(each)
      else putIn(line, [each])
    }
    if (others.length > 0) putIn(main, others)
  }

  async function tryOne(notification: Notification): Promise<Left | undefined> {
    try {
      await decide(notification)
    } catch (error) {
      if (!isStateAway(error)) {
        onError(`decide ${notification.id}`, error)
        retryLater(notification, error)
        return undefined
      }
      const live = ledger.live(notification.id)
      // A concurrent change has moved it on.
      if (live !== undefined && revisionOf(live.notification) > revisionOf(notification)) return undefined
      const kept = { ...notification }
      ledger.hold(kept)
      return { kept, isHeldUp: error instanceof HeldUpError }
    }
    return undefined
  }

  /** Takes the next ones that are still to be decided; those that have expired go to the scheduler. */
  function take(line: Part, max: number): readonly Notification[] {
    const now = clock.now()
    const taken: Notification[] = []
    const left: Notification[] = []
    for (const each of line.waiting) {
      const { expiresAt } = each
      const isOver = expiresAt !== undefined && expiresAt <= now
      if (!isOver && taken.length >= max) {
        left.push(each)
        continue
      }
      const isCurrent = ledger.isCurrent(each)
      const other = line === main ? asideOf(each) : undefined
      if (isCurrent && !isOver && other === undefined) {
        taken.push(each)
        continue
      }
      if (line === main) count(each, -1)
      if (isOver && isCurrent) scheduler.postpone(each, expiresAt)
      else if (isCurrent) putIn(other!, [each])
    }
    line.waiting = left
    return taken
  }

  /** Decides the next ones of a line, and returns those that wait on, which still count. */
  async function round(line: Part, together: number): Promise<readonly Left[]> {
    const decideOne = async (each: Notification): Promise<Left | undefined> => {
      const left = await tryOne(each)
      if (line === main && left === undefined) count(each, -1)
      return left
    }
    const ends = await Promise.all(take(line, together).map(decideOne))
    return ends.filter((each) => each !== undefined)
  }

  async function work(): Promise<void> {
    for (let together = 1; main.waiting.length > 0 && !isStopped; ) {
      const left = await round(main, together)
      const back: Notification[] = []
      for (const { kept, isHeldUp } of left) {
        count(kept, -1)
        if (isHeldUp) setAside(kept)
        else back.push(kept)
      }
      putIn(main, back)
      together = back.length > 0 ? 1 : Math.min(togetherMax, 2 * together)
      if (back.length > 0) await sleep(retryMs)
    }
    main.working = undefined
  }

  /** Decides those to one recipient as soon as newcomers are let in there: nobody else waits for that. */
  function setAside(held: Notification): void {
    const key = keyOf(held)
    const known = aside.get(key)
    if (known !== undefined) {
      putIn(known, [held])
      return
    }
    const line: Part = { waiting: [held], working: undefined }
    aside.set(key, line)
    line.working = workAside(key, line)
  }

  async function workAside(key: string, line: Part): Promise<void> {
    for (let together = 1, isHeldUp = true; line.waiting.length > 0 && !isStopped; ) {
      if (isHeldUp) await sleep(retryMs)
      const left = await round(line, together)
      putIn(
        line,
        left.map(({ kept }) => kept),
      )
      isHeldUp = left.length > 0
      together = isHeldUp ? 1 : Math.min(togetherMax, 2 * together)
      // The server is away: they wait with all others.
      if (left.some((each) => !each.isHeldUp)) break
    }
    aside.delete(key)
    add(line.waiting)
  }

  function add(notifications: readonly Notification[]): void {
    if (notifications.length === 0 || isStopped) return
    put(notifications)
    if (main.waiting.length > 0) main.working ??= work()
  }

  return {
    add,
    hasOf: (tenant, recipient) =>
      tenants.has(tenant) || (aside.size > 0 && aside.has(recipientSubject(tenant, recipient).key)),
    async stop() {
      isStopped = true
      wakeAll()
      await Promise.all([main.working, ...Array.from(aside.values(), ({ working }) => working)])
    },
  }
}
