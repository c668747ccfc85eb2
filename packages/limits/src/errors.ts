/**
 * The errors of the library, in one table of codes: every error that is raised on purpose is a row here, and its
 * message names the value, the expectation, and the way out.
 */

export const limitsErrors = {
  INVALID_DURATION: 'A duration is not written as 300ms, 3s, 60min, 4h, 7d',
  INVALID_WINDOW: 'A window is not written as 2/day, 100/30min, 1000/s, or is out of bounds',
  INVALID_LIMIT: 'A limit has no name, no window, or an option that does not exist',
  INVALID_RULES: 'The limits of one call do not go together',
  INVALID_ARGUMENT: 'A subject, an id or an option of a call is not what it must be',
  INVALID_CLOCK: 'The clock gave something that is not an instant',
  STORE_UNAVAILABLE: 'The store did not answer; nothing is known about the call',
  STORE_NOT_READY:
    'The client of the store is not connected yet, or is closed; nothing is known about the call',
  STORE_READ_ONLY: 'The store answers as a replica that takes no writes; nothing was counted',
  STORE_STATE_INVALID: 'The store holds something else than limits under the key; nothing was counted',
} as const satisfies Record<string, string>

export type LimitsErrorCode = keyof typeof limitsErrors

const unavailable: readonly unknown[] = ['STORE_UNAVAILABLE', 'STORE_NOT_READY', 'STORE_READ_ONLY']

/** Tells whether a store could not be asked, which `onUnavailable` is for. A key that holds something else never ends so. */
export function isUnavailable(error: unknown): error is LimitsError {
  return error instanceof LimitsError && unavailable.includes(error.code)
}

/** Tells whether a value is a whole number within these bounds, both included. */
export function isWhole(value: unknown, min: number, max = Number.MAX_SAFE_INTEGER): value is number {
  return Number.isInteger(value) && (value as number) >= min && (value as number) <= max
}

/**
 * Refuses a value that is no whole number within these bounds, both included.
 *
 * @throws LimitsError `INVALID_ARGUMENT`
 */
export function checkWhole(what: string, value: unknown, min: number, max = Number.MAX_SAFE_INTEGER): void {
  if (isWhole(value, min, max)) return
  throw new LimitsError(
    'INVALID_ARGUMENT',
    `${what} is a whole number from ${min} to ${max}, not ${String(value)}`,
  )
}

/** Every error that the limiter raises on purpose. Branch on `code`; the message is for people. */
export class LimitsError extends Error {
  readonly code: LimitsErrorCode

  constructor(code: LimitsErrorCode, reason: string, options?: { readonly cause?: unknown }) {
    super(reason, options)
    this.name = 'LimitsError'
    this.code = code
  }
}

/** Half a character (a lone surrogate) has no bytes of its own. @throws LimitsError where it is no text of 1 to `max` characters */
export function checkText(code: LimitsErrorCode, what: string, text: unknown, max: number): void {
  if (typeof text === 'string' && text !== '' && text.length <= max && text.isWellFormed()) return
  const fault =
    typeof text !== 'string'
      ? `is ${String(text)}`
      : text.isWellFormed()
        ? `is ${text.length} characters long`
        : 'holds half of a character'
  throw new LimitsError(code, `${what} is a text of 1 to ${max} characters; this ${fault}`)
}
