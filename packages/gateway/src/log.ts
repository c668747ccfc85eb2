/**
 * The log of the operator: one JSON line for each event, on standard error, or readable text on a terminal. Secrets
 * are redacted by their names, and addresses in errors by their form.
 */
import { hostname } from 'node:os'
import { type DestinationStream, type LogFn, type Logger, pino } from 'pino'
import type { LogConfig, LogLevel } from './config/config.ts'
import { type Log, type LogFields, logEvents } from './observability/log-events.ts'
import { logText } from './observability/log-text.ts'
import { maskStack, maskText } from './observability/masking.ts'
import { version } from './version.ts'

const secret = ['*.secret', '*.url', '*.token', 'req.headers.authorization', '*.headers.authorization']
/** Bytes that may wait for a reader of standard error; later lines are dropped until it reads. */
const unreadMaxBytes = 4 * 1_048_576

export interface OperatorLog extends Log {
  /** Sets the level; a part with a level of its own keeps it. */
  setLevel(level: LogLevel): void
  readonly level: string
}

const { error, warn, info, debug } = pino.levels.values as Readonly<Record<string, number>>
const weights = { error: error!, warn: warn!, info: info!, debug: debug! }

/** @param destination receives the lines. @defaultValue standard error */
export function createLog(config: LogConfig, destination?: DestinationStream): OperatorLog {
  const { format = process.stderr.isTTY ? 'text' : 'json' } = config
  const stderr = destination ?? pino.destination({ fd: 2, sync: false, maxLength: unreadMaxBytes })
  const stream = format === 'json' ? stderr : { write: (line: string) => stderr.write(logText(line)) }
  const { values } = pino.levels
  const levels = Object.entries(config.levels ?? {}).map(([part, level]) => [part, level] as const)
  const weightOf = (level: string): number => values[level] ?? Number.POSITIVE_INFINITY
  let general = weightOf(config.level)
  /** Weight of the lowest level that any part writes. */
  let least = general
  const own = new Map(levels.map(([part, level]) => [part, weightOf(level)]))

  const logger: Logger = pino(
    {
      level: config.level,
      base: config.host === true ? { version, pid: process.pid, hostname: hostname() } : { version },
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: secret, censor: '[secret]' },
      serializers: { err: describeError },
      hooks: {
        logMethod(args, method: LogFn, level) {
          const [fields, text] = args as unknown as [LogFields, string | undefined]
          const { event } = fields
          if (level < (own.get(event.split('.', 1)[0]!) ?? general)) return
          method.call(this, fields, text ?? logEvents[event])
        },
      },
    },
    stream,
  )
  /** pino passes on what any part wants; the hook above leaves out the rest. */
  const open = (level: LogLevel): void => {
    general = weightOf(level)
    least = Math.min(general, ...own.values())
    logger.level = logger.levels.labels[least] ?? 'silent'
  }
  open(config.level)
  const at = (level: 'error' | 'warn' | 'info' | 'debug') => (fields: LogFields, text?: string) =>
    logger[level](fields, text)
  return {
    error: at('error'),
    warn: at('warn'),
    info: at('info'),
    debug: at('debug'),
    // pino's own looks through its levels: 0.2 µs, and every change of a notification asks.
    isLevelEnabled: (level) => weights[level] >= least,
    setLevel: open,
    get level() {
      return logger.level
    },
  }
}

/** Describes an error with its causes, without addresses. */
function describeError(error: unknown): object | undefined {
  if (error === undefined) return undefined
  if (!(error instanceof Error)) return { message: maskText(String(error)) }
  const { name, message, stack, cause } = error
  const { code } = error as { code?: unknown }
  return {
    type: name,
    message: maskText(message),
    ...(typeof code === 'string' ? { code } : {}),
    ...(stack === undefined ? {} : { stack: maskStack(stack) }),
    ...(cause === undefined ? {} : { cause: describeError(cause) }),
  }
}
