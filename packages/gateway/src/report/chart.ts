/**
 * Charts as SVG: lines, bands, dots with their intervals, and bars over two axes with units, linear or logarithmic.
 * Colours come from the page. Pure.
 */
import { escapeHtml } from './page.ts'

interface Axis {
  readonly label: string
  /** @defaultValue 0; on a logarithmic axis a value above 0 */
  readonly min?: number
  readonly max: number
  /** On a logarithmic axis a value below `min` is drawn at its edge. @defaultValue 'linear' */
  readonly scale?: 'linear' | 'log'
  /** Values that get a mark. @defaultValue some round ones */
  readonly ticks?: readonly number[]
  /** Formats a value. @defaultValue digits as in English */
  readonly text?: (value: number) => string
}

type Shade = { readonly name: string; readonly colour: 1 | 2 | 3 }
type Pair = readonly [x: number, y: number]

export type Series = Shade &
  (
    | { readonly kind: 'line'; readonly points: readonly Pair[] }
    | { readonly kind: 'band'; readonly points: readonly (readonly [x: number, low: number, high: number])[] }
    | {
        readonly kind: 'dots'
        readonly points: readonly (readonly [x: number, y: number, low: number, high: number])[]
      }
    /** Bars from x + shift to x + shift + width, in units of the axis. */
    | {
        readonly kind: 'bars'
        readonly points: readonly Pair[]
        readonly width: number
        /** @defaultValue 0 */
        readonly shift?: number
      }
  )

/** A line over the whole chart at one value of an axis. */
export interface Mark {
  readonly axis: 'x' | 'y'
  readonly at: number
  readonly label: string
}

export interface ChartOptions {
  readonly title: string
  /** A sentence that says what is to be seen. */
  readonly description: string
  readonly x: Axis
  readonly y: Axis
  readonly series: readonly Series[]
  readonly marks?: readonly Mark[]
}

const width = 420
const height = 260
const margin = { left: 54, right: 14, top: 30, bottom: 40 } as const
const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom }

type Scale = (value: number) => number

export function svgChart({ title, description, x, y, series, marks = [] }: ChartOptions): string {
  const toX = scaleOf(x, 0, inner.width)
  const toY = scaleOf(y, inner.height, 0)
  return `<svg viewBox="0 0 ${width} ${height}" role="img">
<title>${escapeHtml(title)}</title>
<desc>${escapeHtml(description)}</desc>
${axes(x, y, toX, toY)}
<svg x="${margin.left}" y="${margin.top}" width="${inner.width}" height="${inner.height}" overflow="hidden">
${series.map((each) => drawn(each, toX, toY)).join('\n')}
</svg>
${marks.map((mark, index) => markOf(mark, index, mark.axis === 'x' ? toX : toY)).join('')}
</svg>`
}

function scaleOf({ min = 0, max, scale }: Axis, from: number, to: number): Scale {
  const reach = Math.max(max - min, Number.MIN_VALUE)
  if (scale !== 'log') return (value) => from + ((value - min) / reach) * (to - from)
  const [low, high] = [Math.log(min), Math.log(max)]
  return (value) => from + ((Math.log(Math.max(value, min)) - low) / Math.max(high - low, 1e-9)) * (to - from)
}

function axes(x: Axis, y: Axis, toX: Scale, toY: Scale): string {
  const bottom = margin.top + inner.height
  const right = margin.left + inner.width
  const xTicks = ticksOf(x, 7).map(
    (value) =>
      `<text x="${round(margin.left + toX(value))}" y="${bottom + 15}" text-anchor="middle">${textOf(x, value)}</text>`,
  )
  const yTicks = ticksOf(y, 5).map((value) => {
    const at = round(margin.top + toY(value))
    return `<line class="grid" x1="${margin.left}" x2="${right}" y1="${at}" y2="${at}"/><text x="${margin.left - 5}" y="${at + 4}" text-anchor="end">${textOf(y, value)}</text>`
  })
  return `${yTicks.join('')}
<line class="axis" x1="${margin.left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>${xTicks.join('')}
<text x="${right}" y="${height - 6}" text-anchor="end">${escapeHtml(x.label)}</text>
<text x="4" y="12">${escapeHtml(y.label)}</text>`
}

/** Round values of an axis: steps of 1, 2 or 5 times a power of ten; on a logarithmic one powers of ten. */
function ticksOf({ min = 0, max, scale, ticks }: Axis, most: number): readonly number[] {
  if (ticks !== undefined) return ticks
  if (scale === 'log') {
    const [first, last] = [Math.ceil(Math.log10(min) - 1e-9), Math.floor(Math.log10(max) + 1e-9)]
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, index) => 10 ** (first + index))
  }
  const least = (max - min) / most
  const power = 10 ** Math.floor(Math.log10(Math.max(least, Number.MIN_VALUE)))
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= least * (1 - 1e-9)) ?? 10)
  const first = Math.ceil(min / step - 1e-9)
  const count = Math.floor(max / step + 1e-9) - first + 1
  return Array.from({ length: Math.min(count, 20) }, (_, index) =>
    Number(((first + index) * step).toPrecision(12)),
  )
}

function textOf({ text }: Axis, value: number): string {
  return escapeHtml(text === undefined ? value.toLocaleString('en') : text(value))
}

function drawn(series: Series, toX: Scale, toY: Scale): string {
  const place = (x: number, y: number): string => `${round(toX(x))},${round(toY(y))}`
  const classes = (kind: string): string => `class="${kind} c${series.colour}"`
  const tip = (x: number, y: number): string => `<title>${escapeHtml(`${series.name}, ${x}: ${y}`)}</title>`
  switch (series.kind) {
    case 'line':
      return `<polyline ${classes('line')} points="${series.points.map(([x, y]) => place(x, y)).join(' ')}"/>`
    case 'band': {
      const low = series.points.map(([x, at]) => place(x, at))
      const high = series.points.map(([x, , at]) => place(x, at)).toReversed()
      return `<polygon ${classes('band')} points="${[...low, ...high].join(' ')}"/>`
    }
    case 'dots':
      return series.points
        .map(([x, y, low, high]) => {
          const at = round(toX(x))
          return `<line ${classes('reach')} x1="${at}" x2="${at}" y1="${round(toY(low))}" y2="${round(toY(high))}"/><circle ${classes('dot')} cx="${at}" cy="${round(toY(y))}" r="3.5">${tip(x, y)}</circle>`
        })
        .join('')
    case 'bars':
      return series.points
        .map(([x, y]) => {
          const top = toY(y)
          const left = x + (series.shift ?? 0)
          const wide = Math.max(0.5, toX(left + series.width) - toX(left))
          return `<rect ${classes('bar')} x="${round(toX(left))}" y="${round(top)}" width="${round(wide)}" height="${round(Math.max(0, inner.height - top))}">${tip(x, y)}</rect>`
        })
        .join('')
  }
}

/** A mark's label stands beside its line, on the side where there is room; labels of several do not share a height. */
function markOf({ axis, at, label }: Mark, index: number, scale: Scale): string {
  const place = scale(at)
  if (axis === 'y') {
    const y = round(margin.top + place)
    return `<line class="mark" x1="${margin.left}" x2="${margin.left + inner.width}" y1="${y}" y2="${y}"/><text class="marked" x="${margin.left + 4}" y="${y - 4}">${escapeHtml(label)}</text>`
  }
  const x = round(margin.left + place)
  const isRight = place > inner.width * 0.6
  return `<line class="mark" x1="${x}" x2="${x}" y1="${margin.top}" y2="${margin.top + inner.height}"/><text class="marked" x="${isRight ? x - 4 : x + 4}" y="${margin.top + 11 + index * 14}" text-anchor="${isRight ? 'end' : 'start'}">${escapeHtml(label)}</text>`
}

const round = (value: number): number => Math.round(value * 10) / 10
