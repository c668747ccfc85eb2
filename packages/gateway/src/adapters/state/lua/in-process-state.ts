/**
 * A server of limiter state inside this process: it runs the scripts of the limits over keys in memory, and answers what a
 * Redis answers. It is used while no gateway has its Redis. All of it is lost with the process, or where it is dropped:
 * a value that is absent is unknown, and filled from the record.
 */
import type { Clock } from '../../../ports.ts'
import { unavailable } from '../redis/redis-answers.ts'
import type { RedisState } from '../redis/redis-state.ts'
import type { Keys } from './redis-commands.ts'
import { runScript } from './script-runner.ts'

export interface InProcessStateOptions {
  /** The number under which this server is registered: values bear it. */
  readonly number: number
  readonly clock: Pick<Clock, 'now'>
  /** The longest time that a question may take elsewhere, ms: callers wait so long for a fill. */
  readonly deadlineMs: number
  /**
   * The number of keys beyond which all of them are dropped, as by FLUSHALL: keys do not end by time here.
   * @defaultValue 200000, some 300 MB
   */
  readonly keysMax?: number
}

const keysMaxDefault = 200_000

export function createInProcessState(options: InProcessStateOptions): RedisState {
  const { number, clock, deadlineMs, keysMax = keysMaxDefault } = options
  const keys: Keys = new Map()
  let isClosed = false
  return {
    deadlineMs,
    async ask(script, { subject, name, others = [] }, args) {
      if (isClosed) throw unavailable('this process', 'it keeps the limits no longer')
      if (keys.size > keysMax) keys.clear()
      const names = [name, ...others].map((each) => `{${subject}}${each}`)
      const before = [String(number), String(clock.now()), '0', '0', '0']
      try {
        return runScript(keys, script, names, [...before, ...args])
      } catch (error) {
        throw unavailable('this process', error)
      }
    },
    expect: () => false,
    close() {
      isClosed = true
      keys.clear()
    },
  }
}
