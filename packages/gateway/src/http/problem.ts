/** Problem details for clients: RFC 9457, one form for every error of a request. */
import type { Duplex } from 'node:stream'
import { retryAfterSeconds } from '@sluice/limits'
import type { FastifyReply } from 'fastify'
import { type ErrorCode, errors, SluiceError } from '../errors.ts'
import { http } from '../node-http.ts'
import { newRequestId } from './request-id.ts'

export const jsonType = 'application/json; charset=utf-8'
export const problemType = 'application/problem+json; charset=utf-8'

/** The Retry-After of a transient error that gives none, ms. */
const retryAfterMsDefault = 1_000

/** Members of a problem besides those of its error. */
export interface ProblemMembers {
  /** The request, as `X-Request-Id` of the answer and the lines of the log name it. */
  readonly requestId?: string
  readonly notificationId?: string
  readonly sendAt?: string
  /** The failing parts, in the answer of a probe. */
  readonly degraded?: readonly string[]
}

export const problemUri = (code: ErrorCode): string =>
  `urn:sluice:problem:${code.toLowerCase().replaceAll('_', '-')}`

export function problemBody(error: SluiceError, members: ProblemMembers = {}): string {
  const { code, message } = error
  const row = errors[code]
  // A request that could not be read has no field to name: the fault is that of the whole.
  const faults = error.errors ?? (code === 'INVALID_REQUEST' ? [{ path: '', message }] : undefined)
  return JSON.stringify({
    type: problemUri(code),
    title: row.title,
    status: row.status,
    detail: message,
    code,
    errors: faults?.map(({ path, message }) => ({ path, message })),
    ...members,
  })
}

export function sendProblem(
  reply: FastifyReply,
  error: SluiceError,
  members: ProblemMembers = {},
): FastifyReply {
  const { status } = error
  const { request } = reply
  const requestId = request.id
  request.refusal = error
  request.problem = error.code
  // Also where the request was refused before the hook that sets it on every answer.
  reply.code(status).header('content-type', problemType).header('x-request-id', requestId)
  const challenge = challengeOf(error)
  if (challenge !== undefined) reply.header('www-authenticate', challenge)
  if (saysWhen(error)) {
    reply.header('retry-after', retryAfterSeconds(error.retryAfterMs ?? retryAfterMsDefault))
  }
  return reply.send(problemBody(error, { ...members, requestId }))
}

/** True where an answer carries `Retry-After`: a queued request (RATE_LIMIT_EXCEEDED) has its own. */
function saysWhen({ status, code }: SluiceError): boolean {
  return status === 503 || code === 'IDEMPOTENCY_IN_PROGRESS' || code === 'REQUEST_LIMIT_EXCEEDED'
}

/** The `WWW-Authenticate` of a refusal (RFC 6750, section 3). */
function challengeOf({ status, challenge }: SluiceError): string | undefined {
  return challenge ?? (status === 401 ? 'Bearer' : undefined)
}

/**
 * Sends a problem where there is no reply object: for input that is no HTTP, came too late, or asked for
 * another protocol.
 */
export function refuseSocket(socket: Duplex, error: SluiceError): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const { status } = error
  const challenge = challengeOf(error)
  const requestId = newRequestId()
  const body = problemBody(error, { requestId })
  const head = [
    `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}`,
    `content-type: ${problemType}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    ...(challenge === undefined ? [] : [`www-authenticate: ${challenge}`]),
    ...(status === 503
      ? [`retry-after: ${retryAfterSeconds(error.retryAfterMs ?? retryAfterMsDefault)}`]
      : []),
    'connection: close',
  ]
  socket.on('error', () => {})
  // Destroyed after the answer: a client that keeps on sending would hold a half-closed connection open.
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}

/** Maps Fastify's own errors to those of the contract; an unknown error is INTERNAL. */
export function asSluiceError(error: unknown): SluiceError {
  if (error instanceof SluiceError) return error
  const { code, statusCode } = (typeof error === 'object' && error !== null ? error : {}) as {
    code?: unknown
    statusCode?: unknown
  }
  switch (code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_INVALID_TYPE':
      return unsupportedMediaType()
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return new SluiceError('PAYLOAD_TOO_LARGE', 'The body is larger than this route takes.')
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
      return new SluiceError('INVALID_REQUEST', 'The body is not as long as Content-Length says.')
    case 'FST_ERR_BAD_URL':
      return new SluiceError('INVALID_REQUEST', 'The path is not a valid URL path.')
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return new SluiceError('INVALID_REQUEST', 'A part of the path is too long.')
    default:
  }
  if (typeof statusCode === 'number' && statusCode >= 400 && statusCode < 500) {
    return new SluiceError('INVALID_REQUEST', 'The request could not be read.', { cause: error })
  }
  return new SluiceError('INTERNAL', 'Something went wrong here. The log of the gateway says what.', {
    cause: error,
  })
}

export const nothing = (): SluiceError => new SluiceError('NOT_FOUND', 'There is nothing at this path.')

export function unsupportedMediaType(): SluiceError {
  return new SluiceError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as application/json in UTF-8.')
}
