/** Tells if the store can be written now, for `/readyz`, which answers whatever stands in the way of the writer. */
import { SluiceError, StoreAwayError } from '../../errors.ts'
import type { Change, Clock } from '../../ports.ts'
import type { PostgresAddress } from './address.ts'
import { isRefusedByServer } from './postgres-errors.ts'
import type { Writer } from './writer.ts'

/** The longest wait for a write, ms. What waits for a lock or for a standby takes longer. */
const pingMs = 3_000

/** How long a commit that the server refused counts, ms, where nothing is accepted behind it. */
const refusedMs = 5_000

/**
 * The latest commit that the server refused. A row that is there already is written without new room and needs no right
 * to add one: on a full disk it passes while nothing can be accepted.
 */
export class RefusedCommits {
  readonly #clock: Pick<Clock, 'monotonic'>
  #last: { readonly error: SluiceError; readonly at: number } | undefined

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** The error of the latest one, until something is accepted or some seconds have passed. */
  get last(): SluiceError | undefined {
    const last = this.#last
    return last !== undefined && this.#clock.monotonic() - last.at < refusedMs ? last.error : undefined
  }

  noteCommitted({ accept = [] }: Change): void {
    if (accept.length > 0) this.#last = undefined
  }

  noteFailed(error: unknown): void {
    if (error instanceof SluiceError && isRefusedByServer(error))
      this.#last = { error, at: this.#clock.monotonic() }
  }
}

export interface PingOptions {
  readonly refused: Pick<RefusedCommits, 'last'>
  readonly writer: Pick<Writer, 'task'>
  readonly member: string
  readonly address: Pick<PostgresAddress, 'shown'>
  /** @defaultValue 3000 */
  readonly deadlineMs?: number
}

export function createPing({
  refused,
  writer,
  member,
  address,
  deadlineMs = pingMs,
}: PingOptions): () => Promise<void> {
  /** One at a time: a writer that stands still is not asked again and again. */
  let pinging: Promise<unknown> | undefined
  const late = (): SluiceError =>
    new StoreAwayError(
      `The store ${address.shown} has written nothing for ${deadlineMs / 1_000} s: the lock of another transaction is in the way, or a standby to which it commits does not answer.`,
    )
  return () =>
    new Promise((resolve, reject) => {
      pinging ??= writer
        .task(({ query }) => query('UPDATE member SET beat = beat + 1 WHERE id = $1', [member]))
        .finally(() => {
          pinging = undefined
        })
      const timer = setTimeout(() => reject(late()), deadlineMs)
      const written = pinging.then(() => {
        if (refused.last !== undefined) throw refused.last
      })
      written.then(resolve, reject).finally(() => clearTimeout(timer))
    })
}
