/** The slot of a key in a Redis Cluster: the CRC16 of what stands between its first braces, modulo 16,384. */
export const slotsMax = 16_384
/** CRC-16/XMODEM, as the specification of Redis Cluster names it. */
const polynomial = 0x1021

export function slotOf(key: string): number {
  const from = key.indexOf('{')
  const to = key.indexOf('}', from + 1)
  let crc = 0
  for (const byte of Buffer.from(from >= 0 && to > from + 1 ? key.slice(from + 1, to) : key)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit += 1) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ polynomial
    crc &= 0xffff
  }
  return crc % slotsMax
}
