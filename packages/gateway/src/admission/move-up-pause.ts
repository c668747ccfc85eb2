/**
 * Holds newcomers of one subject up while the first of those who wait there move up. After that newcomers are reserved behind
 * all who wait, and close up when the pass is over: nobody waits long for an answer because many move up.
 */
import type { Clock, LimitState, Subject } from '../ports.ts'

export interface MoveUpPause {
  /** Holds newcomers up, from now on. */
  begin(): Promise<void>
  /** Newcomers are booked behind all who wait from here on: they are let in when they have been held up for long enough. */
  endSoon(): void
  /** Notes that a pass has looked at one who waits: newcomers are let in when it has looked at many. */
  lookedAt(): Promise<void>
  /** Lets newcomers in. */
  end(): Promise<void>
}

/** Looked at while newcomers are held up: some 10 ms where nobody gains, 50 ms where each is a row written. */
const lookedAtMax = 128
/**
 * Behind a loss of Redis thirty took two seconds, as those of forty recipients moved up side by side, ms. It ends by the clock, for
 * the record may take long to read or write a slice. Behind those that wait without an instant nobody can be booked: then it is
 * not the time that ends it.
 */
const pauseMaxMs = 50

/** @param subject one that is paused */
export function createMoveUpPause(
  subject: Subject,
  state: Pick<LimitState, 'pause' | 'resume'>,
  clock: Pick<Clock, 'now' | 'monotonic' | 'at'>,
): MoveUpPause {
  let isPaused = true
  let begunAt = clock.monotonic()
  let count = 0
  let disarm: (() => void) | undefined

  async function end(): Promise<void> {
    disarm?.()
    if (!isPaused) return
    isPaused = false
    await state.resume([subject])
  }

  return {
    async begin() {
      disarm?.()
      begunAt = clock.monotonic()
      count = 0
      if (isPaused) return
      isPaused = true
      await state.pause([subject])
    },
    endSoon() {
      disarm?.()
      if (!isPaused) return
      const leftMs = Math.max(0, begunAt + pauseMaxMs - clock.monotonic())
      disarm = clock.at(clock.now() + leftMs, () => void end())
    },
    async lookedAt() {
      count += 1
      if (count >= lookedAtMax) await end()
    },
    end,
  }
}
