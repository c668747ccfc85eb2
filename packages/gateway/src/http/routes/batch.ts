/**
 * Batches: many recipients in one request. A mistake in the message refuses the batch; a mistake in one
 * recipient is the result of that recipient alone. Up to a hundred are accepted in one commit and answered one
 * by one; more are a job in the background (jobs.ts), which is on disk when it is answered.
 */
import type { FastifyRequest } from 'fastify'
import { bytesOf } from '../../content.ts'
import { SluiceError } from '../../errors.ts'
import type { Draft, Recipient, Refusal } from '../../model.ts'
import type { Clock, JobWork } from '../../ports.ts'
import type { Admitted, Gate, Jobs, Recipients } from '../../stages.ts'
import { resultText } from '../accepted-text.ts'
import { batchSchema } from '../answer-schema.ts'
import {
  type CommonDraft,
  type Offer,
  readBatchRecipient,
  readMessage,
  readRecipient,
  withData,
} from '../draft.ts'
import { checkData, checkOwnData, hasAddress, missingAddress } from '../draft-checks.ts'
import type { Answer, Idempotency, Keep } from '../idempotency.ts'
import { basePath, type Route } from '../route.ts'
import { type BatchBody, type BatchRecipient, batchBody, recipientsMax } from '../schema.ts'
import { compileCheck, invalidRequest } from '../validation.ts'
import { aheadOf, inWallTime } from '../wall-time.ts'
import { headed } from './notifications.ts'

/** Recipients above which a batch is a job in the background. */
const answeredMax = 100
/** The bound of `content` as JSON times the recipients: the bytes that one request would send to providers. */
const sentMaxBytes = 256 * 2 ** 20
/**
 * Bytes of a body above which it is read in slices, so that no step of it holds the event loop for more than
 * some 5 ms.
 */
const sliceBytes = 2 ** 17

export interface BatchRoutesOptions {
  readonly gate: Pick<Gate, 'admit'>
  readonly jobs: Pick<Jobs, 'open'>
  readonly recipients: Pick<Recipients, 'findAll' | 'forget'>
  readonly offer: Offer
  readonly idempotency: Idempotency
  readonly clock: Clock
  readonly bodyMaxBytes: number
}

const checkBatch = compileCheck(batchBody)
const checkRecipient = compileCheck(batchBody.properties.recipients.items)

/** In request order: a draft to admit, or its fault. */
type Entry =
  | { readonly draft: Draft; readonly given: JobWork['recipients'][number] }
  | { readonly refusal: Refusal }

interface Batch {
  readonly message: CommonDraft
  readonly entries: readonly Entry[]
}

export function batchRoutes(options: BatchRoutesOptions): readonly Route[] {
  const { gate, jobs, recipients, offer, idempotency, clock } = options

  /** Yields to the event loop. */
  const pause = (): Promise<void> => new Promise((resolve) => clock.soon(resolve))

  async function readBatch(request: FastifyRequest): Promise<Batch> {
    const bodyBytes = request.received?.length ?? 0
    const isLarge = bodyBytes > sliceBytes
    if (isLarge) await pause()
    const { body, misspelt } = readBody(request.body)
    const common = readMessage(body, clock.now(), offer, aheadOf(clock))
    checkData(common.data, bodyBytes, offer)
    const message = withData(common)
    if (isLarge) await pause()
    const contentBytes = bytesOf({ ...(message.content && { content: message.content }) })
    refuseTooMuch(contentBytes, body.recipients.length)
    const given = body.recipients.map((recipient): BatchRecipient => readRecipient(recipient))
    const dataFaults = await dataFaultsOf(given, message, bodyBytes)
    const drafts = await draftsOf(given, message, contentBytes, dataFaults)
    if (isLarge) await pause()
    const faults = new Map([...dataFaults, ...misspelt])
    const finding = addressFaults(request.caller.tenant, drafts, faults)
    if (finding !== undefined) await finding
    const entries = drafts.map((draft, index): Entry => {
      const fault = faults.get(index)
      return fault === undefined
        ? { draft, given: given[index]! }
        : { refusal: refusalOf(draft.to.id, fault) }
    })
    return { message, entries }
  }

  /** Reads the recipients. Of a job only their ids: the job runner reads its work again. */
  async function draftsOf(
    given: readonly BatchRecipient[],
    message: CommonDraft,
    contentBytes: number,
    faulty: ReadonlyMap<number, SluiceError>,
  ): Promise<readonly Draft[]> {
    const common = given.length === 1 ? message : withSharedContent(message, contentBytes)
    const isJob = given.length > answeredMax
    const drafts: Draft[] = []
    let read = 0
    for (const [index, recipient] of given.entries()) {
      const { data, ...to } = recipient
      drafts.push(isJob || faulty.has(index) ? { to, ...common } : readBatchRecipient(recipient, common))
      read += data === undefined || isJob ? 0 : bytesOf({ data })
      if (read < sliceBytes) continue
      read = 0
      await pause()
    }
    return drafts
  }

  /** Finds the recipients whose own data is too deep, or too long together with the common data. */
  async function dataFaultsOf(
    given: readonly BatchRecipient[],
    { data: common }: CommonDraft,
    bodyBytes: number,
  ): Promise<ReadonlyMap<number, SluiceError>> {
    const faults = new Map<number, SluiceError>()
    const commonBytes = bytesOf({ ...(common && { data: common }) })
    let read = 0
    for (const [index, { data: own }] of given.entries()) {
      if (own === undefined) continue
      try {
        read += checkOwnData(own, common, commonBytes, bodyBytes, offer, `/recipients/${index}/data`)
      } catch (error) {
        if (!(error instanceof SluiceError) || error.status >= 500) throw error
        faults.set(index, error)
      }
      if (read < sliceBytes) continue
      read = 0
      await pause()
    }
    return faults
  }

  /**
   * Adds the faults of recipients without an address, neither in the request nor on record. Without a promise where no
   * recipient has to be read.
   */
  function addressFaults(
    tenant: string,
    drafts: readonly Draft[],
    faults: Map<number, SluiceError>,
  ): Promise<void> | undefined {
    const open = [...drafts.keys()].filter(
      (index) => !faults.has(index) && !hasAddress(drafts[index]!, offer),
    )
    if (open.length === 0) return undefined
    const keysOf = (indexes: readonly number[]) =>
      indexes.map((index) => ({ tenant, recipient: drafts[index]!.to.id }))
    const missingIn = (indexes: readonly number[], found: readonly (Recipient | null | Error)[]) =>
      indexes.flatMap((index, nth) => {
        const recipient = found[nth]!
        if (recipient instanceof Error) throw recipient
        const fault = missingAddress(drafts[index]!, recipient, `/recipients/${index}`)
        return fault === undefined ? [] : [{ index, fault }]
      })
    // Another process may have stored an address: its hint may be late, or lost.
    async function readAgain(indexes: readonly number[]): Promise<void> {
      const keys = keysOf(indexes)
      for (const key of keys) recipients.forget(tenant, key.recipient)
      for (const { index, fault } of missingIn(indexes, await recipients.findAll(keys)))
        faults.set(index, invalidRequest([fault]))
    }
    const judge = (found: readonly (Recipient | null | Error)[]): Promise<void> | undefined => {
      const missing = missingIn(open, found).map(({ index }) => index)
      return missing.length === 0 ? undefined : readAgain(missing)
    }
    const found = recipients.findAll(keysOf(open))
    return found instanceof Promise ? found.then(judge) : judge(found)
  }

  async function openJob(
    { caller, received }: FastifyRequest,
    { message, entries }: Batch,
    keep: Keep | undefined,
  ): Promise<Answer> {
    const opened = (id: string): Answer => ({ status: 202, body: JSON.stringify({ jobId: id }) })
    const job = await jobs.open({
      caller,
      work: {
        message,
        recipients: entries.flatMap((entry) => ('given' in entry ? [entry.given] : [])),
      },
      bytes: received?.length ?? 0,
      refused: entries.flatMap((entry) => ('refusal' in entry ? [entry.refusal] : [])),
      ...(keep === undefined ? {} : { answer: ({ id }) => keep(opened(id)) }),
    })
    return opened(job.id)
  }

  async function accept(request: FastifyRequest, batch: Batch, keep: Keep | undefined): Promise<Answer> {
    const { entries } = batch
    if (entries.length > answeredMax) return openJob(request, batch, keep)
    const drafts = entries.flatMap((entry) => ('draft' in entry ? [entry.draft] : []))
    if (drafts.length === 0) return answerOf(entries, [], aheadOf(clock))
    // The stored answer is the sent answer, to the letter: the wall clock may be set after the commit.
    let answer: Answer | undefined
    const results = await gate.admit({
      caller: request.caller,
      drafts,
      ...(keep === undefined
        ? {}
        : {
            answer: (results: readonly Admitted[]) => {
              answer = answerOf(entries, results, aheadOf(clock))
              return keep(answer)
            },
          }),
    })
    return answer ?? answerOf(entries, results, aheadOf(clock))
  }

  return [
    {
      method: 'POST',
      path: `${basePath}/notifications/batch`,
      audited: false,
      operation: 'sendBatch',
      tag: 'Batches',
      summary: 'Accept one message for many recipients',
      access: 'caller',
      body: batchBody,
      bodyChecked: 'by handler',
      bodyApart: true,
      bodyMaxBytes: options.bodyMaxBytes,
      recipientsOf: ({ body }) => recipientsOf(body)?.length ?? 0,
      answers: {
        202: {
          description: `One result for each recipient, in the order sent; above ${answeredMax} the job that accepts them`,
          schema: batchSchema,
          links: ['getJob', 'cancelJob'].map((operation) => ({ operation, id: '/jobId' })),
        },
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
          accept(request, await readBatch(request), keep),
        )
        return headed(reply, answer, clock.now() + aheadOf(clock))
      },
    },
  ]
}

/** @throws PAYLOAD_TOO_LARGE where content times recipients exceeds the bound */
function refuseTooMuch(contentBytes: number, recipients: number): void {
  if (contentBytes * recipients <= sentMaxBytes) return
  throw new SluiceError(
    'PAYLOAD_TOO_LARGE',
    `content is ${contentBytes} bytes as JSON, times ${recipients} recipients ${contentBytes * recipients}; at most ${sentMaxBytes} are taken.`,
  )
}

/** Replaces equal content by one shared object. */
function withSharedContent(message: CommonDraft, contentBytes: number): CommonDraft {
  const { content, data, ...rest } = message
  if (content === undefined && data === undefined) return message
  const dataBytes = data === undefined ? 0 : bytesOf({ data })
  return {
    ...rest,
    shared: {
      bytes: contentBytes + dataBytes,
      ...(content === undefined ? {} : { content }),
      ...(data === undefined ? {} : { data }),
    },
  }
}

function recipientsOf(body: unknown): readonly unknown[] | undefined {
  const recipients = (body as { recipients?: unknown } | null | undefined)?.recipients
  return Array.isArray(recipients) ? recipients : undefined
}

/** Counts the recipients first: a list that is too long is not worth its checks. */
function refuseTooMany(body: unknown): void {
  const recipients = recipientsOf(body)
  if (recipients === undefined || recipients.length <= recipientsMax) return
  throw new SluiceError(
    'BATCH_LIMIT_EXCEEDED',
    `The batch has ${recipients.length} recipients; at most ${recipientsMax} are taken.`,
  )
}

/**
 * Checks the body. Misspelt values of one recipient (an address, a time zone) refuse only that one; every other
 * fault refuses the batch. Each recipient is checked separately, so that no list of faults grows with the
 * batch.
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

/** A recipient without an id cannot get a result. */
const isId = (path: string): boolean => /^\/recipients\/\d+(?:\/id)?$/.test(path)

function refusalOf(recipient: string, { code, message }: SluiceError): Refusal {
  return { recipient, code, detail: message }
}

function answerOf(entries: readonly Entry[], results: readonly Admitted[], aheadMs: number): Answer {
  let next = 0
  const texts = entries.map((entry) => {
    if ('refusal' in entry) return JSON.stringify(entry.refusal)
    const { notification } = results[next++]!
    return resultText(entry.draft.to.id, inWallTime(notification, aheadMs))
  })
  return { status: 202, body: `{"results":[${texts.join()}]}` }
}
