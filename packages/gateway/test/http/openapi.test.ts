/** The published document describes every route with its input and output. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { errors } from '../../src/errors.ts'
import { createUnsubscribeLinks } from '../../src/http/unsubscribe.ts'
import { startStub } from './stub.ts'

const links = createUnsubscribeLinks({
  publicUrl: 'https://notify.example.com',
  key: 'a secret of the tests',
})
const stub = await startStub({ parts: { links } })

interface Operation {
  readonly operationId: string
  readonly parameters: readonly { readonly name: string; readonly in: string }[]
  readonly requestBody?: { readonly required: boolean; readonly content: object }
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly description: string
        readonly links?: Readonly<
          Record<string, { readonly operationId: string; readonly parameters: object }>
        >
      }
    >
  >
}
interface Document {
  readonly openapi: string
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, object>> }
}

const document = JSON.parse((await stub.ask('GET', '/openapi.json')).text) as Document
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    path,
    operation,
  })),
)

test('every route of the contract is described', () => {
  const base = '/api/v1'
  assert.equal(document.openapi, '3.1.0')
  assert.deepEqual(operations.map(({ name }) => name.replace(base, '')).sort(), [
    'DELETE /holds/{name}',
    'DELETE /jobs/{id}',
    'DELETE /notifications/{id}',
    'DELETE /pools/{channel}/{account}/hold',
    'DELETE /recipients/{id}',
    'DELETE /replays/{id}',
    'GET /backlog',
    'GET /dead-letters',
    'GET /dead-letters/summary',
    'GET /events',
    'GET /healthz',
    'GET /holds',
    'GET /jobs/{id}',
    'GET /metrics',
    'GET /notifications',
    'GET /notifications/{id}',
    'GET /openapi.json',
    'GET /overview',
    'GET /overview/stream',
    'GET /policy',
    'GET /policy/use',
    'GET /pools',
    'GET /pools/stream',
    'GET /pools/{channel}/{account}',
    'GET /readyz',
    'GET /recipients/{id}',
    'GET /recipients/{id}/limits',
    'GET /recipients/{id}/timeline',
    'GET /recipients/{id}/windows',
    'GET /replays/{id}',
    'GET /requests',
    'GET /search',
    'GET /u/{token}',
    'GET /whoami',
    'PATCH /recipients/{id}',
    'POST /dead-letters/redrive',
    'POST /decisions',
    'POST /feedback',
    'POST /feedback/{channel}/{account}',
    'POST /notifications',
    'POST /notifications/batch',
    'POST /policy/preview',
    'POST /policy/validate',
    'POST /replays',
    'POST /u/{token}',
    'PUT /holds/{name}',
    'PUT /pools/{channel}/{account}/hold',
    'PUT /recipients/{id}',
  ])
})

test('every operation has a verb, a tag, a description, a security requirement and examples', () => {
  const tags = new Set((document as unknown as { tags: { name: string }[] }).tags.map(({ name }) => name))
  for (const { name, operation } of operations) {
    const { operationId, description, security, ...rest } = operation as unknown as Record<string, unknown>
    assert.match(String(operationId), /^[a-z]+[A-Za-z]*$/, name)
    assert.match(String(description), /\.$/, name)
    assert.ok(Array.isArray(security), name)
    assert.ok(
      (rest.tags as string[]).every((tag) => tags.has(tag)),
      name,
    )
    const { requestBody, responses } = operation as unknown as {
      requestBody?: { content: Record<string, object> }
      responses: Record<string, { content?: Record<string, object> }>
    }
    const bodies = [requestBody, ...Object.values(responses)].flatMap((each) =>
      Object.entries(each?.content ?? {}),
    )
    for (const [type, content] of bodies)
      assert.ok(
        'example' in content || !type.includes('json') || name.endsWith('api.json'),
        `${name} ${type}`,
      )
    for (const status of Object.keys(responses).filter((each) => each >= '400'))
      assert.ok('application/problem+json' in (responses[status]!.content ?? {}), `${name} ${status}`)
  }
})

test('every reference resolves, and every schema is used', () => {
  const text = JSON.stringify(document)
  const used = new Set(
    [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map((match) => match[1]!),
  )
  assert.deepEqual([...used].sort(), Object.keys(document.components.schemas).sort())
  assert.equal(text.includes('"$id"'), false)
})

test('every link leads to an operation and gives it its parameters', () => {
  const byId = new Map(operations.map(({ operation }) => [operation.operationId, operation]))
  let links = 0
  for (const { operation } of operations) {
    for (const { links: those = {} } of Object.values(operation.responses)) {
      for (const { operationId, parameters } of Object.values(those)) {
        const named = byId.get(operationId)?.parameters.filter((parameter) => parameter.in === 'path')
        assert.deepEqual(
          Object.keys(parameters),
          named?.map(({ name }) => name),
          operationId,
        )
        links += 1
      }
    }
  }
  assert.equal(links, 4)
})

test('documents are objects; pages and metrics are text', () => {
  const typeOf = (path: string): unknown => {
    const { content } = document.paths[path]!.get!.responses[200] as {
      content?: Record<string, { schema: object }>
    }
    return Object.values(content!)[0]!.schema
  }
  assert.deepEqual(typeOf('/openapi.json'), { type: 'object' })
  for (const path of ['/metrics', '/u/{token}']) assert.deepEqual(typeOf(path), { type: 'string' })
})

test('operations have unique names, their parameters, and the key of POSTs', () => {
  const ids = operations.map(({ operation }) => operation.operationId)
  assert.equal(new Set(ids).size, ids.length)
  for (const { name, path, operation } of operations) {
    const named = operation.parameters
      .filter((parameter) => parameter.in === 'path')
      .map((parameter) => `{${parameter.name}}`)
    assert.deepEqual(named, path.match(/\{\w+\}/g) ?? [], name)
    const keyed = operation.parameters.some((parameter) => parameter.name === 'Idempotency-Key')
    // Providers send no key: their events are known by their own ids.
    assert.equal(keyed, name.startsWith('POST /api') && !name.includes('/feedback/{'), name)
  }
})

test('error codes are declared by status', () => {
  const { responses } = document.paths['/api/v1/notifications']!.post!
  const codes = Object.values(responses).flatMap(
    ({ description }) => description.match(/\b[A-Z]+_[A-Z_]+\b/g) ?? [],
  )
  assert.deepEqual(codes.sort(), [
    'IDEMPOTENCY_IN_PROGRESS',
    'IDEMPOTENCY_MISMATCH',
    'INVALID_JSON',
    'INVALID_REQUEST',
    'KEYS_UNAVAILABLE',
    'PAYLOAD_TOO_LARGE',
    'QUEUE_FULL',
    'RATE_LIMIT_EXCEEDED',
    'REQUEST_TIMEOUT',
    'STATE_UNAVAILABLE',
    'STORE_UNAVAILABLE',
    'UNSUPPORTED_MEDIA_TYPE',
  ])
  assert.ok(responses[String(errors.UNAUTHENTICATED.status)])
})
