/**
 * Reads a record of a topic: the body of POST /notifications with `tenant` and `module` beside it, and the header
 * `idempotency-key`. Throws what HTTP would answer. Pure.
 */
import { Type } from '@sinclair/typebox'
import { SluiceError } from '../errors.ts'
import { hashOf } from '../http/body-parser.ts'
import { readKey } from '../http/idempotency.ts'
import { isName, nameMax } from '../http/identity.ts'
import { parseJson } from '../http/json.ts'
import { type NotificationBody, notificationBody, text } from '../http/schema.ts'
import { compileCheck, invalidRequest } from '../http/validation.ts'
import type { AnswerKey } from '../ports.ts'
import type { Caller } from '../stages.ts'

/** A record as an engine gives it. */
export interface IntakeMessage {
  readonly topic: string
  readonly topicId: string
  readonly partition: number
  readonly offset: number
  /** The instant with which it stands in its topic, ms: that of its producer, or of the broker. */
  readonly timestamp: number
  /** Absent for the tombstone of a compacted topic. */
  readonly value: Buffer | undefined
  /** The header `idempotency-key`. */
  readonly key?: string
}

export interface ReadRecord {
  readonly caller: Caller
  readonly body: NotificationBody
  readonly bytes: number
  /** The name under which the acceptance is committed once. */
  readonly answerKey: AnswerKey
  /** Compared where a caller's own key comes again; the same for each reading of one position. */
  readonly requestHash: string
}

const recordBody = Type.Object(
  {
    ...notificationBody.properties,
    tenant: text('printable', nameMax),
    module: text('printable', nameMax),
  },
  { additionalProperties: false },
)
const check = compileCheck(recordBody)

/** The method of the stored answers of records: no request over HTTP has it. */
const method = 'KAFKA'
/** The longest record, bytes: that of a request over HTTP. */
const bytesMax = 2 ** 20

/** @throws SluiceError INVALID_JSON, INVALID_REQUEST, PAYLOAD_TOO_LARGE */
export function readRecord(message: IntakeMessage): ReadRecord {
  const { topic, topicId, partition, offset, value = Buffer.alloc(0), key } = message
  if (value.length > bytesMax)
    throw new SluiceError(
      'PAYLOAD_TOO_LARGE',
      `The record is ${value.length} bytes; at most ${bytesMax} are taken.`,
    )
  const record = parseJson(value, 'message')
  const faults = check(record)
  if (faults !== undefined) throw invalidRequest(faults.map(({ path, message }) => ({ path, message })))
  const { tenant, module, ...body } = record as NotificationBody & Caller
  const name =
    key === undefined
      ? { path: `${topicId}/${partition}`, key: String(offset) }
      : { path: topic, key: readKey(key) }
  return {
    caller: { tenant, module },
    body,
    bytes: value.length,
    answerKey: { tenant, module, method, ...name },
    requestHash: hashOf(value),
  }
}

/** The tenant that a record names which cannot be accepted; undefined where none can be read. */
export function tenantOf({ value }: Pick<IntakeMessage, 'value'>): string | undefined {
  try {
    const record = parseJson(value ?? Buffer.alloc(0), 'message') as { readonly tenant?: unknown } | null
    return isName(record?.tenant) ? record.tenant : undefined
  } catch {
    return undefined
  }
}
