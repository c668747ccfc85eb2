/**
 * A DNS resolver for connections to addresses that came with a request. It checks a name's addresses at the moment of
 * connecting, so a name that changes after an earlier check (DNS rebinding) gains nothing. A name with one private
 * address is refused as a whole, and in the same words as a name that does not exist: the sender of the address must
 * not learn which names the operator's own network knows.
 */
import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'
import { isPublicAddress } from './public-address.ts'

export class PrivateAddressError extends Error {
  constructor(host: string) {
    super(`${host} does not lead to the public internet`)
    this.name = 'PrivateAddressError'
  }
}

/**
 * Error codes of a name without addresses (https://nodejs.org/api/dns.html#error-codes). A resolver that fails
 * answers another code.
 */
const unknownName: ReadonlySet<string | undefined> = new Set(['ENOTFOUND', 'ENODATA', 'ENONAME'])

/** Throws PrivateAddressError for a literal private address, which is connected to without any look-up. */
export function refusePrivateLiteral(hostname: string): void {
  const host = hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !isPublicAddress(host)) throw new PrivateAddressError(host)
}

/** A lookup for `net.connect` and `http.request`; `resolve` is the system's own unless a test brings another. */
export function createGuardedLookup(resolve: typeof lookup = lookup): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        return callback(unknownName.has(error.code) ? new PrivateAddressError(hostname) : error, [])
      }
      if (addresses.length === 0 || addresses.some(({ address }) => !isPublicAddress(address))) {
        return callback(new PrivateAddressError(hostname), [])
      }
      const first = addresses[0]!
      if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
}
