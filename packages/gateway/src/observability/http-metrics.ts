/** Metrics of HTTP requests: their duration by route and status, refusals by code, connections. */
import { type ErrorCode, errors } from '../errors.ts'
import type { Distribution, Meter } from './meter.ts'
import { Tally } from './meter.ts'

export interface HttpMetrics {
  /** Counts an answered request; `route` is its template, undefined where no route matched. */
  answered(route: string | undefined, method: string, status: number, tookMs: number): void
  /** Counts a problem. */
  refused(code: ErrorCode): void
  /** Counts an opened connection; the returned function counts its end. */
  connected(): () => void
  /** Requests that wait for their turn at the event loop. */
  waiting: () => number
}

const durationBounds = [0.005, 0.025, 0.1, 0.5, 2.5]
/**
 * Combinations of route, method and status with a series of their own at most, each of eight lines: the whole answer
 * stays below 1,500 series. Further ones count under the route `other`.
 */
const combinationsMax = 60
const classes = ['2xx', '3xx', '4xx', '429', '5xx'] as const
type StatusClass = (typeof classes)[number]

/** Codes that are answers to requests: those of files and of the command line are none. */
const requestCodes = (Object.keys(errors) as ErrorCode[]).filter(
  (code) => errors[code].status >= 400 && !code.startsWith('WS_'),
)

export function createHttpMetrics(meter: Meter): HttpMetrics {
  const durations = meter.histogram(
    'sluice_http_request_duration_seconds',
    'Duration of HTTP requests by route, from the arrival of the headers to the end of the answer.',
    ['route', 'method', 'status'],
    durationBounds,
  )
  const refusals = new Tally()
  for (const code of requestCodes) refusals.add(code, '', '', 0)
  let connections = 0
  meter.counter('sluice_refused_total', 'Problems answered to requests, by code.', ['code'], (set) =>
    refusals.each(([code], count) => set([code!], count)),
  )
  meter.gauge('sluice_http_connections', 'Open HTTP connections.', [], (set) => set([], connections))
  meter.gauge(
    'sluice_http_requests_waiting',
    'Requests that wait for their turn at the event loop.',
    [],
    (set) => set([], metrics.waiting()),
  )
  // The series of alerts are there before anything goes wrong.
  for (const status of ['2xx', '4xx', '429', '5xx']) durations.of('/api/v1/notifications', 'POST', status)
  durations.of('other', 'GET', '5xx')

  /** Series by status class, route and method: one look at a map for each part. */
  const known = Object.fromEntries(
    classes.map((each) => [each, new Map<string, Map<string, Distribution>>()]),
  ) as Record<StatusClass, Map<string, Map<string, Distribution>>>

  function find(status: StatusClass, route: string, method: string): Distribution {
    const routes = known[status]
    let methods = routes.get(route)
    if (methods === undefined) {
      methods = new Map()
      routes.set(route, methods)
    }
    let found = methods.get(method)
    if (found === undefined) {
      found =
        durations.size < combinationsMax
          ? durations.of(route, method, status)
          : durations.of('other', 'other', status)
      methods.set(method, found)
    }
    return found
  }

  const metrics: HttpMetrics = {
    answered(route, method, status, tookMs) {
      find(classOf(status), route ?? 'none', methods.has(method) ? method : 'other').observe(tookMs / 1_000)
    },
    refused: (code) => refusals.add(code, ''),
    connected() {
      connections += 1
      return () => {
        connections -= 1
      }
    },
    waiting: () => 0,
  }
  return metrics
}

const methods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'])

function classOf(status: number): StatusClass {
  if (status < 300) return '2xx'
  if (status < 400) return '3xx'
  if (status === 429) return '429'
  return status < 500 ? '4xx' : '5xx'
}
