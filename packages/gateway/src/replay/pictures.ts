/**
 * The pictures of the comparison as SVG: axes with units, logarithmic where one bar would hide the rest, a title and a
 * description each, and colours that follow the page. They are drawn 360 units wide, so that text keeps its size on a
 * narrow screen. Pure.
 */

const width = 360
const height = 200
const left = 44
const right = 8
const top = 20
const bottom = 30

export interface Curve {
  readonly name: string
  /** The class that colours it: `happened`, `a` or `b`. */
  readonly of: string
  readonly values: readonly number[]
}

interface Axis {
  readonly label: string
  readonly ticks: readonly { readonly at: number; readonly text: string }[]
}

export interface Picture {
  readonly title: string
  readonly description: string
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
export const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => entities[character]!)

const number = (value: number): string => value.toLocaleString('en')
const x = (share: number): string => (left + share * (width - left - right)).toFixed(1)
const y = (share: number): string => (height - bottom - share * (height - top - bottom)).toFixed(1)

function frame({ title, description }: Picture, horizontal: Axis, vertical: Axis, content: string): string {
  const id = title.toLowerCase().replaceAll(/[^a-z]+/g, '-')
  const lines = vertical.ticks.map(
    ({ at, text }) =>
      `<line class="grid" x1="${left}" x2="${width - right}" y1="${y(at)}" y2="${y(at)}"/><text x="${left - 4}" y="${Number(y(at)) + 3}" text-anchor="end">${escaped(text)}</text>`,
  )
  const marks = horizontal.ticks.map(
    ({ at, text }) =>
      `<text x="${x(at)}" y="${height - bottom + 12}" text-anchor="${at > 0.97 ? 'end' : at < 0.03 ? 'start' : 'middle'}">${escaped(text)}</text>`,
  )
  return `<svg viewBox="0 0 ${width} ${height}" role="img" aria-labelledby="${id}-t ${id}-d">
<title id="${id}-t">${escaped(title)}</title><desc id="${id}-d">${escaped(description)}</desc>
${lines.join('')}${marks.join('')}
<text x="${width - right}" y="${height - 4}" text-anchor="end" class="unit">${escaped(horizontal.label)}</text>
<text x="2" y="8" class="unit">${escaped(vertical.label)}</text>
${content}</svg>`
}

/** Ticks at powers of ten up to the most. */
function logTicks(most: number): Axis['ticks'] {
  const decades = Math.max(1, Math.ceil(Math.log10(Math.max(2, most))))
  return Array.from({ length: decades + 1 }, (_, power) => ({
    at: power / decades,
    text: number(10 ** power),
  }))
}

/** The height of a count on the scale of `logTicks`; 0 for none, and a little for one. */
function logShare(count: number, most: number): number {
  const decades = Math.max(1, Math.ceil(Math.log10(Math.max(2, most))))
  return count <= 0 ? 0 : Math.max(0.02, Math.log10(count) / decades)
}

/** Bars side by side, their heights logarithmic. */
export function logBars(
  picture: Picture,
  categories: readonly string[],
  lines: readonly Curve[],
  label: string,
): string {
  const most = Math.max(1, ...lines.flatMap(({ values }) => values))
  const slot = 1 / Math.max(1, categories.length)
  const bar = (slot * 0.8) / lines.length
  const bars = lines.flatMap(({ name, of, values }, nth) =>
    values.map((value, index) => {
      const from = Number(x(index * slot + 0.1 * slot + nth * bar))
      const to = Number(x(index * slot + 0.1 * slot + (nth + 1) * bar))
      const share = logShare(value, most)
      return `<rect class="${of}" x="${from}" y="${y(share)}" width="${(to - from).toFixed(1)}" height="${(Number(y(0)) - Number(y(share))).toFixed(1)}"><title>${escaped(`${name}, ${categories[index]}: ${number(value)}`)}</title></rect>`
    }),
  )
  const ticks = categories.map((text, index) => ({ at: (index + 0.5) * slot, text }))
  return frame(
    picture,
    { label, ticks: thinned(ticks, 12) },
    { label: 'count, log', ticks: logTicks(most) },
    bars.join(''),
  )
}

/** Lines over equal steps, from 0 to the most. */
export function steps(
  picture: Picture,
  lines: readonly Curve[],
  axes: {
    readonly horizontal: Axis
    readonly label: string
    readonly most?: number
    readonly isShare?: boolean
  },
): string {
  const most = axes.most ?? Math.max(1, ...lines.flatMap(({ values }) => values))
  const points = ({ values }: Curve): readonly string[] =>
    values.map((value, index) => `${x(index / Math.max(1, values.length - 1))},${y(value / most)}`)
  const drawn = lines.map(
    (line) =>
      `<polyline class="line ${line.of}" points="${points(line).join(' ')}"><title>${escaped(line.name)}</title></polyline>`,
  )
  const [a, b] = [lines.find(({ of }) => of === 'a'), lines.find(({ of }) => of === 'b')]
  const between =
    a === undefined || b === undefined
      ? ''
      : `<polygon class="between" points="${[...points(a), ...points(b).toReversed()].join(' ')}"/>`
  const vertical = [0, 0.25, 0.5, 0.75, 1].map((at) => ({
    at,
    text: axes.isShare === true ? `${100 * at} %` : number(Math.round(at * most)),
  }))
  const ticks =
    axes.isShare === true || most >= 4 ? vertical : vertical.filter(({ at }) => at === 0 || at === 1)
  return frame(picture, axes.horizontal, { label: axes.label, ticks }, between + drawn.join(''))
}

/** Keeps at most so many ticks, at equal distances. */
function thinned<T>(ticks: readonly T[], max: number): readonly T[] {
  const every = Math.ceil(ticks.length / max)
  return ticks.filter((_, index) => index % every === 0)
}
