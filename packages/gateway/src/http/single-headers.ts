/**
 * Refuses repeated headers that must be single: token, tenant, key and host. Of two of them Node keeps one or
 * joins both, and a proxy before the gateway may have read the other.
 */
import { SluiceError } from '../errors.ts'
import { invalidRequest } from './validation.ts'

/** The names as in the contract, by their lower-case names. */
const single: ReadonlyMap<string, string> = new Map(
  ['Host', 'X-Tenant-Id', 'X-Module-Id', 'Idempotency-Key', 'Authorization'].map((name) => [
    name.toLowerCase(),
    name,
  ]),
)
const lengths: ReadonlySet<number> = new Set([...single.keys()].map((name) => name.length))

/**
 * Checks `rawHeaders`, in which names and values alternate as in Node.
 *
 * @throws SluiceError INVALID_REQUEST
 */
export function refuseRepeated(rawHeaders: readonly string[]): void {
  let seen: string[] | undefined
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const raw = rawHeaders[at]!
    // Nearly all other names differ in length already.
    if (!lengths.has(raw.length)) continue
    const name = raw.toLowerCase()
    if (!single.has(name)) continue
    if (seen?.includes(name))
      throw invalidRequest([{ path: `/${single.get(name)}`, message: 'must be given once' }])
    seen ??= []
    seen.push(name)
  }
}

/** @throws SluiceError UNSUPPORTED_MEDIA_TYPE for a body that is compressed, or encoded in another way. */
export function refuseEncoded(encoding: string | undefined): void {
  if (encoding === undefined || /^\s*(?:identity)?\s*$/i.test(encoding)) return
  throw new SluiceError(
    'UNSUPPORTED_MEDIA_TYPE',
    'Send the body as it is: no Content-Encoding is understood here.',
  )
}
