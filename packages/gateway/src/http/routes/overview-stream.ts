/**
 * The overview as it moves: an event `tick` each second with the newest point of each series, and the figures that have
 * changed since the tick before. One reading serves all readers, and without a reader nothing is read. A reader that comes
 * back is sent the points that it missed, from the rings in memory.
 */
import { SluiceError } from '../../errors.ts'
import type { Clock } from '../../ports.ts'
import { iso } from '../answer.ts'
import { EventStream, eventText, openEventStream } from '../event-stream.ts'
import type { Overview } from '../overview.ts'
import { type SeriesName, seriesNames } from '../overview-series.ts'
import { basePath, type Route } from '../route.ts'
import { aheadOf } from '../wall-time.ts'

export interface OverviewStreamOptions {
  readonly overview: Overview
  readonly clock: Clock
  /** Streams of all operators at most; one more is refused. @defaultValue 50 */
  readonly readersMax?: number
}

export interface OverviewStream {
  readonly routes: readonly Route[]
  /** Ends all streams. */
  close(): void
}

type Figures = Readonly<Record<string, unknown>>

const secondMs = 1_000
/** The Retry-After of a reader for whom there is no stream left, ms. */
const fullRetryAfterMs = 5_000

export function createOverviewStream(options: OverviewStreamOptions): OverviewStream {
  const { overview, clock, readersMax = 50 } = options
  const readers = new Set<EventStream>()
  let stopTicking: (() => void) | undefined
  /** The second of the last tick, epoch seconds, and the figures as they were then. */
  let lastSecond = 0
  let lastFigures: Figures = {}

  /** The last second that is over: its point does not change any more. */
  const presentSecond = (): number => Math.floor(clock.now() / secondMs) - 1

  /** Reads the points of the seconds after `after`, as far as the rings reach back. */
  function pointsSince(
    after: number,
  ): { readonly second: number; readonly values: Record<SeriesName, number> }[] {
    const { from, values } = overview.series.read('second')
    const first = from / secondMs
    const points = []
    for (let second = Math.max(first, after + 1); second <= presentSecond(); second += 1)
      points.push({
        second,
        values: Object.fromEntries(
          seriesNames.map((name) => [name, values[name][second - first] ?? 0]),
        ) as Record<SeriesName, number>,
      })
    return points
  }

  function figures(): Figures {
    const waiting = overview.waiting(undefined)
    const { byReason, dueNow, oldestDueMs, deadLetters } = waiting
    return {
      waiting: { byReason },
      dueNow,
      oldestDueMs,
      deadLetters: { byCause: deadLetters },
      accounts: overview.accounts(),
      unaccounted: overview.unaccounted(),
      cause: overview.cause(waiting),
      problems: overview.problems(waiting).map(({ until, ...problem }) => ({
        ...problem,
        ...(until === undefined ? {} : { until: iso(until + aheadOf(clock)) }),
      })),
    }
  }

  const tickText = (second: number, values: object, changed: Figures): string =>
    eventText('tick', { at: iso(second * secondMs + aheadOf(clock)), series: values, ...changed }, second)

  function tick(): void {
    const points = pointsSince(lastSecond)
    const now = figures()
    const changed = changesOf(lastFigures, now)
    let text = ''
    for (const [index, { second, values }] of points.entries())
      text += tickText(second, values, index === points.length - 1 ? changed : {})
    if (points.length > 0) {
      lastSecond = points.at(-1)!.second
      lastFigures = now
    }
    if (text !== '') for (const reader of readers) reader.send(text)
    schedule()
  }

  function schedule(): void {
    const next = (Math.floor(clock.now() / secondMs) + 1) * secondMs
    stopTicking = readers.size === 0 ? undefined : clock.at(next, tick)
  }

  function begin(reader: EventStream, after: number | undefined): void {
    if (readers.size === 0) {
      lastSecond = presentSecond()
      lastFigures = figures()
    }
    reader.send(': connected\n\n')
    // The first tick has all figures; missed points come before it.
    const missed = pointsSince(after ?? lastSecond - 1).filter(({ second }) => second <= lastSecond)
    for (const { second, values } of missed)
      reader.send(tickText(second, values, second === lastSecond ? lastFigures : {}))
    // Without a point of that second, in the first one of a process or where the reader has it, all come with the next.
    if (missed.at(-1)?.second !== lastSecond) lastFigures = {}
    readers.add(reader)
    if (readers.size === 1) schedule()
  }

  function end(reader: EventStream): void {
    if (!readers.delete(reader) || readers.size > 0) return
    stopTicking?.()
    stopTicking = undefined
  }

  const route: Route = {
    method: 'GET',
    path: `${basePath}/overview/stream`,
    operation: 'streamOverview',
    tag: 'Operation',
    summary: 'The overview, a tick each second',
    details:
      'Each event has the epoch second as `id`. With `Last-Event-ID` the missed seconds of the last hour come first, without figures. At most 50 streams',
    access: 'reader',
    stream: true,
    problems: ['REQUEST_LIMIT_EXCEEDED'],
    answers: { 200: { description: 'Server-sent events named `tick`', type: 'text/event-stream' } },
    handle(request, reply) {
      const after = lastEventId(request.headers['last-event-id'])
      if (readers.size >= readersMax)
        throw new SluiceError(
          'REQUEST_LIMIT_EXCEEDED',
          `${readersMax} streams of the overview are open already, and there are no more.`,
          { retryAfterMs: fullRetryAfterMs },
        )
      const response = openEventStream(request, reply, () => end(reader))
      const reader = new EventStream(response)
      begin(reader, after)
      return reply
    },
  }

  return {
    routes: [route],
    close() {
      for (const reader of readers) reader.end()
    },
  }
}

/** The epoch second after which a reader wants to go on; undefined where it has none, or no id of a tick. */
const lastEventId = (written: string | string[] | undefined): number | undefined =>
  typeof written === 'string' && /^\d{1,12}$/.test(written) ? Number(written) : undefined

/** Keeps the figures that differ. */
function changesOf(before: Figures, now: Figures): Figures {
  return Object.fromEntries(
    Object.entries(now).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])),
  )
}
