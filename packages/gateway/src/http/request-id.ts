/**
 * Names each request, so that an answer, a problem and the lines of the log can be matched. The caller's
 * `X-Request-Id` is kept where it is 1 to 128 printable ASCII characters; else the request gets a ULID.
 */
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const printable = /^[\x20-\x7e]{1,128}$/
const digits = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'
const counterDigits = 6

/** Writes a number in Crockford's base 32. */
function base32(value: number, length: number): string {
  let text = ''
  let rest = value
  for (let index = 0; index < length; index += 1) {
    text = digits[rest % 32]! + text
    rest = Math.floor(rest / 32)
  }
  return text
}

/**
 * Creates ULIDs of which ten characters are random once for the process and six are a counter: unique as others are,
 * and 0.1 µs each, where sixteen random characters a request measured 2 µs.
 */
function createRequestIds(): () => string {
  const process = Array.from(randomBytes(10), (byte) => digits[byte % 32]!).join('')
  let count = randomBytes(4).readUInt32BE()
  let timeMs = 0
  let time = ''
  return () => {
    const nowMs = Date.now()
    if (nowMs !== timeMs) {
      timeMs = nowMs
      time = base32(nowMs, 10)
    }
    count = (count + 1) % 32 ** counterDigits
    return time + process + base32(count, counterDigits)
  }
}

const nextId = createRequestIds()

/** The id of a request: its caller's, or a new one. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const own = headers['x-request-id']
  return typeof own === 'string' && printable.test(own) ? own : nextId()
}

/** A new id, for input that is no request yet. */
export const newRequestId = nextId
