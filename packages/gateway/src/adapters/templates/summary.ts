/**
 * The filter `summary`: describes any value on one bounded line. The product cannot know which of an application's
 * data matters, so its own templates show all of it. Pure. In JavaScript and not in Liquid, where the same line took
 * 500 µs for an item instead of one: a digest has up to a hundred.
 */
import type { JsonValue } from '../../model.ts'

/** Bounds: characters of one value, values of one object, characters of a whole line. */
const valueMax = 300
const valuesMax = 20
const lineMax = 4_000

/** Keys whose values need no label. */
const spoken = new Set(['post', 'comment', 'text', 'title', 'message', 'subject', 'name'])

/**
 * Summarises an element of a digest (with `actor`, `data`, `content`), an application's data, or a single value of
 * it.
 */
export function summary(value: unknown): string {
  const line = isObject(value) ? summaryOfObject(value) : summaryOfValue(value)
  return line.length > lineMax ? `${line.slice(0, lineMax - 1)}…` : line
}

function summaryOfObject(value: Readonly<Record<string, unknown>>): string {
  if (typeof value.notificationId === 'string') return summaryOfItem(value)
  return headline(value) ?? pairs(value)
}

/** Writes `actor: text`; the text is the content, else all of the data, else the template's name. */
function summaryOfItem({ actor, content, data, template }: Readonly<Record<string, unknown>>): string {
  const words = isObject(content)
    ? [content.subject ?? content.title, content.text].map(summaryOfValue).filter((part) => part !== '')
    : []
  const said = words.length > 0 ? [...new Set(words)].join(' — ') : isObject(data) ? pairs(data) : ''
  const who = summaryOfValue(actor)
  if (who === '') return said || summaryOfValue(template) || 'notification'
  return said === '' ? who : `${who}: ${said}`
}

function headline(value: Readonly<Record<string, unknown>>): string | undefined {
  for (const key of ['title', 'name', 'text'])
    if (typeof value[key] === 'string') return summaryOfValue(value[key])
  return undefined
}

function pairs(value: Readonly<Record<string, unknown>>): string {
  const parts: string[] = []
  for (const [key, each] of Object.entries(value)) {
    if (each === null || each === undefined || each === '' || each === false) continue
    if (parts.length === valuesMax) return `${parts.join(' · ')} · …`
    const inner = isObject(each)
      ? (headline(each) ?? `${clipped(key)}: ${clipped(JSON.stringify(each))}`)
      : undefined
    parts.push(inner ?? (spoken.has(key) ? summaryOfValue(each) : `${clipped(key)}: ${summaryOfValue(each)}`))
  }
  return parts.join(' · ')
}

function summaryOfValue(value: unknown): string {
  if (value === null || value === undefined) return ''
  return clipped(typeof value === 'object' ? JSON.stringify(value as JsonValue) : String(value))
}

/** Makes one line: line ends of any kind and other controls become a space. */
function clipped(text: string): string {
  const line = text
    .slice(0, valueMax * 2)
    .replace(/[\p{Cc}\u2028\u2029\s]+/gu, ' ')
    .trim()
  return line.length > valueMax ? `${line.slice(0, valueMax - 1)}…` : line
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
