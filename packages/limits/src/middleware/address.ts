/**
 * Whom an address stands for. An IPv4 address is one client; of IPv6 a client is given a whole prefix, usually a /64,
 * and may change the rest with every request, so the prefix is what is counted. Pure.
 */

/** @param prefixBits how much of an IPv6 address tells clients apart, 1 to 128 */
export function clientOf(address: string, prefixBits: number): string {
  const bare = withoutPort(address.trim()).replace(/%.*$/, '')
  if (ipv4.test(bare)) return bare
  const groups = groupsOf(bare.toLowerCase())
  if (groups === undefined) return address.trim().slice(0, unreadableMax)
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (mapped) return groups.slice(6).flatMap(bytesOf).join('.')
  const kept = groups.map((group, index) => group & maskOf(prefixBits - 16 * index))
  return `${kept.map((group) => group.toString(16)).join(':')}/${prefixBits}`
}

/** A text that is no address comes from a header that a proxy passed on unread; it is counted as it is, within bounds. */
const unreadableMax = 64

const ipv4 = /^\d{1,3}(\.\d{1,3}){3}$/

/** Some proxies write `203.0.113.7:51234` and `[2001:db8::1]:443` into X-Forwarded-For. */
function withoutPort(address: string): string {
  const match = /^\[([^\]]*)\](?::\d+)?$|^(\d+\.\d+\.\d+\.\d+):\d+$/.exec(address)
  return match?.[1] ?? match?.[2] ?? address
}

/** The eight groups of an IPv6 address; undefined for what is none. */
function groupsOf(address: string): readonly number[] | undefined {
  const halves = address.split('::')
  if (halves.length > 2) return undefined
  const [head = [], tail = []] = halves.map((half) => (half === '' ? [] : half.split(':').flatMap(partOf)))
  const missing = 8 - head.length - tail.length
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined
  const groups = [...head, ...new Array<number>(missing).fill(0), ...tail]
  return groups.every((group) => group >= 0) ? groups : undefined
}

/** One group, or the two of an IPv4 address at the end; -1 for what is neither. */
function partOf(part: string): readonly number[] {
  if (/^[0-9a-f]{1,4}$/.test(part)) return [Number.parseInt(part, 16)]
  if (!ipv4.test(part)) return [-1]
  const [a, b, c, d] = part.split('.').map(Number) as [number, number, number, number]
  return [a * 256 + b, c * 256 + d]
}

const bytesOf = (group: number): readonly number[] => [group >> 8, group & 0xff]

/** Keeps the first `bits` of 16 bits. */
const maskOf = (bits: number): number =>
  bits <= 0 ? 0 : bits >= 16 ? 0xffff : (0xffff << (16 - bits)) & 0xffff
