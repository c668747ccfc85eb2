/**
 * Reduces the memory that the process keeps beyond what is in use.
 *
 * `collectEarlier` limits the growth of the heap between two collections. V8 lets the heap grow to several
 * times of what lives in it before it collects all of it, and keeps the pages: the more lives in it, the more.
 *
 * `giveBackMemory` gives back the memory that only the start needed, or a time of much work. While a process loads, V8
 * sees that nearly everything stays, makes its young generation as large as it may be, and keeps it as long as little
 * happens: 27 of the 145 MB of an idle gateway. One collection that gives back all it can costs some 100 ms, in which
 * nobody is answered: it waits until the process rests, also after the start. It costs more than that where the process
 * has worked: the shapes of objects that nothing uses at that moment go, and with them the code that V8 has compiled for
 * them, so that a message takes 1.4 times the CPU for the next 10,000 (bench/bounds.md). So garbage that is no burden stays
 * through short rests.
 */
import { totalmem } from 'node:os'
import { constants, PerformanceObserver, performance } from 'node:perf_hooks'
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

type Collect = (how: { type: 'major'; flavor: 'last-resort'; execution: 'sync' }) => void

/** The growth between two collections where much lives, and where little lives, percent. */
const growthMinPercent = 30
const growthMaxPercent = 250
/** The heap with its garbage takes at most this less 1.8 times of what lives, where little lives, MiB. */
const budgetMaxMib = 400

/**
 * The growth of the heap that V8 allows before it collects all of it, percent. A collection takes both of two cores 140 ms,
 * in which everybody waits: at 30 %, one each 1.3 s at 2,600 messages a second, the 99th percentile was 42 to 106 ms, with
 * this growth 10 to 13 ms (bench/bounds.md). The more lives, because many wait, the less is garbage.
 *
 * @param memoryMib the memory of the machine, or of the container that limits this process
 */
export function growthPercent(liveMib: number, memoryMib: number): number {
  const budgetMib = Math.min(budgetMaxMib, memoryMib / 8)
  const percent = Math.trunc((budgetMib / liveMib - 2.8) * 100)
  return Math.min(growthMaxPercent, Math.max(growthMinPercent, percent))
}

/** A process rests while its event loop is in use for less than this share of the time between two looks. */
const restShare = 0.05

/** A process that has worked gives its garbage back after a rest of this length, however little it is. */
const restMaxMs = 10 * 60_000
/** It does so after a shorter one where it keeps more than this, MiB, or more than half of the memory that it may use. */
const keptMaxMib = 400
const shortRestMs = 60_000

/**
 * Tells if a process that has worked, and rests, gives its garbage back now.
 *
 * @param restMs the length of the rest
 * @param residentMib the memory that the process keeps
 * @param memoryMib the memory of the machine, or of the container that limits this process
 */
export function isToGiveBack(restMs: number, residentMib: number, memoryMib: number): boolean {
  const isMuch = residentMib > Math.min(keptMaxMib, memoryMib / 2)
  return restMs >= (isMuch ? shortRestMs : restMaxMs)
}

/**
 * Lets the heap grow, and gives its garbage back once when the process rests: after the start at once, after work as
 * `isToGiveBack` says.
 *
 * @param everyMs time between two looks whether the process rests
 * @returns stops the looks
 */
export function collectEarlier(everyMs = 10_000): () => void {
  allowGrowth()
  const collections = new PerformanceObserver((entries) => {
    if (entries.getEntries().some(isMajor)) allowGrowth()
  })
  collections.observe({ entryTypes: ['gc'] })
  let before = performance.eventLoopUtilization()
  let garbage: 'none' | 'start' | 'work' = 'start'
  let looked = 0
  let restMs = 0
  const looks = setInterval(() => {
    const { utilization } = performance.eventLoopUtilization(before)
    before = performance.eventLoopUtilization()
    looked += 1
    if (utilization >= restShare) {
      restMs = 0
      // The first look sees the start itself.
      if (looked > 1) garbage = 'work'
      return
    }
    restMs += everyMs
    const isDue =
      garbage === 'start' ||
      (garbage === 'work' && isToGiveBack(restMs, mebibytes(process.memoryUsage.rss()), memoryMib()))
    if (!isDue) return
    garbage = 'none'
    giveBackMemory()
  }, everyMs).unref()
  // The main heap exists already, with the launcher's bound. For threads the flag would outweigh
  // `resourceLimits`: 32 MiB for 4.
  setFlagsFromString('--max-semi-space-size=0')
  return () => {
    collections.disconnect()
    clearInterval(looks)
  }
}

const mebibytes = (bytes: number): number => bytes / 2 ** 20

const memoryMib = (): number =>
  mebibytes(Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY))

/** V8 reads the flag whenever it has collected the whole heap. */
function allowGrowth(): void {
  const percent = growthPercent(mebibytes(getHeapStatistics().used_heap_size), memoryMib())
  setFlagsFromString(`--heap-growing-percent=${percent}`)
}

const isMajor = (entry: object): boolean =>
  (entry as { readonly detail: { readonly kind: number } }).detail.kind ===
  constants.NODE_PERFORMANCE_GC_MAJOR

export function giveBackMemory(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as Collect
  setFlagsFromString('--no-expose-gc')
  collect({ type: 'major', flavor: 'last-resort', execution: 'sync' })
}
