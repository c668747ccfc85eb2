/**
 * Tells the limits of calls that leave later than they count, before or after they are written, and of one that may have
 * arrived. A window would be exceeded without it, so it goes on until the limits answer.
 */
import { concernsAll } from '../errors.ts'
import type { Move, Notification, Recipient } from '../model.ts'
import type { Clock } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'

interface LateCountOptions {
  readonly limiter: Pick<RecipientLimiter, 'countAsSent' | 'cancel'>
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

interface LateCall {
  readonly notification: Notification
  readonly recipient: Recipient | null
  /** The instant at which it counts, if it is to come. */
  readonly at?: number
}

/**
 * A call is written up to so long after the instant at which it counts, ms: every window is kept 20 ms longer, and the rest
 * of those is for the way to the provider.
 */
export const earlyMsMax = 15

/** Delays between two tries, ms. */
const againMsMin = 50
const againMsMax = 2_000

async function untilCounted({ limiter, clock, onError }: LateCountOptions, call: LateCall): Promise<void> {
  for (let waitMs = againMsMin; ; waitMs = Math.min(2 * waitMs, againMsMax)) {
    try {
      await limiter.countAsSent(call)
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
    await untilCounted(options, { notification: call.notification, recipient: call.recipient, at })
    call.countsAt = at
  }
}

/**
 * Has the limits count a call before it is written, and waits for the instant at which it counts; false where that was not
 * possible until `endsAt`. A process that is killed right after the writing leaves no count that lies before it. Where an
 * answer takes longer than a count may lie before the writing, the limits are asked again for an instant ahead.
 */
export async function countBefore(
  clock: Pick<Clock, 'now' | 'at'>,
  call: { readonly countsAt: number; countAt(at: number): Promise<void> },
  endsAt: number,
): Promise<boolean> {
  for (let leadMs = 0; ; ) {
    const asked = clock.now()
    await until(clock, endsAt, call.countAt(asked + leadMs))
    if (call.countsAt > clock.now()) await until(clock, call.countsAt)
    const now = clock.now()
    if (now - call.countsAt <= earlyMsMax) return true
    leadMs = 2 * (now - asked)
    if (now + leadMs > endsAt) return false
  }
}

/** Resolves at the instant, or when the work has ended before. */
async function until(clock: Pick<Clock, 'at'>, at: number, work?: Promise<void>): Promise<void> {
  let disarm: (() => void) | undefined
  const passed = new Promise<void>((resolve) => {
    disarm = clock.at(at, resolve)
  })
  await (work === undefined ? passed : Promise.race([work, passed]))
  disarm?.()
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
