/** The worker thread that parses large bodies: see body-parser.ts. */
import { hash } from 'node:crypto'
import { constants, getPriority, setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { SluiceError } from '../errors.ts'
import type { Parsed, ToParse } from './body-parser.ts'
import { takeApart } from './body-parts.ts'
import { dataLevelsMax, parseJson } from './json.ts'

// A large body takes no core from the event loop and the store. Only Linux has priorities of single threads; elsewhere
// this call would lower the whole process.
const lowest = constants.priority.PRIORITY_LOW
if (process.platform === 'linux')
  setPriority(Math.min(lowest, getPriority() + constants.priority.PRIORITY_BELOW_NORMAL))

function parse({ bytes, withHash }: ToParse): Parsed {
  try {
    const parts = takeApart(
      parseJson(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)),
      dataLevelsMax,
    )
    return { parts, ...(withHash ? { hash: hash('sha256', bytes, 'base64url') } : {}) }
  } catch (error) {
    if (!(error instanceof SluiceError)) return { fault: { detail: String(error) } }
    const { code, message: detail, errors } = error
    return { fault: { code, detail, ...(errors === undefined ? {} : { errors }) } }
  }
}

parentPort!.on('message', (asked: ToParse) => {
  const parsed = parse(asked)
  try {
    parentPort!.postMessage(parsed, 'parts' in parsed ? [parsed.parts.bytes.buffer] : [])
  } catch (error) {
    // The error cannot be transferred.
    parentPort!.postMessage({ fault: { detail: String(error) } } satisfies Parsed)
  }
})
