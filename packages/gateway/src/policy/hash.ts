/**
 * FNV-1a, the shortest hash that is the same in every process, version and language: each byte is mixed in by
 * an exclusive or and a multiplication. It names and spreads things; it protects nothing, since the author of a
 * text can choose its hash too. Source: https://datatracker.ietf.org/doc/draft-eastlake-fnv/
 */

const utf8 = new TextEncoder()

/**
 * Returns the 64-bit FNV-1a of the UTF-8 bytes of a text, as 16 hexadecimal digits. Computed in four limbs of
 * 16 bits, least first: a product of two limbs and its carry stay far below 2^53, where numbers are exact.
 */
export function fnv64(text: string): string {
  // the offset basis cbf29ce484222325
  let [a, b, c, d] = [0x2325, 0x8422, 0x9ce4, 0xcbf2]
  for (const byte of utf8.encode(text)) {
    a ^= byte
    // times the prime 0x100_0000_01b3: 0x1b3 in the lowest limb and 0x100 in the third
    const a0 = a * 0x1b3
    const b0 = b * 0x1b3 + (a0 >>> 16)
    const c0 = c * 0x1b3 + a * 0x100 + (b0 >>> 16)
    const d0 = d * 0x1b3 + b * 0x100 + (c0 >>> 16)
    a = a0 & 0xffff
    b = b0 & 0xffff
    c = c0 & 0xffff
    d = d0 & 0xffff
  }
  return [d, c, b, a].map((limb) => limb.toString(16).padStart(4, '0')).join('')
}

/**
 * Returns a uniform 32-bit number for a text: FNV-1a over its UTF-16 code units, then the finaliser of
 * MurmurHash3. Without that last step the last character would hardly reach the high bits, and consecutive ids
 * would stand together.
 */
export function uniform32(text: string): number {
  return finished(mixed(text))
}

function mixed(text: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), prime)
  }
  return hash
}

const prime = 0x01000193

function finished(mixed: number): number {
  let hash = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return (hash ^ (hash >>> 16)) >>> 0
}

/**
 * Extends a text by a suffix of at least one character so that its uniform number is accepted: 10 ns a try. The text is
 * returned as it is where none of some 2 million suffixes is.
 */
export function extended(text: string, accepts: (uniform: number) => boolean): string {
  const hash = mixed(text)
  for (let suffix = 0; suffix < suffixesMax; suffix += 1) {
    let own = hash
    for (let rest = suffix; ; rest = Math.floor(rest / 32)) {
      own = Math.imul(own ^ suffixCode(rest), prime)
      if (rest < 32) break
    }
    if (!accepts(finished(own))) continue
    let written = text
    for (let rest = suffix; ; rest = Math.floor(rest / 32)) {
      written += String.fromCharCode(suffixCode(rest))
      if (rest < 32) return written
    }
  }
  return text
}

const suffixesMax = 2 ** 21
/** A letter from `A` to `Z`, or one of the five signs behind them and the one before. */
const suffixCode = (rest: number): number => 64 + (rest % 32)

/**
 * Shortens a text that is too long: it keeps its beginning and ends in its length and two hashes of it. `#`
 * marks a shortened text, so texts from outside must not hold one.
 */
export function flush(text: string, lengthMax: number): string {
  if (text.length <= lengthMax) return text
  const end = `#${text.length}#${fnv64(text)}${fnv64(`${text.length}${text}`)}`
  return text.slice(0, lengthMax - end.length) + end
}
