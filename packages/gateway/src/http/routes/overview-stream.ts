/**
 * The overview as it moves: an event `tick` each second with the newest point of each series, and the figures that have
 * changed since the tick before. A reader that comes back is sent the points that it missed, from the rings in memory.
 */
import type { Clock } from '../../ports.ts'
import { iso } from '../answer.ts'
import { eventText } from '../event-stream.ts'
import type { Overview } from '../overview.ts'
import { type SeriesName, seriesNames } from '../overview-series.ts'
import { basePath } from '../route.ts'
import { changesOf, createSecondStream, lastSecondOf, type SecondStream } from '../second-stream.ts'
import { aheadOf } from '../wall-time.ts'

export interface OverviewStreamOptions {
  readonly overview: Overview
  readonly clock: Clock
  /** Streams of all operators at most; one more is refused. @defaultValue 50 */
  readonly readersMax?: number
}

type Figures = Readonly<Record<string, unknown>>

const secondMs = 1_000

export function createOverviewStream(options: OverviewStreamOptions): SecondStream {
  const { overview, clock, readersMax = 50 } = options
  /** The second of the last tick, epoch seconds, and the figures as they were then. */
  let lastSecond = 0
  let lastFigures: Figures = {}

  /** Reads the points of the seconds after `after`, as far as the rings reach back. */
  function pointsSince(
    after: number,
  ): { readonly second: number; readonly values: Record<SeriesName, number> }[] {
    const { from, values } = overview.series.read('second')
    const first = from / secondMs
    const points = []
    for (let second = Math.max(first, after + 1); second <= lastSecondOf(clock); second += 1)
      points.push({
        second,
        values: Object.fromEntries(
          seriesNames.map((name) => [name, values[name][second - first] ?? 0]),
        ) as Record<SeriesName, number>,
      })
    return points
  }

  function figures(): Figures {
    // Where the store has to be asked, these are the figures of the reading before; its errors are told by questions.
    overview.refresh().catch(() => undefined)
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
      problems: overview.problems(waiting).map(({ since, until, ...problem }) => ({
        ...problem,
        since: iso(since + aheadOf(clock)),
        ...(until === undefined ? {} : { until: iso(until + aheadOf(clock)) }),
      })),
    }
  }

  const tickText = (second: number, values: object, changed: Figures): string =>
    eventText('tick', { at: iso(second * secondMs + aheadOf(clock)), series: values, ...changed }, second)

  return createSecondStream({
    route: {
      path: `${basePath}/overview/stream`,
      operation: 'streamOverview',
      summary: 'The overview, a tick each second',
      details:
        'Each event has the epoch second as `id`. With `Last-Event-ID` the missed seconds of the last hour come first, without figures. At most 50 streams',
      answers: { 200: { description: 'Server-sent events named `tick`', type: 'text/event-stream' } },
    },
    of: 'the overview',
    clock,
    readersMax,
    begin() {
      lastSecond = lastSecondOf(clock)
      lastFigures = figures()
    },
    welcome(after) {
      // The first tick has all figures; missed points come before it.
      const missed = pointsSince(after ?? lastSecond - 1).filter(({ second }) => second <= lastSecond)
      const text = missed
        .map(({ second, values }) => tickText(second, values, second === lastSecond ? lastFigures : {}))
        .join('')
      // Without a point of that second, in the first one of a process or where the reader has it, all come with the next.
      if (missed.at(-1)?.second !== lastSecond) lastFigures = {}
      return text
    },
    tick() {
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
      return text
    },
  })
}
