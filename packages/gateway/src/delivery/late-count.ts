/**
 * Tells the limits of calls that were made: of one that was written later than it counts, and of one that may have
 * arrived. A window would be exceeded without it, so it goes on until the limits answer.
 */
import { concernsAll } from '../errors.ts'
import type { Move, Notification, Recipient } from '../model.ts'
import type { Clock } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'

interface LateCountOptions {
  readonly limiter: Pick<RecipientLimiter, 'left' | 'cancel'>
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

interface LateCall {
  readonly notification: Notification
  readonly recipient: Recipient | null
}

/** Delays between two tries, ms. */
const againMsMin = 50
const againMsMax = 2_000

async function untilCounted({ limiter, clock, onError }: LateCountOptions, call: LateCall): Promise<void> {
  for (let waitMs = againMsMin; ; waitMs = Math.min(2 * waitMs, againMsMax)) {
    try {
      await limiter.left(call)
      return
    } catch (error) {
      onError('count what has left', error)
      if (!concernsAll(error)) return
    }
    const again = clock.now() + waitMs
    await new Promise<void>((resolve) => clock.at(again, resolve))
  }
}

/** Tells the limits until they have counted the call at `firedAt`, which may move on meanwhile. */
export async function countAnew(
  options: LateCountOptions,
  call: LateCall & { readonly firedAt: number; countsAt: number },
): Promise<void> {
  while (call.countsAt < call.firedAt) {
    const at = call.firedAt
    await untilCounted(options, call)
    call.countsAt = at
  }
}

/** Counts a call that may have arrived under an id of its own; a retry fires the limits again. */
export async function countSuspect(
  options: LateCountOptions,
  { before, after }: Move,
  recipient: Recipient | null,
): Promise<void> {
  const suspect = { ...before, id: `${before.id}?${after.suspects!.length - 1}` }
  await untilCounted(options, { notification: suspect, recipient })
  try {
    if (after.status === 'dead') await options.limiter.cancel([{ notification: before, recipient }])
  } catch (error) {
    options.onError('count what may have arrived', error)
  }
}
