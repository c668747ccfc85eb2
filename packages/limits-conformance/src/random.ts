/**
 * Chance that can be repeated: the same seed gives the same run. A random test prints its seed, and takes another
 * one back through the environment variable SLUICE_SEED.
 */
import process from 'node:process'

export interface Random {
  /** A whole number in [0, below). */
  below(below: number): number
  /** A whole number in [from, to]. */
  between(from: number, to: number): number
  pick<T>(items: readonly T[]): T
  /** True once in `odds` times. */
  once(odds: number): boolean
}

const seedDefault = 20_261_121

export function seedOfRun(): number {
  const given = process.env.SLUICE_SEED
  return given === undefined || given === '' ? seedDefault : Number(given) >>> 0
}

/** Mulberry32. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
  const below = (end: number): number => Math.floor(next() * end)
  return {
    below,
    between: (from, to) => from + below(to - from + 1),
    pick: (items) => items[below(items.length)]!,
    once: (odds) => below(odds) === 0,
  }
}
