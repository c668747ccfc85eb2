/**
 * The one table of error codes. Every problem that a client or operator can meet is a row here; its meaning and
 * its fix stand in docs/reference/errors.md, and a test fails when the two differ.
 */

interface ErrorRow {
  readonly status: number
  readonly retryable: boolean
  readonly title: string
}

export const errors = {
  INVALID_JSON: { status: 400, retryable: false, title: 'The body is not valid JSON' },
  INVALID_REQUEST: { status: 400, retryable: false, title: 'The request does not match its schema' },
  BATCH_LIMIT_EXCEEDED: { status: 400, retryable: false, title: 'Too many recipients in one batch' },
  UNAUTHENTICATED: { status: 401, retryable: false, title: 'A valid token is required' },
  FORBIDDEN: { status: 403, retryable: false, title: 'The token does not allow this' },
  NOT_FOUND: { status: 404, retryable: false, title: 'Not found' },
  METHOD_NOT_ALLOWED: { status: 405, retryable: false, title: 'Method not allowed' },
  IDEMPOTENCY_IN_PROGRESS: { status: 409, retryable: true, title: 'A request with this key is in progress' },
  NOT_CANCELLABLE: { status: 409, retryable: false, title: 'The notification was already sent or has ended' },
  PAYLOAD_TOO_LARGE: { status: 413, retryable: false, title: 'The body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, retryable: false, title: 'The body must be JSON' },
  IDEMPOTENCY_MISMATCH: { status: 422, retryable: false, title: 'The key was used for another request' },
  RATE_LIMIT_EXCEEDED: { status: 429, retryable: false, title: 'Rate limit exceeded; queued' },
  REQUEST_LIMIT_EXCEEDED: { status: 429, retryable: true, title: 'Too many requests; refused' },
  QUEUE_FULL: { status: 503, retryable: true, title: 'The queue of this tenant is full' },
  STORE_UNAVAILABLE: { status: 503, retryable: true, title: 'The store is unavailable' },
  STATE_UNAVAILABLE: { status: 503, retryable: true, title: 'The limits are unavailable' },
  KEYS_UNAVAILABLE: { status: 503, retryable: true, title: 'The keys that verify tokens are unavailable' },
  REQUEST_TIMEOUT: { status: 408, retryable: true, title: 'The request did not arrive in time' },
  INTERNAL: { status: 500, retryable: true, title: 'Something went wrong inside Sluice' },
  UPGRADE_REQUIRED: { status: 426, retryable: false, title: 'This path needs a WebSocket upgrade' },
  WS_UNAVAILABLE: { status: 503, retryable: true, title: 'No connection can be opened now' },
  // A WebSocket message has no status: these are the ones that HTTP would have.
  WS_BAD_MESSAGE: { status: 400, retryable: false, title: 'The message does not match its schema' },
  WS_FORBIDDEN: { status: 403, retryable: false, title: 'The token does not allow this' },
  WS_TOO_MANY_SUBSCRIPTIONS: { status: 429, retryable: false, title: 'Too many subscriptions' },
  WS_RATE_LIMITED: { status: 429, retryable: false, title: 'Rate limit exceeded; throttled' },
  WS_BUFFER_FULL: { status: 503, retryable: true, title: 'Too many messages wait already' },
  INVALID_CONFIG: { status: 2, retryable: false, title: 'The configuration is not valid' },
  INVALID_POLICY: { status: 2, retryable: false, title: 'The policy is not valid' },
  INVALID_SCENARIO: { status: 2, retryable: false, title: 'The scenario is not valid' },
  INVALID_OBSERVATIONS: { status: 2, retryable: false, title: 'The observations are not valid' },
  BAD_USAGE: { status: 2, retryable: false, title: 'The command was not understood' },
} as const satisfies Record<string, ErrorRow>

export type ErrorCode = keyof typeof errors

/** One invalid field: its place in the request or file, and the value expected there. */
export interface FieldError {
  /** JSON Pointer in a body; dotted path in a file. */
  readonly path: string
  readonly message: string
  /** Line in the file, counted from 1, where it is known. */
  readonly line?: number
}

export interface SluiceErrorOptions {
  readonly errors?: readonly FieldError[]
  /** Retry after this many ms from now. */
  readonly retryAfterMs?: number
  /** The value of `WWW-Authenticate` with a 401 or 403. @defaultValue `Bearer` with a 401 */
  readonly challenge?: string
  /** Names the one damaged row of the store that caused the error, in words. */
  readonly row?: string
  /** The request may have been carried out: its answer was lost. @defaultValue false */
  readonly isUncertain?: boolean
  readonly cause?: unknown
}

/** Names the damaged row where an error concerns a single one: then it is right to go on without it. */
export function damagedRowOf(error: unknown): string | undefined {
  return error instanceof SluiceError ? error.row : undefined
}

/** Every error that Sluice raises on purpose. `status` is the HTTP status, or the exit code of the command line. */
export class SluiceError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly retryable: boolean
  readonly errors: readonly FieldError[] | undefined
  readonly retryAfterMs: number | undefined
  readonly challenge: string | undefined
  /** The damaged row. A retry does not help, and only this row is concerned. */
  readonly row: string | undefined
  /** True if the request may have been carried out. Of the ports, only a commit of the store raises it. */
  readonly isUncertain: boolean

  constructor(code: ErrorCode, detail: string, options: SluiceErrorOptions = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'SluiceError'
    this.code = code
    this.status = errors[code].status
    this.retryable = errors[code].retryable
    this.errors = options.errors
    this.retryAfterMs = options.retryAfterMs
    this.challenge = options.challenge
    this.row = options.row
    this.isUncertain = options.isUncertain === true
  }
}

/**
 * True where the store or the limits do not answer at all: such an error does not concern the single
 * notification for which it was thrown.
 */
export function concernsAll(error: unknown): boolean {
  if (error instanceof HeldUpError) return false
  const { code, row } = error as Partial<SluiceError>
  return (code === 'STORE_UNAVAILABLE' || code === 'STATE_UNAVAILABLE') && row === undefined
}

/** The server of the store does not answer, or takes nothing. */
export class StoreAwayError extends SluiceError {
  constructor(detail: string, options: SluiceErrorOptions = {}) {
    super('STORE_UNAVAILABLE', detail, { retryAfterMs: 1_000, ...options })
  }
}

/** True where the server of the limits does not answer. */
export const isStateAway = (error: unknown): boolean =>
  error instanceof SluiceError && error.code === 'STATE_UNAVAILABLE'

/** Newcomers of a subject are held up for long: others move up there. The server answers, and one recipient is concerned. */
export class HeldUpError extends SluiceError {
  constructor(subject: string) {
    super(
      'STATE_UNAVAILABLE',
      `New notifications to ${subject} are held up: others that wait there move up.`,
      {
        retryAfterMs: 1_000,
      },
    )
  }
}

/** Reports all errors but that the server of the limits does not answer: one line of the log tells that. */
export const unlessStateAway =
  (report: (what: string, error: unknown) => void): typeof report =>
  (what, error) => {
    if (!isStateAway(error)) report(what, error)
  }

/** The limits of a request were replaced (`LimitState.renew`) while it waited: nothing was done, and it is asked again. */
export class RulesReplaced extends Error {}
