/**
 * A route as data: its path, access, input and output. server.ts makes Fastify routes of the table and
 * openapi.ts the published document, so that the two always agree.
 */
import type { TSchema } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ErrorCode } from '../errors.ts'
import type { Identity } from './identity.ts'
import type { RequestKind } from './request-limits.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for every route that is not public. */
    caller: Identity
    /** The body as received; null without one. */
    received: ReceivedBody | null
  }
  interface FastifyContextConfig {
    bodyApart?: boolean
  }
}

interface ReceivedBody {
  readonly length: number
  /** The SHA-256 of a body that was sent with an Idempotency-Key. */
  hash(): string
}

export const basePath = '/api/v1'

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path in Fastify's form: `/api/v1/notifications/:id`. */
  readonly path: string
  readonly summary: string
  /** `open`: public; `caller`: authenticated; `operator`: with the scope of operators. */
  readonly access: 'open' | 'caller' | 'operator'
  /** The rate limit of the tenant against which a request counts. @defaultValue none */
  readonly counts?: RequestKind
  readonly params?: TSchema
  readonly query?: TSchema
  readonly body?: TSchema
  /** A request without a body counts as an empty object. */
  readonly bodyOptional?: boolean
  /** Accepts a body of any type and ignores it. */
  readonly bodyIgnored?: boolean
  /**
   * A large body is parsed in another thread, and its content and data come in their stored form
   * (body-parts.ts).
   */
  readonly bodyApart?: boolean
  /** The handler checks the body itself; the schema is only published. */
  readonly bodyChecked?: 'by handler'
  /** The answer is a stream; it has no HEAD. */
  readonly stream?: boolean
  /** @defaultValue the configured limit for single requests */
  readonly bodyMaxBytes?: number
  /** Returns the number of recipients of a request, for its weight. @defaultValue 1 */
  readonly recipientsOf?: (request: FastifyRequest) => number
  readonly answers: Readonly<Record<number, RouteAnswer>>
  /** Error codes beyond those of every request. */
  readonly problems?: readonly ErrorCode[]
  handle(request: FastifyRequest, reply: FastifyReply): unknown
}

export interface RouteAnswer {
  readonly description: string
  /** Absent: no body. */
  readonly schema?: TSchema
  /** @defaultValue application/json */
  readonly type?: string
  /** Routes that take an id of the answer, and the place of this `id` in it (JSON Pointer). */
  readonly links?: readonly (Pick<Route, 'method' | 'path'> & { readonly id: string })[]
}
