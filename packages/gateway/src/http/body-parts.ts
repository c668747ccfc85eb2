/**
 * A large request on its way from the parsing thread. Long parts are not transferred as objects, which would
 * take as long as parsing them again: content comes with its size, its JSON and its part of the fingerprint,
 * and data as JSON only, represented by an empty object until its fields are read.
 */
import { type Encoding, type JsonObject, keepEncoding } from '../content.ts'
import { partOf } from '../content-digest.ts'
import type { JsonValue } from '../model.ts'
import { isDeeperThan } from './json.ts'

/** A part of the body: `begin` and `end` are positions in the bytes that come with it. */
interface Part {
  readonly begin: number
  readonly end: number
  /** Canonical JSON of content, and of data for all recipients. */
  readonly canonical?: string
  readonly isTooDeep?: true
}

export interface BodyParts {
  /** The body, without the parts in `data` and `own`. */
  readonly value: unknown
  readonly content?: Part
  readonly data?: Part
  /** The data of single recipients, by their index in the list. */
  readonly own: readonly (readonly [index: number, part: Part])[]
  /** The JSON of all parts. */
  readonly bytes: Uint8Array<ArrayBuffer>
}

/** Data that is nested too deeply, as found by the thread that parsed it. */
const tooDeep = new WeakSet<object>()
export const isKnownTooDeep = (data: JsonObject): boolean => tooDeep.has(data)

type Body = { content?: unknown; data?: unknown; recipient?: unknown; recipients?: unknown }

const isObject = (value: unknown): value is { [key: string]: unknown } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Splits the value into parts; the value itself is changed. */
export function takeApart(value: unknown, levelsMax: number): BodyParts {
  const texts: Buffer[] = []
  let at = 0
  function partOfValue(part: object, withCanonical: boolean): Part {
    // Data that is nested without end cannot be written either.
    if (isDeeperThan(part, levelsMax)) return { begin: at, end: at, isTooDeep: true }
    const text = Buffer.from(JSON.stringify(part))
    texts.push(text)
    const begin = at
    at += text.length
    return { begin, end: at, ...(withCanonical ? { canonical: partOf(part as JsonValue) } : {}) }
  }

  const own: [number, Part][] = []
  const parts: { content?: Part; data?: Part } = {}
  if (isObject(value)) {
    const body: Body = value
    if (isObject(body.data)) {
      parts.data = partOfValue(body.data, true)
      body.data = {}
    }
    const recipients: unknown[] = Array.isArray(body.recipients) ? body.recipients : []
    for (const [index, recipient] of recipients.entries()) {
      if (!isObject(recipient)) continue
      if (isObject(recipient.data)) {
        own.push([index, partOfValue(recipient.data, false)])
        recipient.data = {}
      }
      emptyInside(recipient)
    }
    if (isObject(body.content)) {
      emptyInside(body.content)
      if (isFlat(body.content)) parts.content = partOfValue(body.content, true)
    }
    if (isObject(body.recipient)) emptyInside(body.recipient)
    emptyInside(recipients)
    emptyInside(body, ['content', 'recipient', 'recipients'])
  }
  const bytes = new Uint8Array(at)
  let next = 0
  for (const text of texts) {
    bytes.set(text, next)
    next += text.length
  }
  return { value: Array.isArray(value) ? [] : value, ...parts, own, bytes }
}

/**
 * Empties a list or an object where a single value belongs: the schema refuses it whatever it holds, so it need
 * not be transferred.
 */
function emptyInside(holder: object, except: readonly string[] = []): void {
  const places = holder as Record<string, unknown>
  for (const key of Object.keys(places)) {
    const value = places[key]
    if (typeof value !== 'object' || value === null || except.includes(key)) continue
    if (Array.isArray(value)) places[key] = []
    else if (!Array.isArray(holder)) places[key] = {}
  }
}

/** True for an object of texts, as content is. */
const isFlat = (value: unknown): value is { readonly [key: string]: string } =>
  isObject(value) && Object.values(value).every((each) => typeof each === 'string')

/** Restores the body; the known facts of its parts are attached to the objects in it. */
export function joinParts({ value, content, data, own, bytes }: BodyParts): unknown {
  const encodingOf = ({ begin, end, canonical }: Part): Encoding => ({
    bytes: end - begin,
    json: bytes.subarray(begin, end),
    ...(canonical === undefined ? {} : { canonical }),
  })
  const body = value as { content: object; data: object; recipients: { data: object }[] }
  if (content !== undefined) keepEncoding(body.content, encodingOf(content))
  const standIn = (holder: { data: object }, part: Part): void => {
    keepEncoding(holder.data, { ...encodingOf(part), isStandIn: true })
    if (part.isTooDeep === true) tooDeep.add(holder.data)
  }
  if (data !== undefined) standIn(body, data)
  for (const [index, part] of own) standIn(body.recipients[index]!, part)
  return value
}
