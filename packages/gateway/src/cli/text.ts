/**
 * Formats readable text: tables with aligned columns, instants, and colours on a terminal. Text of others may
 * hold escape sequences that drive the terminal, so control characters are never printed. Pure.
 */
import { stripVTControlCharacters, styleText } from 'node:util'
import type { Io } from './io.ts'

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

export function paint(io: Io, style: Style, text: string): string {
  return io.colours ? styleText(style, text, { validateStream: false }) : text
}

/** Strips control characters and escape sequences from one line. */
export function plain(text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  return text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ')
}

function width(cell: string): number {
  return [...stripVTControlCharacters(cell)].length
}

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => string | number | null | undefined
  readonly align?: 'left' | 'right'
  readonly style?: (row: Row) => Style | undefined
}

/** Formats a table: two blanks between columns, titles above, no lines, so that it works with `cut`. */
export function table<Row>(io: Io, columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const cells = rows.map((row) => columns.map((column) => plain(String(column.cell(row) ?? '–'))))
  const widths = columns.map((column, index) =>
    Math.max(width(column.title), ...cells.map((row) => width(row[index]!))),
  )
  const line = (texts: readonly string[], style: (index: number) => Style | undefined): string =>
    texts
      .map((text, index) => {
        const padding = ' '.repeat(widths[index]! - width(text))
        const of = style(index)
        const painted = of === undefined ? text : paint(io, of, text)
        return columns[index]!.align === 'right' ? padding + painted : painted + padding
      })
      .join('  ')
      .trimEnd()
  return [
    line(
      columns.map((column) => column.title),
      () => 'dim',
    ),
    ...cells.map((row, at) => line(row, (index) => columns[index]!.style?.(rows[at]!))),
  ].join('\n')
}

export function indent(text: string): string {
  return text.replace(/^(?=.)/gm, '  ')
}

/** Formats an instant: `2026-11-22 07:00:00Z`, with milliseconds where there are any; `–` for never. */
export function instant(iso: string | null | undefined): string {
  if (iso === null || iso === undefined) return '–'
  return plain(iso)
    .replace('T', ' ')
    .replace(/\.000Z$/, 'Z')
}

const spans = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const

/** Formats an instant and its distance from now: `2026-11-22 07:00:00Z (in 3 h)`. */
export function instantFrom(iso: string | null | undefined, now: number): string {
  const at = iso === null || iso === undefined ? Number.NaN : Date.parse(iso)
  if (Number.isNaN(at) || at <= now) return instant(iso)
  const [unit, ms] = spans.find(([, length]) => at - now >= length) ?? ['ms', 1]
  return `${instant(iso)} (in ${Math.round((at - now) / ms)} ${unit})`
}

const styles: Readonly<Record<string, Style>> = {
  delivered: 'green',
  healthy: 'green',
  scheduled: 'yellow',
  digesting: 'yellow',
  queued: 'yellow',
  sending: 'cyan',
  half_open: 'yellow',
  failed: 'red',
  dead: 'red',
  expired: 'red',
  suppressed: 'red',
  blocked: 'red',
  open: 'red',
}

export function styleOf(status: string): Style | undefined {
  return styles[status]
}
