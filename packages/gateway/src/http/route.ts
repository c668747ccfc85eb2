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
/** The paths whose accepting answers are stored under an idempotency key. */
export const keyedPaths = [`${basePath}/notifications`, `${basePath}/notifications/batch`]

/** The groups of the document, in its order, each with its description. */
export const tags = {
  Notifications: 'Send, look up, list and cancel notifications.',
  Batches: 'Send to many recipients at once, in the background where they are more than a hundred.',
  Feedback: 'Report what became of notifications after they were sent.',
  Recipients: 'Addresses and preferences of recipients, and the use of their limits.',
  Operation: 'See what happens and why: accounts, backlog, dead letters, policy.',
  Events: 'Follow changes of state as they happen.',
  Probes: 'Health, readiness, metrics, and this document.',
  Unsubscribe: 'One-click unsubscribing from links in messages.',
} as const
type Tag = keyof typeof tags

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The path in Fastify's form: `/api/v1/notifications/:id`. */
  readonly path: string
  /** The operationId in the document: a verb and its object, `listNotifications`. */
  readonly operation: string
  /** The group of the document to which it belongs. */
  readonly tag: Tag
  readonly summary: string
  /** Two or three sentences for the document. @defaultValue the summary */
  readonly details?: string
  /**
   * `open`: public; `caller`: authenticated; `reader`: with the scope of operators or the one that only reads;
   * `operator`: with the scope of operators.
   */
  readonly access: 'open' | 'caller' | 'reader' | 'operator'
  /** The scope that a caller needs. @defaultValue none beside what `access` says */
  readonly scope?: string
  /** False for a route that sends or only asks: an operator there changes nothing that is audited. */
  readonly audited?: false
  /** The rate limit of the tenant against which a request counts. @defaultValue none */
  readonly counts?: RequestKind
  readonly params?: TSchema
  readonly query?: TSchema
  readonly body?: TSchema
  /** A request without a body counts as an empty object. */
  readonly bodyOptional?: boolean
  /** Accepts a body of any type; the handler gets its bytes. */
  readonly bodyRaw?: boolean
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
  /** Returns the number of notifications that a list may answer with, for its weight. @defaultValue 0 */
  readonly rowsOf?: (request: FastifyRequest) => number
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
  /** Operations that take an id of the answer, and the place of this `id` in it (JSON Pointer). */
  readonly links?: readonly { readonly operation: string; readonly id: string }[]
}
