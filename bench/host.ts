/** A process that serves one contestant and tells what it cost: `host.ts <contestant> [<options as JSON>]`. */
import { readdirSync, readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { getHeapSpaceStatistics, getHeapStatistics, type HeapInfo } from 'node:v8'
import type { Worker } from 'node:worker_threads'
import { giveBackMemory } from '../packages/gateway/src/cli/start-memory.ts'
import { answer } from './process.ts'

/** The interface of a contestant. A module of contestants/ exports `open`. */
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

export interface HeapSize {
  readonly residentBytes: number
  readonly usedBytes: number
}

/** The parts of what is resident (memory.ts). */
export interface Composition {
  readonly rssBytes: number
  /** Since the start. */
  readonly rssMostBytes: number
  readonly fileBytes: number
  readonly main: HeapSize
  /** The size of the main heap. */
  readonly youngBytes: number
  readonly threads: readonly HeapSize[]
  readonly externalBytes: number
}

const [, , name, given] = process.argv
const settled = new Map<number, number>()
let twice = 0
const workers = new Set<Worker>()
process.on('worker', (worker) => {
  workers.add(worker)
  worker.on('exit', () => workers.delete(worker))
})
const opening: Opening = {
  settled(n) {
    if (settled.has(n)) twice += 1
    settled.set(n, Number(process.hrtime.bigint()) / 1e6)
  },
}
const { open } = await import(`./contestants/${name}`)
const contestant: Contestant = await open({ ...JSON.parse(given ?? '{}'), ...opening })
/** Measures from the first question for it on: its thousand wakes a second take 5 % of a core, also of a host that rests. */
const delay = monitorEventLoopDelay({ resolution: 1 })

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

const heapSize = ({ total_physical_size, used_heap_size }: HeapInfo): HeapSize => ({
  residentBytes: total_physical_size,
  usedBytes: used_heap_size,
})

async function heapsOf(those: Iterable<Worker>): Promise<readonly HeapSize[]> {
  const asked = await Promise.allSettled([...those].map((worker) => worker.getHeapStatistics()))
  // One that does not run, or not any more, has none.
  return asked.flatMap((each) => (each.status === 'fulfilled' ? [heapSize(each.value)] : []))
}

async function composition(): Promise<Composition> {
  const status = readFileSync('/proc/self/status', 'utf8')
  const ofStatus = (line: string): number => Number(new RegExp(`${line}:\\s+(\\d+)`).exec(status)![1]) * 1_024
  const young = getHeapSpaceStatistics().filter(({ space_name }) => space_name.startsWith('new_'))
  return {
    rssBytes: ofStatus('VmRSS'),
    rssMostBytes: ofStatus('VmHWM'),
    fileBytes: ofStatus('RssFile') + ofStatus('RssShmem'),
    main: heapSize(getHeapStatistics()),
    youngBytes: young.reduce((sum, { physical_space_size }) => sum + physical_space_size, 0),
    threads: await heapsOf(workers),
    externalBytes: process.memoryUsage().external,
  }
}

answer(
  {
    threads,
    composition,
    collect: giveBackMemory,
    port: () => contestant.port,
    cost(): Cost {
      const { user, system } = process.cpuUsage()
      return { cpuMicros: user + system, rssBytes: process.memoryUsage.rss(), settled: settled.size }
    },
    /** The delay of the event loop since the question before, ms. */
    delayP99Ms(): number {
      const delayP99Ms = delay.percentile(99) / 1e6
      delay.reset()
      delay.enable()
      return delayP99Ms
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
