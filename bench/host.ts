/** A process that serves one contestant and tells what it cost: `host.ts <contestant> [<options as JSON>]`. */
import { readdirSync, readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { answer } from './process.ts'

/** What a contestant is. A module of contestants/ exports `open`. */
export interface Contestant {
  readonly port: number
  close(): Promise<void>
  /** More that it can be asked. */
  readonly questions?: Readonly<Record<string, (given: never) => unknown>>
}

export interface Opening {
  /** To be called when message number `n` is delivered and that is on record. */
  readonly settled: (n: number) => void
}

export interface Cost {
  readonly cpuMicros: number
  readonly rssBytes: number
  /** Of the event loop since it was asked before, ms. */
  readonly delayP99Ms: number
  readonly settled: number
}

export interface Settled {
  readonly numbers: Int32Array
  /** ms on the machine's monotonic clock. */
  readonly at: Float64Array
  readonly twice: number
}

export interface Threads {
  /** CPU since the start, µs. */
  readonly main: number
  /** The same of each of the others. */
  readonly others: Readonly<Record<string, number>>
}

const [, , name, given] = process.argv
const settled = new Map<number, number>()
let twice = 0
const opening: Opening = {
  settled(n) {
    if (settled.has(n)) twice += 1
    settled.set(n, Number(process.hrtime.bigint()) / 1e6)
  },
}
const { open } = await import(`./contestants/${name}`)
const contestant: Contestant = await open({ ...JSON.parse(given ?? '{}'), ...opening })
const delay = monitorEventLoopDelay({ resolution: 1 })
delay.enable()

/** As Linux counts it. */
function threads(): Threads {
  const micros = (task: string): number =>
    Number(readFileSync(`/proc/self/task/${task}/schedstat`, 'utf8').split(' ', 1)[0]) / 1e3
  const others = readdirSync('/proc/self/task').filter((task) => task !== String(process.pid))
  return {
    main: micros(String(process.pid)),
    others: Object.fromEntries(others.map((task) => [task, micros(task)])),
  }
}

answer(
  {
    threads,
    port: () => contestant.port,
    cost(): Cost {
      const { user, system } = process.cpuUsage()
      const delayP99Ms = delay.percentile(99) / 1e6
      delay.reset()
      const rssBytes = process.memoryUsage.rss()
      return { cpuMicros: user + system, rssBytes, delayP99Ms, settled: settled.size }
    },
    take(): Settled {
      const taken = {
        numbers: Int32Array.from(settled.keys()),
        at: Float64Array.from(settled.values()),
        twice,
      }
      settled.clear()
      twice = 0
      return taken
    },
    ...contestant.questions,
  },
  () => contestant.close(),
)
