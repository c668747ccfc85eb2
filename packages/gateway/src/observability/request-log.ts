/**
 * Lines for requests: errors and slow ones, refusals at a bounded rate, and an audit of every change by an operator. A
 * line has the template of the route and never its path, which may hold a recipient or a token.
 */
import type { ErrorCode } from '../errors.ts'
import { createLineLimit } from './line-limit.ts'
import type { Log } from './log-events.ts'

/** An answered request. */
interface Answered {
  readonly requestId: string
  readonly tenant: string | undefined
  readonly module: string | undefined
  readonly method: string
  /** The template of the route; undefined where none matched. */
  readonly route: string | undefined
  readonly status: number
  readonly code: ErrorCode | undefined
  readonly tookMs: number
  /** Bytes of the body of the request. */
  readonly bytes: number | undefined
  readonly audit: AuditEntry | undefined
}

/** A change that an operator made. */
export interface AuditEntry {
  /** The subject of the operator's token; absent without keys. */
  readonly sub?: string | undefined
  /** The filter or target, without contents or addresses. */
  readonly filter?: object
  /** How many notifications, accounts or recipients changed. */
  readonly count?: number
}

export interface RequestLog {
  /** True where an answer with this status after this time may have a line. */
  wants(status: number, tookMs: number): boolean
  note(answered: Answered): void
  close(): void
}

export interface RequestLogOptions {
  readonly log: Log
  /** True writes a line at info for each request. */
  readonly all: boolean
}

const slowMs = 1_000
/** Lines of refusals a second, of one tenant and code. */
const refusedPerSecond = 1
/** Lines of slow and failed requests a second, of one route. */
const failedPerSecond = 10

export function createRequestLog({ log, all }: RequestLogOptions): RequestLog {
  const refusals = createLineLimit(refusedPerSecond)
  const failures = createLineLimit(failedPerSecond)

  return {
    wants: (status, tookMs) => all || status >= 400 || tookMs >= slowMs || log.isLevelEnabled('debug'),
    note({ audit, ...answered }) {
      const { status, code, tenant, route, tookMs } = answered
      const fields = { ...answered, tookMs: Math.round(tookMs * 10) / 10 }
      if (audit !== undefined && status < 400) log.info({ event: 'audit', ...fields, ...audit })
      if (isRefusal(status, code)) {
        refusals.take(`${tenant ?? ''} ${code ?? status}`, (suppressedLines) =>
          log.warn({
            event: 'http.refused',
            ...fields,
            ...(suppressedLines === 0 ? {} : { suppressedLines }),
          }),
        )
      }
      if (all) log.info({ event: 'http.request', ...fields })
      else if ((status >= 500 && status !== 503) || tookMs >= slowMs) {
        failures.take(`${route}`, (suppressedLines) =>
          log.info({
            event: 'http.request',
            ...fields,
            ...(suppressedLines === 0 ? {} : { suppressedLines }),
          }),
        )
      } else log.debug({ event: 'http.request', ...fields })
    },
    close() {
      refusals.close()
      failures.close()
    },
  }
}

/** True for a request that was refused and accepted nothing, for a reason that an operator may want to know. */
function isRefusal(status: number, code: ErrorCode | undefined): boolean {
  if (status === 429) return code !== 'RATE_LIMIT_EXCEEDED'
  return status === 401 || status === 403 || status === 413 || status === 503
}
