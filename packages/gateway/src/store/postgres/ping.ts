/** Tells if the store can be written now, for `/readyz`, which answers whatever stands in the way of the writer. */
import { SluiceError } from '../../errors.ts'
import type { PostgresAddress } from './address.ts'
import type { Writer } from './writer.ts'

/** The longest wait for a write, ms. What waits for a lock or for a standby takes longer. */
const pingMs = 3_000

export interface PingOptions {
  readonly writer: Pick<Writer, 'task'>
  readonly member: string
  readonly address: Pick<PostgresAddress, 'shown'>
  /** @defaultValue 3000 */
  readonly deadlineMs?: number
}

export function createPing({
  writer,
  member,
  address,
  deadlineMs = pingMs,
}: PingOptions): () => Promise<void> {
  /** One at a time: a writer that stands still is not asked again and again. */
  let pinging: Promise<unknown> | undefined
  const late = (): SluiceError =>
    new SluiceError(
      'STORE_UNAVAILABLE',
      `The store ${address.shown} has written nothing for ${deadlineMs / 1_000} s: the lock of another transaction is in the way, or a standby to which it commits does not answer.`,
      { retryAfterMs: 1_000 },
    )
  return () =>
    new Promise((resolve, reject) => {
      pinging ??= writer
        .task(({ query }) => query('UPDATE member SET beat = beat + 1 WHERE id = $1', [member]))
        .finally(() => {
          pinging = undefined
        })
      const timer = setTimeout(() => reject(late()), deadlineMs)
      pinging.then(() => resolve(), reject).finally(() => clearTimeout(timer))
    })
}
