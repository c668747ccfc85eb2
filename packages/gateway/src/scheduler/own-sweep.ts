/**
 * Finds notifications that this process holds on record and not in memory, because the answer to a claim, a takeover or a
 * commit was lost, and takes them back from itself. A name counts as lost when two looks have missed it: between the
 * record and memory it may be on its way for a moment. It also ends rights to send that were given and not used, because
 * the limits did not answer or the account went out: the notification may wait for long, and the others take it for one
 * that is being sent. Runs only where several processes share the record; elsewhere no answer is lost.
 */
import type { Notification } from '../model.ts'
import type { Clock, HeldName, Store, TakenOver } from '../ports.ts'
import type { Ledger, Scheduler } from '../stages.ts'

export interface OwnSweepOptions {
  readonly store: Pick<Store, 'heldOnRecord' | 'takeBack' | 'endRights' | 'isVersioned'>
  readonly ledger: Pick<Ledger, 'live'>
  readonly scheduler: Pick<Scheduler, 'place'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** Counts notifications in the limits that this process may have sent. */
  readonly countSuspects: (suspected: readonly Notification[]) => Promise<void>
  readonly onError: (what: string, error: unknown) => void
}

export interface OwnSweep {
  start(): void
  /** An answer of the store was lost or an error: looks within a second. */
  soon(): void
  stop(): Promise<void>
}

/** Time between two looks, ms. */
const everyMs = 5_000
/** Time until the look that confirms another one, or follows a lost answer, ms. */
const againMs = 1_000
/** A notification is looked for when it has been due for longer, ms: before, it is on its way. */
const overdueMs = 1_000
/** Names read at once, and notifications taken back at once. */
const namesMax = 1_000
const takenMax = 500

export function createOwnSweep(options: OwnSweepOptions): OwnSweep {
  const { store, ledger, scheduler, clock, countSuspects, onError } = options
  /** Names that the look before has missed in memory: at most what a process may hold on record. */
  let missed: ReadonlySet<string> = new Set()
  /** Notifications that were taken back, and are placed once their suspects are counted: at most `takenMax`. */
  let taken: readonly TakenOver[] = []
  let isRunning = false
  let isLooking = false
  /** The instant of the next look. */
  let nextAt = Number.POSITIVE_INFINITY
  let disarm = (): void => {}
  let looking: Promise<void> = Promise.resolve()

  /** Tests if a notification that has the right to send waits here all the same. */
  function isUnused({ id, right }: HeldName): boolean {
    const live = ledger.live(id)
    return right !== undefined && live !== undefined && live.status !== 'sending'
  }

  /** Returns the names that are held on record and not in memory, and ends the rights to what only waits here. */
  async function missing(): Promise<readonly HeldName[]> {
    const found: HeldName[] = []
    const dueBy = clock.now() - overdueMs
    for (let after: HeldName | null | undefined = null; after !== undefined; ) {
      const page: readonly HeldName[] = await store.heldOnRecord(dueBy, after, namesMax)
      found.push(...page.filter(({ id }) => ledger.live(id) === undefined))
      await store.endRights(page.filter(isUnused))
      after = page.length < namesMax ? undefined : page.at(-1)!
    }
    return found
  }

  async function look(): Promise<void> {
    await placeTaken()
    const names = await missing()
    const lost = names.filter(({ id }) => missed.has(id))
    missed = new Set(names.filter(({ id }) => !missed.has(id)).map(({ id }) => id))
    for (let from = 0; from < lost.length && isRunning; from += takenMax) {
      const still = lost.slice(from, from + takenMax).filter(({ id }) => ledger.live(id) === undefined)
      taken = still.length === 0 ? [] : await store.takeBack(clock.now(), still)
      await placeTaken()
    }
  }

  /** Places what was taken back; its suspects are counted first, in the next look where the limits do not answer. */
  async function placeTaken(): Promise<void> {
    // A takeover whose answer was lost has noted the suspects, and nobody has counted them.
    const suspected = taken.filter(({ notification, mayHaveLeft }) => mayHaveLeft || notification.suspects)
    if (suspected.length > 0) await countSuspects(suspected.map(({ notification }) => notification))
    const back = taken.map(({ notification }) => notification)
    taken = []
    scheduler.place(back.filter(({ id }) => ledger.live(id) === undefined))
  }

  function lookAfter(ms: number): void {
    const at = clock.now() + ms
    if (!isRunning || at >= nextAt) return
    nextAt = at
    disarm()
    if (!isLooking) disarm = clock.at(at, () => (looking = run()))
  }

  async function run(): Promise<void> {
    isLooking = true
    nextAt = Number.POSITIVE_INFINITY
    let nextMs = againMs
    try {
      await look()
      if (missed.size === 0) nextMs = everyMs
    } catch (error) {
      onError('look for what this process holds', error)
    }
    isLooking = false
    // A lost answer may have asked for an earlier look meanwhile.
    nextMs = Math.min(nextMs, Math.max(0, nextAt - clock.now()))
    nextAt = Number.POSITIVE_INFINITY
    lookAfter(nextMs)
  }

  return {
    start() {
      isRunning = store.isVersioned
      lookAfter(everyMs)
    },
    soon: () => lookAfter(againMs),
    async stop() {
      isRunning = false
      disarm()
      await looking
    },
  }
}
