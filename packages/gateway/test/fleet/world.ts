/**
 * The world of one simulated run: virtual time, draws by the seed, and the trace. Everything that outlives a process of
 * the gateway belongs to it. Time is that of an ideal clock, epoch ms; what a process reads is process.ts's business.
 */
import { createHash } from 'node:crypto'
import { Heap } from '../../src/heap.ts'

interface TraceEvent {
  readonly kind: string
  readonly [field: string]: unknown
}

/** A broken invariant, with the instant at which an oracle saw it. */
export interface Violation {
  readonly at: number
  readonly invariant: string
  readonly detail: string
}

export interface World {
  readonly seed: number
  /** The trace shows each call of a port with what it was given and what it answered. */
  readonly isVerbose: boolean
  readonly start: number
  /** Milliseconds since the start. */
  elapsed(): number
  now(): number
  at(instant: number, callback: () => void): () => void
  soon(callback: () => void): void
  /** Calls back in a turn of the event loop, as `setImmediate` does: behind those that were set before. */
  inTurn(callback: () => void): void
  run(untilMs: number): Promise<void>
  /** Lets the run wait for an answer of an engine outside of it: it arrives at the instant of its question. */
  outside<T>(work: Promise<T>): Promise<T>
  /** Uniform in [0, 1): depends on the seed and the key alone, so that one fault less leaves the other draws as they are. */
  draw(key: string): number
  /** Draws a whole number from `least` to `most`. */
  between(key: string, least: number, most: number): number
  /** Picks one of the values. */
  pick<T>(key: string, values: readonly T[]): T
  trace(event: TraceEvent): void
  /** The trace as JSON lines. */
  lines(): readonly string[]
  traceHash(): string
  violate(invariant: string, detail: string): void
  readonly violations: readonly Violation[]
}

/** Events of one run at most: a usual one has some ten thousand. */
const eventsMax = 1_000_000
/** Violations that one run keeps: the first say what is wrong. */
const violationsMax = 20
/** Immediates that are set at once. */
const turnsAtOnce = 64
const realImmediate = setImmediate

export function createWorld(seed: number, start: number, isVerbose: boolean): World {
  const events = new Heap<{ callback: (() => void) | undefined }>()
  let now = start
  let ran = 0
  /** Questions outside of the run that are not answered. */
  let asked = 0
  let onAnswered = (): void => {}
  const lines: string[] = []
  const violations: Violation[] = []
  const draw = (key: string): number => drawOf(seed, key)
  const elapsed = (): number => now - start

  function at(instant: number, callback: () => void): () => void {
    const event: { callback: (() => void) | undefined } = { callback }
    events.push(Math.max(instant, now), event)
    return () => {
      event.callback = undefined
    }
  }

  /** Work for the turns to come, oldest first, one a turn. */
  const turns: (() => void)[] = []
  let turnsSet = 0
  const turn = (): void => {
    turnsSet -= 1
    turns.shift()?.()
    if (turnsSet === 0 && turns.length > 0) setTurns()
  }

  /** Sets many immediates at once: promises continue behind each, and one turn of the event loop serves them all. */
  function setTurns(): void {
    turnsSet = turnsAtOnce
    for (let index = 0; index < turnsAtOnce; index += 1) realImmediate(turn)
  }

  function inTurn(work: () => void): void {
    turns.push(work)
    if (turnsSet === 0) setTurns()
  }

  /** Runs one event after the other; as in Node, whatever a callback resolves continues before the next callback. */
  function run(until: number): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    function next(): void {
      if (asked > 0) {
        onAnswered = () => inTurn(next)
        return
      }
      try {
        if (runNext(until)) resolve()
        else inTurn(next)
      } catch (error) {
        reject(error)
      }
    }
    inTurn(next)
    return promise
  }

  /** Runs the next event up to an instant; answers true where there is none. */
  function runNext(until: number): boolean {
    for (;;) {
      const { leastKey } = events
      if (leastKey === undefined || leastKey > until) {
        now = Math.max(now, until)
        return true
      }
      now = leastKey
      ran += 1
      if (ran === eventsMax) world.violate('program', `it does not come to rest: ${eventsMax} events`)
      if (ran >= eventsMax) return true
      const { callback } = events.pop()!
      if (callback === undefined) continue
      callback()
      return false
    }
  }

  function outside<T>(work: Promise<T>): Promise<T> {
    asked += 1
    const answered = (): void => {
      asked -= 1
      if (asked > 0) return
      onAnswered()
      onAnswered = () => {}
    }
    work.then(answered, answered)
    return work
  }

  const world: World = {
    seed,
    isVerbose,
    start,
    elapsed,
    now: () => now,
    at,
    soon: (callback) => void at(now, callback),
    inTurn,
    run: (untilMs) => run(start + untilMs),
    outside,
    draw,
    between: (key, least, most) => least + Math.floor(draw(key) * (most - least + 1)),
    pick: (key, values) => values[Math.floor(draw(key) * values.length)]!,
    trace: (event) => void lines.push(JSON.stringify({ ms: elapsed(), ...event })),
    lines: () => lines,
    traceHash: () => createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 16),
    violations,
    violate(invariant, detail) {
      world.trace({ kind: 'violation', invariant, detail })
      if (violations.length < violationsMax) violations.push({ at: elapsed(), invariant, detail })
    },
  }
  return world
}

/** FNV-1a over the key, begun from the seed, and the finish of MurmurHash3: 32 bits that depend on every character. */
export function drawOf(seed: number, key: string): number {
  let hash = (0x811c9dc5 ^ Math.imul(seed | 0, 0x9e3779b1)) >>> 0
  for (let index = 0; index < key.length; index += 1)
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193) >>> 0
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32
}
