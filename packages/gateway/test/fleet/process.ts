/**
 * One process of the gateway: its clock and its death. Whatever it awaits crosses a port or a timer, and both come here:
 * after a kill no continuation runs, because answers are dropped and timers are cancelled; while it is paused they pile
 * up, and time goes on.
 */
import { lineAt, type SystemClock } from '../../src/adapters/clock.ts'
import { runIn } from './sim-timers.ts'
import type { World } from './world.ts'

/** The machine on which the processes run, one after the other: its wall clock is stepped, and outlives them. */
export interface Machine {
  /** Lead of the wall clock over true time, ms. */
  wallAheadMs: number
}

export type Death = 'kill' | 'stop'

export class SimProcess {
  readonly number: number
  readonly world: World
  readonly clock: SystemClock
  readonly born: number
  death: Death | undefined
  /** Timers that are armed: neither due nor disarmed. */
  timers = 0
  #pausedUntil: number | undefined
  #piled: (() => void)[] = []
  readonly #mourners = new Set<(how: Death) => void>()

  constructor(number: number, world: World, machine: Machine) {
    this.number = number
    this.world = world
    this.born = world.now()
    this.clock = createProcessClock(this, machine)
  }

  get isAlive(): boolean {
    return this.death === undefined
  }

  /** Runs what has arrived at the process: at once, after its pause, or never. */
  run(callback: () => void): void {
    if (this.death !== undefined) return
    if (this.#pausedUntil === undefined) runIn(this, callback)
    else this.#piled.push(callback)
  }

  /** Stops it for a while, as by SIGSTOP. */
  pause(ms: number): void {
    if (this.death !== undefined || this.#pausedUntil !== undefined) return
    this.#pausedUntil = this.world.now() + ms
    this.world.trace({ kind: 'pause', process: this.number, forMs: ms })
    const until = this.#pausedUntil
    this.world.at(until, () => {
      if (this.#pausedUntil === until) this.wake()
    })
  }

  /** Ends a pause. */
  wake(): void {
    if (this.#pausedUntil === undefined) return
    this.#pausedUntil = undefined
    const piled = this.#piled
    this.#piled = []
    for (const callback of piled) this.world.soon(() => this.run(callback))
  }

  onDeath(mourner: (how: Death) => void): () => void {
    this.#mourners.add(mourner)
    return () => this.#mourners.delete(mourner)
  }

  end(how: Death, why: string): void {
    if (this.death !== undefined) return
    this.death = how
    this.#piled = []
    this.world.trace({ kind: 'death', process: this.number, how, why })
    for (const mourner of [...this.#mourners]) mourner(how)
  }
}

/** Interval at which a process looks at its wall clock, ms: that of the clock of the machine. */
const lookMs = 1_000
const stepMs = 250

/** A clock as adapters/clock.ts makes it, on virtual time: monotonic from its start, with the wall clock beside it. */
function createProcessClock(process: SimProcess, machine: Machine): SystemClock {
  const { world } = process
  const wall = (): number => world.now() + machine.wallAheadMs
  /** The lead of the time line over true time. */
  let lineAheadMs = machine.wallAheadMs
  let aheadMs = 0
  const listeners = new Set<(byMs: number) => void>()
  const now = (): number => world.now() + lineAheadMs

  function look(): number {
    const byMs = wall() - now() - aheadMs
    if (Math.abs(byMs) < stepMs) return aheadMs
    aheadMs += byMs
    for (const listener of listeners) listener(byMs)
    return aheadMs
  }
  function lookAgain(): void {
    world.at(world.now() + lookMs, () =>
      process.run(() => {
        look()
        lookAgain()
      }),
    )
  }
  lookAgain()

  return {
    now,
    monotonic: () => world.now(),
    aheadMs: look,
    line: () => ({ at: now(), aheadMs: look() }),
    continueFrom(line) {
      const wallNow = wall()
      const at = lineAt(wallNow, line)
      lineAheadMs = at - world.now()
      aheadMs = wallNow - at
    },
    // The machine of a run is one for all of its processes.
    follow() {},
    goOn() {},
    readServer: async () => ({ leadMs: 0, errorMs: 0 }),
    onStep(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    at(instant, callback) {
      let isArmed = true
      process.timers += 1
      const end = (): void => {
        if (isArmed) process.timers -= 1
        isArmed = false
      }
      // A timer of Node takes a millisecond at least.
      const cancel = world.at(Math.max(Math.ceil(instant - lineAheadMs), world.now() + 1), () => {
        end()
        process.run(callback)
      })
      return () => {
        end()
        cancel()
      }
    },
    soon: (callback) => world.soon(() => process.run(callback)),
  }
}
