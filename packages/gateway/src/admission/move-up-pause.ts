/**
 * Holds newcomers of one subject up while the first of those who wait there move up. After that newcomers are reserved behind
 * all who wait, and close up when the pass is over: nobody waits long for an answer because many move up.
 */
import type { Clock, LimitState, Subject } from '../ports.ts'

export interface MoveUpPause {
  /** Holds newcomers up, from now on. */
  begin(): Promise<void>
  /** Notes that a pass has looked at one who waits: newcomers are let in where it has held them up for long enough. */
  lookedAt(): Promise<void>
  /** Lets newcomers in. */
  end(): Promise<void>
}

/** Looked at while newcomers are held up: some 10 ms where nobody gains, 50 ms where each is a row written. */
const lookedAtMax = 128
/** Behind a loss of Redis thirty took two seconds, as those of forty recipients moved up side by side, ms. */
const pauseMaxMs = 50

/** @param subject one that is paused */
export function createMoveUpPause(
  subject: Subject,
  state: Pick<LimitState, 'pause' | 'resume'>,
  clock: Pick<Clock, 'monotonic'>,
): MoveUpPause {
  let isPaused = true
  let begunAt = clock.monotonic()
  let count = 0

  async function end(): Promise<void> {
    if (!isPaused) return
    isPaused = false
    await state.resume([subject])
  }

  return {
    async begin() {
      begunAt = clock.monotonic()
      count = 0
      if (isPaused) return
      isPaused = true
      await state.pause([subject])
    },
    async lookedAt() {
      count += 1
      if (count >= lookedAtMax || clock.monotonic() - begunAt >= pauseMaxMs) await end()
    },
    end,
  }
}
