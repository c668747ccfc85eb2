/** Randomness of the operating system; identifiers are ULIDs, monotonic within the process. */
import { randomInt } from 'node:crypto'
import { monotonicFactory } from 'ulid'
import type { Random } from '../ports.ts'

const resolution = 2 ** 32

export function createRandom(next: () => number = () => randomInt(resolution) / resolution): Random {
  const ulid = monotonicFactory(next)
  return { next, id: (now) => ulid(now) }
}
