/**
 * Many recipients in one request. What is wrong with the message refuses the batch; what is wrong with one
 * recipient is that recipient's result, and the others go their way. They are accepted in one commit.
 */
import type { FastifyRequest } from 'fastify'
import type { Admitted, Draft, Gate, People } from '../../doors.ts'
import { SluiceError } from '../../errors.ts'
import type { Clock } from '../../ports.ts'
import { acceptedAnswer } from '../answer.ts'
import { batchSchema } from '../answer-schema.ts'
import {
  checkData,
  hasAddress,
  missingAddress,
  type Offer,
  readBatchRecipient,
  readMessage,
} from '../draft.ts'
import type { Answer, Idempotency, Keep } from '../idempotency.ts'
import { basePath, type Route } from '../route.ts'
import { type BatchBody, batchBody } from '../schema.ts'
import { compileCheck, invalidRequest } from '../validation.ts'
import { sendAnswer } from './notifications.ts'

/** The contract's bound; above `answeredMax` a batch is a job in the background. */
const recipientsMax = 500
const answeredMax = 100

export interface BatchRoutesOptions {
  readonly gate: Pick<Gate, 'admit'>
  readonly people: People
  readonly offer: Offer
  readonly idempotency: Idempotency
  readonly clock: Clock
  readonly bodyMaxBytes: number
}

const checkBatch = compileCheck(batchBody)
const checkRecipient = compileCheck(batchBody.properties.recipients.items)

interface Refusal {
  readonly recipient: string
  readonly code: string
  readonly detail: string
}

/** In the order sent: what is to be admitted, or why not. */
type Entry = { readonly draft: Draft } | { readonly refusal: Refusal }

export function batchRoutes(options: BatchRoutesOptions): readonly Route[] {
  const { gate, people, offer, idempotency, clock } = options

  async function readEntries(request: FastifyRequest): Promise<readonly Entry[]> {
    const { body, misspelt } = readBody(request.body)
    const common = readMessage(body, clock.now(), offer)
    checkData(common.data, request.bodyBytes?.length ?? 0, offer)
    const entries: Entry[] = []
    for (const [index, given] of body.recipients.entries()) {
      const draft = readBatchRecipient(given, common)
      const fault =
        misspelt.get(index) ??
        (await faultOf(request, draft, index, typeof given === 'object' && given.data !== undefined))
      entries.push(fault === undefined ? { draft } : { refusal: refusalOf(draft.to.id, fault) })
    }
    return entries
  }

  async function faultOf(
    request: FastifyRequest,
    draft: Draft,
    index: number,
    ownData: boolean,
  ): Promise<SluiceError | undefined> {
    const path = `/recipients/${index}`
    try {
      if (ownData) checkData(draft.data, request.bodyBytes?.length ?? 0, offer, `${path}/data`)
      if (hasAddress(draft)) return undefined
      const fault = missingAddress(draft, await people.find(request.caller.tenant, draft.to.id), path)
      return fault === undefined ? undefined : invalidRequest([fault])
    } catch (error) {
      if (error instanceof SluiceError && error.status < 500) return error
      throw error
    }
  }

  async function accept(
    request: FastifyRequest,
    entries: readonly Entry[],
    keep: Keep | undefined,
  ): Promise<Answer> {
    const drafts = entries.flatMap((entry) => ('draft' in entry ? [entry.draft] : []))
    if (drafts.length === 0) return answerOf(entries, [])
    const results = await gate.admit({
      caller: request.caller,
      drafts,
      ...(keep === undefined
        ? {}
        : { answer: (results: readonly Admitted[]) => keep(answerOf(entries, results)) }),
    })
    return answerOf(entries, results)
  }

  return [
    {
      method: 'POST',
      path: `${basePath}/notifications/batch`,
      summary: 'Accept one message for many recipients',
      access: 'caller',
      body: batchBody,
      bodyChecked: 'by handler',
      bodyMaxBytes: options.bodyMaxBytes,
      answers: {
        202: { description: 'One result for each recipient, in the order sent', schema: batchSchema },
      },
      problems: [
        'BATCH_LIMIT_EXCEEDED',
        'IDEMPOTENCY_IN_PROGRESS',
        'IDEMPOTENCY_MISMATCH',
        'QUEUE_FULL',
        'STORE_UNAVAILABLE',
        'STATE_UNAVAILABLE',
      ],
      async handle(request, reply) {
        refuseTooMany(request.body)
        const answer = await idempotency.once(request, async (keep) =>
          accept(request, await readEntries(request), keep),
        )
        return sendAnswer(reply, answer, clock.now())
      },
    },
  ]
}

/** Before anything else is looked at: a list that is too long is not worth its checks. */
function refuseTooMany(body: unknown): void {
  const recipients = (body as { recipients?: unknown } | null | undefined)?.recipients
  if (!Array.isArray(recipients) || recipients.length <= answeredMax) return
  const count = `The batch has ${recipients.length} recipients`
  throw new SluiceError(
    'BATCH_LIMIT_EXCEEDED',
    recipients.length > recipientsMax
      ? `${count}; at most ${recipientsMax} are taken.`
      : `${count}. More than ${answeredMax} need a job in the background, which this version does not carry yet: send them in batches of up to ${answeredMax}.`,
  )
}

/**
 * Values of one recipient that are misspelt (an address, a time zone) refuse only that one; all else refuses the
 * batch. Each is looked at on its own, so that no list of faults grows with the batch.
 */
function readBody(value: unknown): { body: BatchBody; misspelt: ReadonlyMap<number, SluiceError> } {
  const faults = checkBatch(value)
  const misspelt = new Map<number, SluiceError>()
  const body = value as BatchBody
  if (faults === undefined) return { body, misspelt }
  const recipients: unknown = (value as Partial<BatchBody> | null)?.recipients
  if (!Array.isArray(recipients) || recipients.length === 0) throw invalidRequest(faults)
  const inCommon = checkBatch({ ...body, recipients: ['anybody'] })
  if (inCommon !== undefined) throw invalidRequest(inCommon)
  for (const [index, recipient] of recipients.entries()) {
    const own = checkRecipient(recipient)?.map((fault) => ({
      ...fault,
      path: `/recipients/${index}${fault.path}`,
    }))
    if (own === undefined) continue
    const error = invalidRequest(own)
    if (own.some((fault) => !fault.misspelt || isId(fault.path))) throw error
    misspelt.set(index, error)
  }
  return { body, misspelt }
}

/** Without an id there is nobody to give a result to. */
const isId = (path: string): boolean => /^\/recipients\/\d+(?:\/id)?$/.test(path)

function refusalOf(recipient: string, { code, message }: SluiceError): Refusal {
  return { recipient, code, detail: message }
}

function answerOf(entries: readonly Entry[], results: readonly Admitted[]): Answer {
  let next = 0
  const answers = entries.map((entry) => {
    if ('refusal' in entry) return entry.refusal
    const result = results[next++]!
    const recipient = entry.draft.to.id
    if (result.ok) return { recipient, ...acceptedAnswer(result.notification) }
    if (result.error instanceof SluiceError) return refusalOf(recipient, result.error)
    throw result.error
  })
  return { status: 202, body: JSON.stringify({ results: answers }) }
}
