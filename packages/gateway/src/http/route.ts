/**
 * A route as data: where it is, who may ask, what goes in and out. server.ts makes Fastify routes of the table,
 * openapi.ts the published document, so that neither can say anything else than the other.
 */
import type { TSchema } from '@sinclair/typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ErrorCode } from '../errors.ts'
import type { Identity } from './identity.ts'
import type { RequestKind } from './request-limits.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for every route that is not open to everybody. */
    caller: Identity
    /** The body as it came; null where there was none. */
    received: ReceivedBody | null
  }
  interface FastifyContextConfig {
    bodyApart?: boolean
  }
}

export interface ReceivedBody {
  readonly length: number
  /** SHA-256, of one that was sent under an Idempotency-Key. */
  hash(): string
}

export const basePath = '/api/v1'

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** In Fastify's form: `/api/v1/notifications/:id`. */
  readonly path: string
  readonly summary: string
  /** `open`: everybody; `caller`: who is known; `operator`: with the scope of operators. */
  readonly access: 'open' | 'caller' | 'operator'
  /** The rate of its tenant in which a request counts. @defaultValue none */
  readonly counts?: RequestKind
  readonly params?: TSchema
  readonly query?: TSchema
  readonly body?: TSchema
  /** A request without any body means an empty object. */
  readonly bodyOptional?: boolean
  /** Takes bodies of any type and does not read them. */
  readonly bodyIgnored?: boolean
  /** A large one is parsed in another thread, and its content and data come as they are to be kept (body-parts.ts). */
  readonly bodyApart?: boolean
  /** The handler checks the body itself; the schema is only published. */
  readonly bodyChecked?: 'by handler'
  /** The answer goes on; there is no HEAD of it. */
  readonly stream?: boolean
  /** @defaultValue the configured limit for single requests */
  readonly bodyMaxBytes?: number
  /** How many recipients a request has, for its weight. @defaultValue 1 */
  readonly recipientsOf?: (request: FastifyRequest) => number
  readonly answers: Readonly<Record<number, RouteAnswer>>
  /** What can go wrong beyond what can go wrong everywhere. */
  readonly problems?: readonly ErrorCode[]
  handle(request: FastifyRequest, reply: FastifyReply): unknown
}

export interface RouteAnswer {
  readonly description: string
  /** Absent: no body. */
  readonly schema?: TSchema
  /** @defaultValue application/json */
  readonly type?: string
  /** Routes that take what the answer names, and where in it their `id` stands (JSON Pointer). */
  readonly links?: readonly (Pick<Route, 'method' | 'path'> & { readonly id: string })[]
}
