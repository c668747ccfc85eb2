/** Routes of recipients: addresses and preferences, use of their limits, and all their notifications. */
import type { FastifyRequest } from 'fastify'
import { SluiceError } from '../../errors.ts'
import type { JsonObject, JsonValue, Recipient } from '../../model.ts'
import { withKeptMarks } from '../../policy/preferences.ts'
import type { Clock, Store } from '../../ports.ts'
import type { Gate, Ledger } from '../../stages.ts'
import { limitsAnswer, recipientAnswer as shownOf } from '../answer.ts'
import { limitsSchema, notificationPage } from '../answer-schema.ts'
import { isDeeperThan } from '../json.ts'
import { pageAnswer } from '../page.ts'
import type { RecipientEditor } from '../recipient-editor.ts'
import { basePath, type Route } from '../route.ts'
import { pageQuery, recipientAnswer, recipientBody, recipientParams, recipientPatch } from '../schema.ts'
import { compileCheck, invalidRequest, pointer } from '../validation.ts'
import { aheadOf, usageInWallTime } from '../wall-time.ts'

export interface RecipientRoutesOptions {
  readonly gate: Pick<Gate, 'usage'>
  readonly store: Pick<Store, 'recipient' | 'list' | 'feedback'>
  readonly ledger: Pick<Ledger, 'live'>
  readonly editor: RecipientEditor
  readonly clock: Pick<Clock, 'aheadMs' | 'soon'>
  readonly erase: (tenant: string, recipient: string) => Promise<void>
}

const path = `${basePath}/recipients/:id`
/** Deeper than any field of a recipient. */
const patchLevelsMax = 5
const known = new Set(Object.keys(recipientBody.properties))
const checkRecipient = compileCheck(recipientBody)

const idOf = (request: FastifyRequest): string => (request.params as { id: string }).id

export function recipientRoutes(options: RecipientRoutesOptions): readonly Route[] {
  const { gate, store, ledger, editor, erase, clock } = options
  const answerOf = (recipient: Recipient) => shownOf(recipient, aheadOf(clock))
  const answers = { 200: { description: 'The recipient', schema: recipientAnswer } }

  return [
    {
      method: 'GET',
      path,
      operation: 'getRecipient',
      tag: 'Recipients',
      summary: 'Addresses and preferences of a person',
      access: 'caller',
      params: recipientParams,
      answers,
      problems: ['NOT_FOUND', 'STORE_UNAVAILABLE'],
      async handle(request) {
        const recipient = await store.recipient(request.caller.tenant, idOf(request))
        if (recipient === undefined || recipient.erased !== undefined)
          throw new SluiceError('NOT_FOUND', 'Nothing is stored for this recipient.')
        return answerOf(recipient)
      },
    },
    {
      method: 'PUT',
      path,
      operation: 'replaceRecipient',
      tag: 'Recipients',
      summary: 'Store a person, in place of what was stored',
      access: 'caller',
      counts: 'writes',
      params: recipientParams,
      body: recipientBody,
      answers,
      problems: ['STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request) {
        const { tenant } = request.caller
        const id = idOf(request)
        const given = request.body as Partial<Recipient>
        return answerOf(
          await editor.edit(tenant, id, (before, erased) => {
            // An erased recipient keeps the opt-outs, unless the request sets them.
            const kept =
              erased !== undefined && before?.optOuts !== undefined ? { optOuts: before.optOuts } : {}
            return withKeptMarks(recipientOf(tenant, id, { ...kept, ...given }), before)
          }),
        )
      },
    },
    {
      method: 'PATCH',
      path,
      operation: 'updateRecipient',
      tag: 'Recipients',
      summary: 'Change what is stored of a person (JSON merge patch); stores it where nothing was',
      access: 'caller',
      counts: 'writes',
      params: recipientParams,
      body: recipientPatch,
      answers,
      problems: ['STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request) {
        const { tenant } = request.caller
        const id = idOf(request)
        const patch = readPatch(request.body as JsonObject)
        return answerOf(
          await editor.edit(tenant, id, (before) => {
            const { tenant: _, invalid: _invalid, ...fields }: Recipient = before ?? { tenant, id }
            const merged = mergePatch(fields as unknown as JsonObject, patch)
            const faults = checkRecipient(merged)
            if (faults !== undefined) throw invalidRequest(faults)
            return withKeptMarks(recipientOf(tenant, id, merged as Partial<Recipient>), before)
          }),
        )
      },
    },
    {
      method: 'DELETE',
      path,
      operation: 'eraseRecipient',
      tag: 'Recipients',
      summary: 'Erase a person: addresses, preferences and content are gone, and what waits is cancelled',
      access: 'caller',
      counts: 'writes',
      params: recipientParams,
      answers: {
        204: { description: 'Nothing says who it was; opt-outs and counts hold under a keyed hash' },
      },
      problems: ['STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request, reply) {
        const { tenant } = request.caller
        const id = idOf(request)
        await editor.alone(tenant, id, () => erase(tenant, id))
        return reply.code(204).send()
      },
    },
    {
      method: 'GET',
      path: `${path}/limits`,
      operation: 'getRecipientLimits',
      tag: 'Recipients',
      summary: 'What each limit has used up for a person, and when it frees',
      access: 'caller',
      params: recipientParams,
      answers: { 200: { description: 'Zeros for somebody unknown', schema: limitsSchema } },
      problems: ['STORE_UNAVAILABLE', 'STATE_UNAVAILABLE'],
      async handle(request) {
        return limitsAnswer(
          usageInWallTime(await gate.usage(request.caller.tenant, idOf(request)), aheadOf(clock)),
        )
      },
    },
    {
      method: 'GET',
      path: `${path}/timeline`,
      operation: 'listRecipientTimeline',
      tag: 'Recipients',
      summary: 'Everything that was sent to a person, waits or was suppressed, and why',
      access: 'caller',
      counts: 'reads',
      params: recipientParams,
      query: pageQuery,
      answers: { 200: { description: 'Newest first', schema: notificationPage } },
      problems: ['STORE_UNAVAILABLE'],
      rowsOf: ({ query }) => (query as { limit: number }).limit,
      async handle(request, reply) {
        const page = request.query as { limit: number; cursor?: string }
        const query = { tenant: request.caller.tenant, recipient: idOf(request), ...page }
        const found = await store.list(query)
        return pageAnswer(reply, found, { ledger, clock, feedback: store.feedback, caller: request.caller })
      },
    },
  ]
}

function recipientOf(tenant: string, id: string, given: Partial<Recipient>): Recipient {
  if (given.id !== undefined && given.id !== id) {
    throw invalidRequest([{ path: '/id', message: 'must be the id in the path, or left out' }])
  }
  return { ...given, id, tenant }
}

function readPatch(patch: JsonObject): JsonObject {
  if (isDeeperThan(patch, patchLevelsMax)) {
    throw invalidRequest([{ path: '', message: `must not be deeper than ${patchLevelsMax} levels` }])
  }
  const unknown = Object.keys(patch).filter((key) => !known.has(key))
  if (unknown.length > 0) {
    throw invalidRequest(
      unknown.slice(0, 20).map((key) => ({ path: `/${pointer(key)}`, message: 'is not a known field' })),
    )
  }
  return patch
}

/** Applies a merge patch (RFC 7396). */
function mergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch
  const merged: Record<string, JsonValue> = isObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else merged[key] = mergePatch(merged[key], value)
  }
  return merged
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
