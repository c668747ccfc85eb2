/** Keeps connections to addresses that came with a request away from the operator's own network. */
import { lookup } from 'node:dns'
import { isIP, type LookupFunction } from 'node:net'

// ---- the resolver
//
// A DNS resolver for connections to addresses that came with a request. It checks a name's addresses at the moment of
// connecting, so a name that changes after an earlier check (DNS rebinding) gains nothing. A name with one private
// address is refused as a whole, and in the same words as a name that does not exist: the sender of the address must
// not learn which names the operator's own network knows.

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

// ---- public addresses
//
// Decides which IP addresses a request from outside may lead to: those that the whole internet can reach. An address
// that is not known to be public is refused. Addresses that carry an IPv4 address inside (mapped, NAT64, 6to4) are
// judged by that one. Source: the special-purpose registries of IANA for IPv4 and IPv6 (RFC 6890 and its updates).
// Pure.

/** First address and prefix length of each refused block. */
const reservedV4: readonly (readonly [address: number, bits: number])[] = [
  ['0.0.0.0', 8], // this network
  ['10.0.0.0', 8], // private (RFC 1918)
  ['100.64.0.0', 10], // carrier-grade NAT (RFC 6598)
  ['127.0.0.0', 8], // loopback
  ['169.254.0.0', 16], // link-local; also the clouds' metadata services
  ['172.16.0.0', 12], // private
  ['192.0.0.0', 24], // protocol assignments
  ['192.0.2.0', 24], // documentation
  ['192.88.99.0', 24], // 6to4 relays, deprecated
  ['192.168.0.0', 16], // private
  ['198.18.0.0', 15], // benchmarks
  ['198.51.100.0', 24], // documentation
  ['203.0.113.0', 24], // documentation
  ['224.0.0.0', 4], // multicast
  ['240.0.0.0', 4], // reserved, and broadcast
].map(([text, bits]) => [parseV4(text as string)!, bits as number])

/** Refused blocks inside 2000::/3, the only block of IPv6 that is allocated; all else is refused anyway. */
const reservedV6: readonly (readonly [prefix: bigint, bits: number])[] = [
  ['2001::', 23], // protocol assignments, Teredo, ORCHID
  ['2001:db8::', 32], // documentation
  ['3fff::', 20], // documentation
].map(([text, bits]) => [parseV6(text as string)!, bits as number])

/** True when the whole internet can reach the address. False for a text that is not an IP address. */
export function isPublicAddress(address: string): boolean {
  const v4 = parseV4(address)
  if (v4 !== undefined) return isPublicV4(v4)
  const v6 = parseV6(address)
  return v6 !== undefined && isPublicV6(v6)
}

function isPublicV4(address: number): boolean {
  return !reservedV4.some(([first, bits]) => address >>> (32 - bits) === first >>> (32 - bits))
}

function isPublicV6(address: bigint): boolean {
  const low = Number(address & 0xffff_ffffn)
  if (address >> 32n === 0xffffn) return isPublicV4(low) // ::ffff:0:0/96, mapped
  if (address >> 32n === 0x0064_ff9b_0000_0000_0000_0000n) return isPublicV4(low) // 64:ff9b::/96, NAT64
  if (address >> 112n === 0x2002n) return isPublicV4(Number((address >> 80n) & 0xffff_ffffn)) // 6to4
  if (address >> 125n !== 0b001n) return false
  return !reservedV6.some(([first, bits]) => address >> BigInt(128 - bits) === first >> BigInt(128 - bits))
}

/** Parses four decimal numbers, and nothing else: 127.1, 0x7f.1 and 0177.0.0.1 are not addresses here. */
function parseV4(text: string): number | undefined {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)
  if (match === null) return undefined
  let address = 0
  for (const part of match.slice(1)) {
    if (Number(part) > 255 || (part.length > 1 && part.startsWith('0'))) return undefined
    address = address * 256 + Number(part)
  }
  return address
}

/**
 * Parses RFC 4291, with one `::` and an IPv4 tail; a zone (`%eth0`) makes it no public address, so it is not parsed.
 */
function parseV6(text: string): bigint | undefined {
  let groups = text
  const tail = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text)
  if (tail !== null) {
    const v4 = parseV4(tail[2]!)
    if (v4 === undefined) return undefined
    groups = `${tail[1]}${(v4 >>> 16).toString(16)}:${(v4 & 0xffff).toString(16)}`
  }
  const halves = groups.split('::')
  if (halves.length > 2) return undefined
  const [head, rest] = halves.map((half) => (half === '' ? [] : half.split(':')))
  const missing = 8 - head!.length - (rest?.length ?? 0)
  if (rest === undefined ? missing !== 0 : missing < 1) return undefined
  const all = [...head!, ...Array<string>(rest === undefined ? 0 : missing).fill('0'), ...(rest ?? [])]
  let address = 0n
  for (const group of all) {
    if (!/^[0-9a-f]{1,4}$/i.test(group)) return undefined
    address = (address << 16n) | BigInt(Number.parseInt(group, 16))
  }
  return address
}
