/** Reads the part of msgpack that cmsgpack writes for whole numbers and lists of them. */

/** Reads one value after the other; each is a number or a list. */
export function msgpackReader(bytes: Uint8Array): { number(): number; numbers(): number[] } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = 0

  function unreadable(): never {
    throw new RangeError(`byte ${at - 1} of the answer is ${bytes[at - 1]}: no whole number and no list`)
  }

  function uint(length: 1 | 2 | 4): number {
    at += length
    if (length === 1) return view.getUint8(at - 1)
    return length === 2 ? view.getUint16(at - 2) : view.getUint32(at - 4)
  }

  function number(): number {
    const head = uint(1)
    if (head < 0x80) return head
    if (head === 0xcc) return uint(1)
    if (head === 0xcd) return uint(2)
    if (head === 0xce) return uint(4)
    if (head !== 0xcf) return unreadable()
    return uint(4) * 4_294_967_296 + uint(4)
  }

  function numbers(): number[] {
    const head = uint(1)
    // An empty table of Lua may be written as a map.
    const length = head >> 4 === 9 || head === 0x80 ? head & 0x0f : head === 0xdc ? uint(2) : unreadable()
    return Array.from({ length }, number)
  }

  return { number, numbers }
}
