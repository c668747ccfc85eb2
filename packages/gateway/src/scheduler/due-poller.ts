/**
 * Reads notifications from the store a lookahead before they are due, as long as memory has room. The store holds
 * everything that waits, so nothing is lost by not reading it. Before what is free it takes over what dead processes held:
 * at the start, and when another process has died.
 */
import type { Channel, Notification } from '../model.ts'
import type { Clock, Store, TakenOver } from '../ports.ts'
import type { MissingTemplates } from './missing-templates.ts'

export interface DuePollerOptions {
  readonly store: Pick<Store, 'claimDue' | 'claimedUntil' | 'nextDueAt' | 'takeOver' | 'isVersioned'>
  readonly clock: Pick<Clock, 'now'>
  readonly lookaheadMs: number
  /** Returns false while another process keeps the limits: it claims what is due. @defaultValue true */
  readonly mayClaim?: (() => boolean) | undefined
  /** Returns true when memory has no room for any tenant. */
  readonly isFull: () => boolean
  /** Tenants for which memory has no room. Their due notifications stay in the store and do not block other tenants. */
  readonly fullTenants: () => readonly string[]
  /** Channels that are left to other processes. @defaultValue none */
  readonly leftChannels?: (() => readonly Channel[]) | undefined
  /** Templates that this process lacks: it leaves to others what is rendered with them. @defaultValue none is lacked */
  readonly missingTemplates?: Pick<MissingTemplates, 'left' | 'ownOf'> | undefined
  readonly keep: (claimed: readonly Notification[]) => void
  /** Counts notifications in the limits that a dead process may have sent. */
  readonly countSuspects: (suspected: readonly Notification[]) => Promise<void>
}

/** Rows read at once. A page takes some 5 ms of the event loop. */
const pageMax = 500
/** Delay before reading again after the store failed or while memory is full, ms. */
export const retryMs = 500
/** The store is polled this often even if nothing is known to be due, ms. */
const recheckMs = 60_000

export class DuePoller {
  readonly #options: DuePollerOptions
  #at = Number.NEGATIVE_INFINITY
  #isReading = false
  /** True while dead processes may have left notifications. */
  #takesOver = true
  /** Notifications that were taken over, and are kept once their suspects are counted: at most a page. */
  #taken: readonly TakenOver[] = []

  constructor(options: DuePollerOptions) {
    this.#options = options
  }

  /** The instant of the next read; `Infinity` while a read is running. */
  get next(): number {
    return this.#isReading ? Number.POSITIVE_INFINITY : this.#at
  }

  /** Records that a notification due at this instant was stored. */
  note(dueAt: number): void {
    const { clock, lookaheadMs } = this.#options
    this.#at = Math.min(this.#at, Math.max(clock.now(), dueAt - lookaheadMs))
  }

  /** Schedules a read because another process has died. */
  noteDeath(): void {
    this.#takesOver = true
    this.#at = Math.min(this.#at, this.#options.clock.now())
  }

  /** Schedules a read because memory may have room again for notifications that were put back. */
  noteRoom(): void {
    this.#at = Math.min(this.#at, this.#options.clock.now() + retryMs)
  }

  /** Reads page after page while pages are full and memory has room. */
  async read(): Promise<void> {
    const { store, clock, lookaheadMs, isFull, mayClaim, fullTenants, leftChannels } = this.#options
    const { missingTemplates } = this.#options
    this.#isReading = true
    // Notifications noted from here on may have been stored behind the read position.
    this.#at = Number.POSITIVE_INFINITY
    try {
      for (;;) {
        if (isFull() || mayClaim?.() === false) {
          this.#at = clock.now() + retryMs
          return
        }
        if (this.#takesOver || this.#taken.length > 0) {
          if (await this.#takeOver()) continue
        }
        const until = clock.now() + lookaheadMs
        const page = await store.claimDue(
          until,
          pageMax,
          fullTenants(),
          leftChannels?.(),
          missingTemplates?.left(),
        )
        await this.#keep(page)
        // A page may be short although more rows follow, because full tenants are skipped.
        if (page.length < pageMax && store.claimedUntil() >= until) {
          const next = await this.#after(until)
          this.#at = Math.min(this.#at, next)
          return
        }
      }
    } catch (error) {
      this.#at = clock.now() + retryMs
      throw error
    } finally {
      this.#isReading = false
    }
  }

  /** Keeps those that this process sends; the others are free again. */
  async #keep(claimed: readonly Notification[]): Promise<void> {
    const { missingTemplates, keep } = this.#options
    keep(missingTemplates === undefined ? claimed : await missingTemplates.ownOf(claimed))
  }

  /** Takes a page over; true if more may follow now. */
  async #takeOver(): Promise<boolean> {
    const { store, clock, fullTenants, countSuspects } = this.#options
    const full = fullTenants()
    if (this.#taken.length === 0) {
      // A death during the read leads to another one.
      this.#takesOver = false
      try {
        this.#taken = await store.takeOver(clock.now(), pageMax, full)
      } catch (error) {
        this.#takesOver = true
        throw error
      }
      this.#takesOver ||= this.#taken.length > 0 || full.length > 0
    }
    // Whoever took one over before may have died between the record and the limits: nobody has counted it there.
    const suspected = this.#taken.filter((each) => each.mayHaveLeft || each.notification.suspects)
    if (suspected.length > 0) await countSuspects(suspected.map(({ notification }) => notification))
    const count = this.#taken.length
    await this.#keep(this.#taken.map(({ notification }) => notification))
    this.#taken = []
    return count > 0
  }

  /** Computes the next read: half a lookahead before the next due time, and at least once a minute. */
  async #after(claimed: number): Promise<number> {
    const { store, clock, lookaheadMs } = this.#options
    // Tenants without room were passed over.
    if (this.#takesOver) return clock.now() + retryMs
    const next = (await store.nextDueAt()) ?? Number.POSITIVE_INFINITY
    // The row was skipped for a full tenant and waits for room.
    if (next <= claimed) return clock.now() + retryMs
    const earliest = claimed - lookaheadMs / 2
    // Another process may give back what it has claimed, or store what is due soon, and die before it claims it.
    if (store.isVersioned) return earliest
    return Math.min(Math.max(next - lookaheadMs, earliest), Math.max(earliest, clock.now() + recheckMs))
  }
}
