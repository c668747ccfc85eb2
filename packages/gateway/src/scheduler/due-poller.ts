/**
 * Reads from the store what comes due next, a lookahead before it is due, as long as memory has room. The store holds
 * everything that waits, so nothing is lost by not reading it.
 */
import type { Notification } from '../model.ts'
import type { Clock, Store } from '../ports.ts'

export interface DuePollerOptions {
  readonly store: Pick<Store, 'claimDue' | 'claimedUntil' | 'nextDueAt'>
  readonly clock: Pick<Clock, 'now'>
  readonly lookaheadMs: number
  /** Whether memory has no room for anybody. */
  readonly isFull: () => boolean
  /** Tenants for whom memory has no room: what is due of them waits, and nobody else behind it. */
  readonly fullTenants: () => readonly string[]
  readonly keep: (claimed: readonly Notification[]) => void
}

/** Rows read at once: a page costs some 5 ms of the event loop. */
const pageMax = 500
/** After a failed look at the store, and until memory has room again. */
export const againMs = 500
/** The store is looked at this often although nothing is known to be due: another process may have died. */
const recheckMs = 60_000

export class DuePoller {
  readonly #options: DuePollerOptions
  #at = Number.NEGATIVE_INFINITY
  #isReading = false

  constructor(options: DuePollerOptions) {
    this.#options = options
  }

  /** When the store is to be looked at again; `Infinity` while it is. */
  get next(): number {
    return this.#isReading ? Number.POSITIVE_INFINITY : this.#at
  }

  /** Something is on record that is due then. */
  note(dueAt: number): void {
    const { clock, lookaheadMs } = this.#options
    this.#at = Math.min(this.#at, Math.max(clock.now(), dueAt - lookaheadMs))
  }

  /** There may be room again for what was not kept: the store is looked at in a while. */
  noteRoom(): void {
    this.#at = Math.min(this.#at, this.#options.clock.now() + againMs)
  }

  /** A full page is followed by another at once, until memory has enough. */
  async read(): Promise<void> {
    const { store, clock, lookaheadMs, isFull, fullTenants, keep } = this.#options
    this.#isReading = true
    // What is noted from here on may be on record behind what is read.
    this.#at = Number.POSITIVE_INFINITY
    try {
      for (;;) {
        if (isFull()) {
          this.#at = clock.now() + againMs
          return
        }
        const until = clock.now() + lookaheadMs
        const page = await store.claimDue(until, pageMax, fullTenants())
        keep(page)
        // Where tenants are passed over, a page is short although more may come.
        if (page.length < pageMax && store.claimedUntil() >= until) {
          const next = await this.#after(until)
          this.#at = Math.min(this.#at, next)
          return
        }
      }
    } catch (error) {
      this.#at = clock.now() + againMs
      throw error
    } finally {
      this.#isReading = false
    }
  }

  /** Half a lookahead before the next is due, and once a minute in any case. */
  async #after(claimed: number): Promise<number> {
    const { store, clock, lookaheadMs } = this.#options
    const next = (await store.nextDueAt()) ?? Number.POSITIVE_INFINITY
    // It was passed over, and waits for room.
    if (next <= claimed) return clock.now() + againMs
    const earliest = claimed - lookaheadMs / 2
    return Math.min(Math.max(next - lookaheadMs, earliest), Math.max(earliest, clock.now() + recheckMs))
  }
}
