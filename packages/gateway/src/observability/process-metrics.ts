/** Metrics of the process: memory, CPU, file descriptors, garbage collection, and delay of the event loop. */
import { readdirSync, readFileSync } from 'node:fs'
import { constants, PerformanceObserver } from 'node:perf_hooks'
import type { Meter } from './meter.ts'

/** Interval of a timer, ms, whose lateness measures the delay of the event loop. */
const loopProbeMs = 20
const delayBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const pauseBounds = [0.001, 0.01, 0.1, 1]

const kinds = new Map([
  [constants.NODE_PERFORMANCE_GC_MINOR, 'minor'],
  [constants.NODE_PERFORMANCE_GC_MAJOR, 'major'],
  [constants.NODE_PERFORMANCE_GC_INCREMENTAL, 'incremental'],
  [constants.NODE_PERFORMANCE_GC_WEAKCB, 'weakcb'],
])

/** An entry of Node's performance timeline for one garbage collection; its duration in ms. */
interface CollectionEntry {
  readonly duration: number
  readonly detail: { readonly kind: number }
}

/** Registers the metrics; the returned function stops the timer and the observer. */
export function measureProcess(meter: Meter): () => void {
  const delay = meter
    .histogram(
      'nodejs_eventloop_delay_seconds',
      'Delay of the event loop, probed every 20 ms.',
      [],
      delayBounds,
    )
    .of()
  let dueAt = performance.now() + loopProbeMs
  const probe = setInterval(() => {
    const now = performance.now()
    delay.observe(Math.max(0, now - dueAt) / 1_000)
    dueAt = now + loopProbeMs
  }, loopProbeMs)
  probe.unref()

  const pauses = meter.histogram(
    'nodejs_gc_duration_seconds',
    'Duration of garbage collections by kind.',
    ['kind'],
    pauseBounds,
  )
  for (const kind of kinds.values()) pauses.of(kind)
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { duration, detail } = entry as unknown as CollectionEntry
      const kind = kinds.get(detail.kind)
      if (kind !== undefined) pauses.of(kind).observe(duration / 1_000)
    }
  })
  observer.observe({ entryTypes: ['gc'] })

  const startedAt = Math.round(Date.now() / 1_000 - process.uptime())
  meter.gauge('process_start_time_seconds', 'Start of the process, in seconds since 1970.', [], (set) =>
    set([], startedAt),
  )
  meter.gauge('process_resident_memory_bytes', 'Resident memory of the process.', [], (set) =>
    set([], process.memoryUsage.rss()),
  )
  meter.gauge('nodejs_heap_size_used_bytes', 'Memory of the JavaScript heap in use.', [], (set) =>
    set([], process.memoryUsage().heapUsed),
  )
  meter.gauge('nodejs_heap_size_total_bytes', 'Memory allocated for the JavaScript heap.', [], (set) =>
    set([], process.memoryUsage().heapTotal),
  )
  meter.counter('process_cpu_seconds_total', 'CPU time of the process, user and system.', [], (set) => {
    const { user, system } = process.cpuUsage()
    set([], (user + system) / 1e6)
  })
  meter.gauge(
    'process_open_fds',
    'Open file descriptors; absent where the system has no /proc.',
    [],
    (set) => {
      const count = openDescriptors()
      if (count !== undefined) set([], count)
    },
  )
  const descriptorsMax = maxDescriptors()
  meter.gauge('process_max_fds', 'Open file descriptors at most; absent without /proc.', [], (set) => {
    if (descriptorsMax !== undefined) set([], descriptorsMax)
  })
  return () => {
    clearInterval(probe)
    observer.disconnect()
  }
}

function openDescriptors(): number | undefined {
  try {
    return readdirSync('/proc/self/fd').length
  } catch {
    return undefined
  }
}

function maxDescriptors(): number | undefined {
  try {
    const [, soft] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? []
    return soft === undefined ? undefined : Number(soft)
  } catch {
    return undefined
  }
}
