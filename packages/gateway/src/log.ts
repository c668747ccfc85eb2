/**
 * The log of the operator: one JSON line for each event, on standard error, with everything secret redacted.
 */
import { type Logger, pino } from 'pino'
import type { LogLevel } from './config/config.ts'

export type Log = Logger

const secret = ['*.secret', '*.url', '*.token', 'req.headers.authorization', '*.headers.authorization']

export function createLog(level: LogLevel): Log {
  return pino(
    { level, redact: { paths: secret, censor: '[secret]' } },
    pino.destination({ fd: 2, sync: false }),
  )
}
