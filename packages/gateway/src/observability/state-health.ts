/**
 * Watches the questions to limiter state that stands on a server: whether the last ones were answered, and how many were
 * not. One line of the log tells when the server goes away, and one when it is back.
 */
import { SluiceError } from '../errors.ts'
import type { Clock } from '../ports.ts'
import type { Log } from './log-events.ts'

export interface StateHealthOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  readonly log: Pick<Log, 'info' | 'warn'>
  /** The address without its password. */
  readonly shown: string
}

export interface StateHealth {
  /**
   * Asks a question and counts its outcome. While the server is away one question at a time is asked, with a pause in
   * between; all others reject at once, so that nobody waits for a deadline again and again.
   */
  ask<T>(question: () => Promise<T>): Promise<T>
  /** Notes an error of a connection; the questions tell if the server is away. */
  noteError(error: unknown): void
  /**
   * Questions without an answer so far, and the instant of `clock.monotonic` since which there was none; undefined while
   * there are answers. The reason is that of the last one without an answer.
   */
  counts(): { readonly unanswered: number; readonly awaySince: number | undefined; readonly reason: string }
}

/**
 * Questions in a row without an answer after which the server counts as away: one late answer is none. Those that were
 * under way together count as one.
 */
const awayAfter = 3
/**
 * From the end of a question to the next one while it is away, ms. A decision asks several, one after the other: with the
 * pause counted from the beginning, each of them waited for its whole deadline where that is longer.
 */
const pauseMs = 100

export function createStateHealth({ clock, log, shown }: StateHealthOptions): StateHealth {
  let unanswered = 0
  let inARow = 0
  /** The number of questions that were asked, and how many of them had been when the last one in a row was missed. */
  let asked = 0
  let askedBefore = 0
  let awaySince: number | undefined
  /** While it is away: true while a question is under way, and the instant of `clock.monotonic` at which the last one ended. */
  let isProbing = false
  let probedAt = 0
  let lastError: unknown
  let lastMissed = 'no answer'

  function answered(): void {
    inARow = 0
    lastError = undefined
    if (awaySince === undefined) return
    log.info({
      event: 'gateway.state_available',
      state: shown,
      awayMs: Math.round(clock.monotonic() - awaySince),
    })
    awaySince = undefined
  }

  function missed(error: SluiceError, number: number): void {
    unanswered += 1
    lastMissed = error.message
    if (number <= askedBefore) return
    askedBefore = asked
    inARow += 1
    if (inARow < awayAfter || awaySince !== undefined) return
    awaySince = clock.monotonic()
    probedAt = awaySince
    log.warn({ event: 'gateway.state_unavailable', state: shown, err: lastError ?? error })
  }

  /** The fault of the connection says best why there is no answer; a client without one says only that it is offline. */
  const reasonOf = (missedWith: string): string =>
    lastError instanceof Error ? lastError.message : missedWith

  function noAnswer(missedWith: string, cause?: SluiceError): SluiceError {
    return new SluiceError('STATE_UNAVAILABLE', `${shown} cannot be asked: ${reasonOf(missedWith)}`, {
      retryAfterMs: 1_000,
      ...(cause !== undefined && { cause }),
    })
  }

  return {
    async ask(question) {
      const isProbe = awaySince !== undefined
      if (isProbe) {
        if (isProbing || clock.monotonic() < probedAt + pauseMs) throw noAnswer(lastMissed)
        isProbing = true
      }
      asked += 1
      const number = asked
      try {
        const answer = await question()
        answered()
        return answer
      } catch (error) {
        if (!(error instanceof SluiceError) || error.code !== 'STATE_UNAVAILABLE') throw error
        missed(error, number)
        if (awaySince === undefined || lastError === undefined) throw error
        throw noAnswer(error.message, error)
      } finally {
        if (isProbe) {
          isProbing = false
          probedAt = clock.monotonic()
        }
      }
    },
    noteError(error) {
      lastError = error
    },
    counts: () => ({ unanswered, awaySince, reason: reasonOf(lastMissed) }),
  }
}
