/**
 * Checks the write-ahead log that a crash left behind. SQLite reads it up to the first frame with a wrong checksum
 * and takes the rest for a write that was cut off, which is right at its end, and silently drops commits when a byte
 * has changed in its middle. The two can be told apart: a commit begins only when the one before it is on disk, so
 * behind a write that was cut off there is at most its own last frame.
 *
 * Format: https://sqlite.org/fileformat2.html#the_write_ahead_log
 */
import { closeSync, openSync, readSync } from 'node:fs'

const headerBytes = 32
const frameHeaderBytes = 24

/** True if commits follow a broken frame. Some 5 ms a MiB. */
export function isBrokenInside(path: string): boolean {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch {
    return false
  }
  try {
    return commitsBehindBreak(file) > 1
  } finally {
    closeSync(file)
  }
}

function commitsBehindBreak(file: number): number {
  const header = Buffer.alloc(headerBytes)
  if (readSync(file, header, 0, headerBytes, 0) < headerBytes) return 0
  const pageBytes = header.readUInt32BE(8)
  const isBigEndian = (header.readUInt32BE(0) & 1) === 1
  const salts = header.subarray(16, 24)
  const sum = checksum(header.subarray(0, 24), [0, 0], isBigEndian)
  let broken = !isSum(sum, header, 24)
  const frame = Buffer.alloc(frameHeaderBytes + pageBytes)
  let commits = 0
  for (
    let at = headerBytes;
    readSync(file, frame, 0, frame.length, at) === frame.length;
    at += frame.length
  ) {
    // Frames of an earlier pass through the file have other salts.
    if (!frame.subarray(8, 16).equals(salts)) broken = true
    else if (broken) commits += frame.readUInt32BE(4) === 0 ? 0 : 1
    else {
      checksum(frame.subarray(0, 8), sum, isBigEndian)
      checksum(frame.subarray(frameHeaderBytes), sum, isBigEndian)
      broken = !isSum(sum, frame, 16)
      if (broken && frame.readUInt32BE(4) !== 0) commits += 1
    }
  }
  return commits
}

/** Continues the checksum over more bytes, in place. */
function checksum(bytes: Buffer, sum: [number, number], isBigEndian: boolean): [number, number] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let [first, second] = sum
  for (let at = 0; at < bytes.length; at += 8) {
    first = (first + view.getUint32(at, !isBigEndian) + second) >>> 0
    second = (second + view.getUint32(at + 4, !isBigEndian) + first) >>> 0
  }
  sum[0] = first
  sum[1] = second
  return sum
}

function isSum(sum: readonly [number, number], bytes: Buffer, at: number): boolean {
  return bytes.readUInt32BE(at) === sum[0] && bytes.readUInt32BE(at + 4) === sum[1]
}
