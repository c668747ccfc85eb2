/** What the operator reads: one JSON line an event, on standard error, with everything secret left out. */
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
