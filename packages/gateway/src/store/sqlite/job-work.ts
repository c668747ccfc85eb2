/**
 * The remaining work of a job, as it is stored. A small one is JSON. One of megabytes, nearly all of which are the
 * recipients' own data, is stored in the form in which it is read: a JSON of everything else, with empty objects as
 * stand-ins for that data, then the data themselves as JSON one after the other. So the thread that reads it hands on
 * bytes without parsing them, and the event loop parses them a step at a time (content.ts).
 */
import type { DatabaseSync } from 'node:sqlite'
import { jsonOf, keepEncoding } from '../../content.ts'
import type { Job } from '../../model.ts'
import type { JobWork } from '../../ports.ts'
import { inOrder, readValue, valueColumns, valueJoin } from './tables/parts.ts'

/** The size above which a work is read with stand-ins; a smaller one takes less than a millisecond. */
const largeLength = 2 ** 16
/** Bytes of the length of the JSON that the data follow. */
const lengthBytes = 4

/** Work on its way from the reader's thread. */
export interface WorkText {
  /** JSON, with empty objects in place of the data in `bytes`. */
  readonly text: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

interface ShortWork extends JobWork {
  /** The position of each recipient's data, by the recipient's position in the list. */
  readonly own?: readonly (readonly [index: number, begin: number, end: number])[]
}

const nothing = new Uint8Array()

/** The work as one JSON text, in pieces; the data of recipients may be encoded already. */
export function piecesOfWork({ message, recipients }: JobWork): readonly (string | Uint8Array)[] {
  const pieces: (string | Uint8Array)[] = [`{"message":${JSON.stringify(message)},"recipients":[`]
  for (const [index, { data, ...to }] of recipients.entries()) {
    const text = `${index === 0 ? '' : ','}${JSON.stringify(to)}`
    if (data === undefined) pieces.push(text)
    else pieces.push(`${text.slice(0, -1)},"data":`, jsonOf(data), '}')
  }
  pieces.push(']}')
  return pieces
}

/** The work as a JSON with stand-ins, and the data behind it. */
export function apart({ message, recipients }: JobWork): readonly Uint8Array[] {
  const own: [number, number, number][] = []
  const texts: Uint8Array[] = []
  let at = 0
  const short = recipients.map((recipient, index) => {
    if (recipient.data === undefined) return recipient
    const json = jsonOf(recipient.data)
    const text = typeof json === 'string' ? Buffer.from(json) : json
    texts.push(text)
    own.push([index, at, at + text.length])
    at += text.length
    return { ...recipient, data: {} }
  })
  const text = Buffer.from(JSON.stringify({ message, recipients: short, own } satisfies ShortWork))
  const length = Buffer.alloc(lengthBytes)
  length.writeUInt32LE(text.length)
  return [length, text, ...texts]
}

type Value = { readonly text: string } | { readonly bytes: Buffer }

/** Splits a value of `apart`. */
function textOf(value: Buffer): WorkText {
  const end = lengthBytes + value.readUInt32LE()
  // A copy of its own, so that it can be transferred.
  return { text: value.toString('utf8', lengthBytes, end), bytes: new Uint8Array(value.subarray(end)) }
}

/** Prepares the query, for the reader's connection. */
export function prepareJobWork(db: DatabaseSync) {
  const select =
    db.prepare(`SELECT ${valueColumns('w')} FROM job_work w JOIN jobs j USING (id) ${valueJoin('w')}
    WHERE w.id = ? AND j.tenant = ? ${inOrder}`)
  return {
    jobWork({ tenant, id }: Pick<Job, 'tenant' | 'id'>): WorkText | undefined {
      const rows = select.all(id, tenant)
      if (rows.length === 0) return undefined
      const value = readValue(rows, `the work of job ${id}`)
      if ('bytes' in value) return textOf(value.bytes)
      return value.text.length > largeLength
        ? textOf(Buffer.concat(apart(JSON.parse(value.text) as JobWork)))
        : { text: value.text, bytes: nothing }
    },
  }
}

/** Decodes the work; data that was transferred as JSON is read by `dataOf`. */
export function readWork({ text, bytes }: WorkText): JobWork {
  const { own = [], ...work } = JSON.parse(text) as ShortWork
  for (const [index, begin, end] of own) {
    const json = bytes.subarray(begin, end)
    keepEncoding(work.recipients[index]!.data!, { bytes: json.length, json, isStandIn: true })
  }
  return work
}

/** Renames a recipient and removes its other fields; undefined where the recipient is not in the work. */
export function renamedWork(value: Value, recipient: string, renamed: string): Value | undefined {
  const work = readWork('text' in value ? { ...value, bytes: nothing } : textOf(value.bytes))
  if (!work.recipients.some(({ id }) => id === recipient)) return undefined
  const recipients = work.recipients.map((each) => (each.id === recipient ? { id: renamed } : each))
  const after = { ...work, recipients }
  return 'text' in value ? { text: JSON.stringify(after) } : { bytes: Buffer.concat(apart(after)) }
}
