/** Formats a line of the log for people: time, level, event, text, and the other fields as `key=value`. */

const apart = new Set(['time', 'level', 'event', 'msg', 'version', 'err'])
const plainValue = /^[\w.:/@+-]+$/
// biome-ignore lint/suspicious/noControlCharactersInRegex: they must not reach a terminal
const control = /[\u0000-\u001f\u007f-\u009f]/g

interface LogLine {
  readonly time: string
  readonly level: string
  readonly event: string
  readonly msg: string
  readonly err?: { readonly stack?: string; readonly message?: string }
  readonly [field: string]: unknown
}

/** Returns the text of one JSON line. A line that is no JSON stays as it is. */
export function logText(json: string): string {
  let line: LogLine
  try {
    line = JSON.parse(json) as LogLine
  } catch {
    return json
  }
  const { time, level, event, msg, err } = line
  const fields = Object.entries(line)
    .filter(([key]) => !apart.has(key))
    .map(([key, value]) => `${key}=${shown(value)}`)
  const text = [time.slice(11, 23), level.padEnd(5), event, clean(msg), ...fields].join(' ')
  const error = err?.stack ?? err?.message
  return error === undefined ? `${text}\n` : `${text}\n${error.split('\n').map(clean).join('\n')}\n`
}

function shown(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return plainValue.test(text) ? text : JSON.stringify(clean(text))
}

const clean = (text: string): string => text.replaceAll(control, '·')
