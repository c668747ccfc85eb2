/**
 * Reads what the threads of a process did between two instants, from Linux (`/proc/<pid>/task/<tid>/schedstat`): how long
 * they ran, and how long they were ready to run and waited for a core. What is late while its thread waited for a core is
 * late because others keep the cores busy; what is late while it neither ran nor waited is late because of a disk, another
 * thread or a timer.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { setInterval } from 'node:timers'

/** The threads of a gateway in a span of time, ms. */
export interface ThreadTimes {
  readonly mainRan: number
  readonly mainWaited: number
  /** The thread that ran and waited most but the main one: the store's. */
  readonly otherRan: number
  readonly otherWaited: number
  /**
   * In which at least one of these two waited for a core: of each interval between two samples the longer wait alone, so
   * that nothing is counted twice.
   */
  readonly eitherWaited: number
}

interface Sample {
  readonly at: number
  readonly pid: number
  /** By thread: run and waited, ns. */
  readonly threads: ReadonlyMap<string, readonly [ran: number, waited: number]>
}

interface Span {
  readonly from: number
  readonly to: number
}

export interface ThreadWatch {
  /** Sums up what the threads did in a span of epoch ms, the pauses left out, over all processes that ran in it. */
  within(span: Span, pauses: readonly Span[]): ThreadTimes
  stop(): void
}

const everyMs = 50
/** Samples that are kept: some 20 minutes. */
const samplesMax = 24_000

function sampleOf(pid: number): Sample | undefined {
  const threads = new Map<string, readonly [number, number]>()
  try {
    for (const tid of readdirSync(`/proc/${pid}/task`)) {
      const [ran, waited] = readFileSync(`/proc/${pid}/task/${tid}/schedstat`, 'utf8').split(' ').map(Number)
      threads.set(tid, [ran!, waited!])
    }
  } catch {
    // The process, or a thread of it, has ended meanwhile.
  }
  return threads.size === 0 ? undefined : { at: Date.now(), pid, threads }
}

/** Returns how long a thread ran and waited between two samples, ms. */
function timesOf(tid: string, first: Sample, last: Sample): readonly [ran: number, waited: number] {
  const [ran, waited] = last.threads.get(tid) ?? [0, 0]
  const [ranBefore, waitedBefore] = first.threads.get(tid) ?? [0, 0]
  return [Math.max(0, ran - ranBefore) / 1e6, Math.max(0, waited - waitedBefore) / 1e6]
}

/** @param pidOf - the process that runs now */
export function watchThreads(pidOf: () => number | undefined): ThreadWatch {
  const samples: Sample[] = []
  const timer = setInterval(() => {
    const pid = pidOf()
    const sample = pid === undefined ? undefined : sampleOf(pid)
    if (sample !== undefined && samples.length < samplesMax) samples.push(sample)
  }, everyMs)

  return {
    within({ from, to }, pauses) {
      const sum = { mainRan: 0, mainWaited: 0, otherRan: 0, otherWaited: 0, eitherWaited: 0 }
      const isIn = ({ at }: Sample): boolean =>
        at >= from && at <= to && !pauses.some((pause) => at >= pause.from && at <= pause.to)
      for (const [index, next] of samples.slice(1).entries()) {
        const before = samples[index]!
        if (before.pid !== next.pid || !isIn(before) || !isIn(next)) continue
        const main = String(next.pid)
        const others = [...next.threads.keys()].filter((tid) => tid !== main)
        const [mainRan, mainWaited] = timesOf(main, before, next)
        let [otherRan, otherWaited] = [0, 0]
        for (const tid of others) {
          const [ran, waited] = timesOf(tid, before, next)
          if (ran + waited > otherRan + otherWaited) [otherRan, otherWaited] = [ran, waited]
        }
        sum.mainRan += mainRan
        sum.mainWaited += mainWaited
        sum.otherRan += otherRan
        sum.otherWaited += otherWaited
        sum.eitherWaited += Math.min(next.at - before.at, Math.max(mainWaited, otherWaited))
      }
      return {
        mainRan: Math.round(sum.mainRan),
        mainWaited: Math.round(sum.mainWaited),
        otherRan: Math.round(sum.otherRan),
        otherWaited: Math.round(sum.otherWaited),
        eitherWaited: Math.round(sum.eitherWaited),
      }
    },
    stop: () => clearInterval(timer),
  }
}
