/**
 * The remaining work of a job, read beside the writer. It may be megabytes of the recipients' own data: then that is
 * transferred as JSON, with empty objects as stand-ins (content.ts), and the event loop parses it a step at a time.
 */
import type { DatabaseSync } from 'node:sqlite'
import { keepEncoding } from '../../content.ts'
import type { Job } from '../../model.ts'
import type { JobWork } from '../../ports.ts'
import { checksum } from './codec/checksum.ts'

/** The size above which a work is taken apart; a smaller one takes less than a millisecond. */
const largeLength = 2 ** 16

export interface WorkText {
  /** JSON, with empty objects in place of the data in `own`. */
  readonly text: string
  /** The position of each recipient's data in `bytes`, by the recipient's position in the list. */
  readonly own: readonly (readonly [index: number, begin: number, end: number])[]
  readonly bytes: Uint8Array
}

const nothing = new Uint8Array()

/** Prepares the query, for the reader's connection. */
export function prepareJobWork(db: DatabaseSync) {
  const select = db.prepare(
    'SELECT w.body, w.sum FROM job_work w JOIN jobs j USING (id) WHERE w.id = ? AND j.tenant = ?',
  )
  return {
    jobWork({ tenant, id }: Pick<Job, 'tenant' | 'id'>): WorkText | undefined {
      const row = select.get(id, tenant)
      if (row === undefined) return undefined
      const text = row.body as string
      checksum(text, row.sum, `the work of job ${id}`)
      return text.length > largeLength
        ? apart(JSON.parse(text) as JobWork)
        : { text, own: [], bytes: nothing }
    },
  }
}

function apart({ message, recipients }: JobWork): WorkText {
  const own: [number, number, number][] = []
  const texts: Buffer[] = []
  let at = 0
  const short = recipients.map((recipient, index) => {
    if (recipient.data === undefined) return recipient
    const text = Buffer.from(JSON.stringify(recipient.data))
    texts.push(text)
    own.push([index, at, at + text.length])
    at += text.length
    return { ...recipient, data: {} }
  })
  return { text: JSON.stringify({ message, recipients: short }), own, bytes: Buffer.concat(texts) }
}

/** Decodes the work; data that was transferred as JSON is read by `dataOf`. */
export function readWork({ text, own, bytes }: WorkText): JobWork {
  const work = JSON.parse(text) as JobWork
  for (const [index, begin, end] of own) {
    const json = bytes.subarray(begin, end)
    keepEncoding(work.recipients[index]!.data!, { bytes: json.length, json, isStandIn: true })
  }
  return work
}
