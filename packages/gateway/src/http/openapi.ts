/** Generates the description of the HTTP interface (OpenAPI 3.1) from the table of routes. */
import type { TSchema } from '@sinclair/typebox'
import { type ErrorCode, errors } from '../errors.ts'
import { problemSchema } from './answer-schema.ts'
import { operatorScope, readScope } from './identity.ts'
import { exampleOf } from './openapi-example.ts'
import { problemUri } from './problem.ts'
import { type Route, type RouteAnswer, tags } from './route.ts'

type Json = string | number | boolean | null | Json[] | { [key: string]: Json }
type JsonRecord = { [key: string]: Json }

export const version = '0.1.0'

/** Error codes of every request, and of every request with a body. */
const always: readonly ErrorCode[] = ['INVALID_REQUEST', 'INTERNAL']
const withBody: readonly ErrorCode[] = [
  'INVALID_JSON',
  'PAYLOAD_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
  'REQUEST_TIMEOUT',
]
const withCaller: readonly ErrorCode[] = ['UNAUTHENTICATED', 'FORBIDDEN', 'KEYS_UNAVAILABLE']

interface DocumentOptions {
  /** True where callers need a token. */
  readonly withKeys: boolean
}

function openApiDocument(routes: readonly Route[], { withKeys }: DocumentOptions): JsonRecord {
  const schemas: JsonRecord = {}
  const paths: { [path: string]: JsonRecord } = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:([a-z]+)/g, '{$1}')
    paths[path] ??= {}
    paths[path][route.method.toLowerCase()] = operation(route, schemas, withKeys)
  }
  reference(problemSchema, schemas)
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version,
      summary: 'A notification rate-limiting gateway',
      description:
        'Accepts notifications, keeps the limits of recipients, tenants and provider accounts, and says of each why it waits. Every error is a problem (RFC 9457) with a stable `code`.',
      contact: { name: 'Sluice', url: 'https://github.com/sluice/sluice' },
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/', description: 'The gateway that serves this document.' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas,
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
    },
  }
}

function operation(route: Route, schemas: JsonRecord, withKeys: boolean): JsonRecord {
  const { body } = route
  return {
    operationId: route.operation,
    tags: [route.tag],
    summary: route.summary,
    description: `${route.details ?? route.summary}.`,
    ...security(route, withKeys),
    parameters: [
      ...parameters(route.params, 'path', schemas),
      ...parameters(route.query, 'query', schemas),
      ...(route.method === 'POST' && route.access !== 'open' ? [idempotencyKey] : []),
    ],
    ...(body === undefined
      ? {}
      : {
          requestBody: {
            required: route.bodyOptional !== true,
            content: { 'application/json': { schema: reference(body, schemas), example: exampleOf(body) } },
          },
        }),
    responses: {
      ...Object.fromEntries(
        Object.entries(route.answers).map(([status, answer]) => [status, response(answer, schemas)]),
      ),
      ...problems(route),
    },
  }
}

/**
 * The security requirement of a route. Without keys a token may be sent and is not read. The scopes of a bearer token
 * stand in an extension: OpenAPI knows them of OAuth 2 only.
 */
function security({ access, scope: own }: Route, withKeys: boolean): JsonRecord {
  if (access === 'open') return { security: [] }
  const bearer = { bearer: [] }
  const scope = access === 'operator' ? operatorScope : access === 'reader' ? readScope : own
  return {
    security: withKeys ? [bearer] : [{}, bearer],
    ...(scope === undefined ? {} : { 'x-required-scopes': [scope] }),
  }
}

const idempotencyKey: JsonRecord = {
  name: 'Idempotency-Key',
  in: 'header',
  required: false,
  description: 'The same key with the same body gets the answer of the first request again.',
  schema: { type: 'string', minLength: 1, maxLength: 255 },
}

function parameters(schema: TSchema | undefined, place: 'path' | 'query', schemas: JsonRecord): JsonRecord[] {
  if (schema === undefined) return []
  const required: readonly string[] = schema.required ?? []
  return Object.entries(schema.properties as Record<string, TSchema>).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema: reference(property, schemas),
  }))
}

function response(answer: RouteAnswer, schemas: JsonRecord): JsonRecord {
  const { description, schema, type = 'application/json', links } = answer
  if (schema === undefined && answer.type === undefined) return { description }
  return {
    description,
    ...(links === undefined ? {} : { links: Object.fromEntries(links.map(link)) }),
    content: {
      [type]:
        schema === undefined
          ? { schema: plainSchema(type) }
          : { schema: reference(schema, schemas), example: exampleOf(schema) },
    },
  }
}

/** The schema of other types: a document, a page, metrics. */
const plainSchema = (type: string): JsonRecord => ({
  type: type === 'application/json' ? 'object' : 'string',
})

function link({
  id,
  operation: operationId,
}: NonNullable<RouteAnswer['links']>[number]): [string, JsonRecord] {
  return [operationId, { operationId, parameters: { id: `$response.body#${id}` } }]
}

/** Lists one response for each error status, with the codes that it can carry. */
function problems(route: Route): JsonRecord {
  const codes = new Set<ErrorCode>([
    ...always,
    ...(route.body === undefined ? [] : withBody),
    ...(route.access === 'open' ? [] : withCaller),
    ...(route.counts === undefined ? [] : (['REQUEST_LIMIT_EXCEEDED'] as const)),
    ...(route.problems ?? []),
  ])
  const byStatus = Map.groupBy(codes, (code) => errors[code].status)
  const found: JsonRecord = {}
  for (const [status, those] of byStatus) {
    found[String(status)] = {
      description: those.map((code) => `${code}: ${errors[code].title}`).join('. '),
      ...(status === 503 || status === 429
        ? { headers: { 'Retry-After': { schema: { type: 'integer' } } } }
        : {}),
      content: {
        'application/problem+json': {
          schema: { $ref: '#/components/schemas/Problem' },
          example: problemExample(those[0]!),
        },
      },
    }
  }
  return found
}

/** An example of a problem: the first code of its status. */
function problemExample(code: ErrorCode): JsonRecord {
  const { status, title } = errors[code]
  return {
    type: problemUri(code),
    title,
    status,
    detail: `${title}.`,
    code,
    requestId: '01M81DT38GZFX8GKPN84CKMDGC',
  }
}

/**
 * Converts a schema to JSON; one with a name of its own stands among the components and is referred to here.
 */
function reference(schema: TSchema, schemas: JsonRecord): Json {
  const { $id } = schema
  if ($id === undefined) return inner(schema, schemas)
  if (!($id in schemas)) {
    const { $id: _, ...rest } = schema
    schemas[$id] = inner(rest, schemas)
  }
  return { $ref: `#/components/schemas/${$id}` }
}

function inner(value: unknown, schemas: JsonRecord): Json {
  if (Array.isArray(value)) return value.map((each) => nested(each, schemas))
  if (typeof value !== 'object' || value === null) return value as Json
  const plain: JsonRecord = {}
  for (const [key, each] of Object.entries(value)) plain[key] = nested(each, schemas)
  return plain
}

function nested(value: unknown, schemas: JsonRecord): Json {
  return isNamed(value) ? reference(value, schemas) : inner(value, schemas)
}

function isNamed(value: unknown): value is TSchema {
  return typeof value === 'object' && value !== null && typeof (value as TSchema).$id === 'string'
}

/** Adds the route at which the table is published. The document is made when it is first asked for. */
export function withDocument(routes: readonly Route[], withKeys: boolean): readonly Route[] {
  const document: Route = {
    method: 'GET',
    path: '/openapi.json',
    operation: 'getOpenApi',
    tag: 'Probes',
    summary: 'This document',
    access: 'open',
    answers: { 200: { description: 'OpenAPI 3.1', type: 'application/json' } },
    handle: () => (published ??= openApiDocument(all, { withKeys })),
  }
  const all = [...routes, document]
  let published: JsonRecord | undefined
  return all
}
