/**
 * The comparison as one self-contained page: what happened, A and B, with the table behind each picture. It works at 360
 * pixels and in the dark; names that come from a policy or a record are escaped. Pure.
 */
import type { ShownFate } from './cells.ts'
import type { Column, Comparison } from './compare.ts'
import { waitSteps } from './compare.ts'
import type { ExpectationResult } from './expect.ts'
import { type FateKind, fateKinds } from './fate.ts'
import { fidelityMin } from './fidelity.ts'
import { type Curve, escaped, logBars, steps } from './pictures.ts'
import { fidelityText, figureRows, kindNames, number, percent, span, summaryOf } from './text.ts'

export interface HtmlOptions {
  readonly comparison: Comparison
  readonly expectations: readonly ExpectationResult[]
  /** The IANA time zone in which instants are shown. */
  readonly timeZone: string
}

/** Messages a person and day from which on they share a bar. */
const dayMax = 12
const hourMs = 3_600_000

const style = `
:root { color-scheme: light dark; --ink: #1c1917; --soft: #57534e; --line: #d6d3d1; --back: #fff; --happened: #78716c; --a: #1d4ed8; --b: #c2410c; --warn: #b45309 }
@media (prefers-color-scheme: dark) { :root { --ink: #f5f5f4; --soft: #a8a29e; --line: #44403c; --back: #1c1917; --happened: #a8a29e; --a: #60a5fa; --b: #fb923c; --warn: #fbbf24 } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 1.5rem auto; padding: 0 .8rem; color: var(--ink); background: var(--back) }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 21rem), 1fr)); gap: 0 1.5rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem; min-width: 60% }
th, td { text-align: right; padding: .25rem .5rem; border-bottom: 1px solid var(--line); font-variant-numeric: tabular-nums; white-space: nowrap }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 7rem }
td.grey, td.grey a { color: var(--soft) } td a { color: inherit } details.cell { margin: .3rem 0 }
td.same { background: color-mix(in srgb, var(--a) 12%, transparent) } td.moved { background: color-mix(in srgb, var(--b) 14%, transparent) }
.lead { font-size: 1.1rem } .warn { color: var(--warn) } .soft, summary { color: var(--soft) }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin: 0 .3em 0 .8em }
svg { width: 100%; height: auto; max-width: 40rem } svg text { font: 10px system-ui, sans-serif; fill: var(--soft) }
.grid { stroke: var(--line); stroke-width: .5 } .line { fill: none; stroke-width: 1.5 } .between { fill: var(--soft); opacity: .18 }
rect.a { fill: var(--a) } rect.b { fill: var(--b) } rect.happened { fill: var(--happened) }
.line.a { stroke: var(--a) } .line.b { stroke: var(--b) } .line.happened { stroke: var(--happened); stroke-dasharray: 3 2 }
`

export function htmlReport({ comparison, expectations, timeZone }: HtmlOptions): string {
  const { period, requests, people, happened, a, b, warnings, fidelity } = comparison
  const local = formatter(timeZone, { dateStyle: 'medium', timeStyle: 'short' })
  const columns = [happened, a, b]
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(`${a.name} → ${b.name}`)} · Sluice what-if</title>
<style>${style}</style>
<h1>What would have been, ${escaped(local(period.from))} to ${escaped(local(period.to))}</h1>
<p class="lead">${escaped(summaryOf(comparison))}</p>
<p>${number(requests)} requests for ${number(people)} people${comparison.sample < 1 ? `, a sample of ${percent(comparison.sample)} of them` : ''}. Times are those of ${escaped(timeZone)}.</p>
<p><strong>Fidelity.</strong> ${escaped(fidelityText(comparison))}</p>
${warnings.map((warning) => `<p class="warn">⚠ ${escaped(warning)}</p>`).join('\n')}
${expectationList(expectations)}
<p>${legend(columns)}</p>
${tableOf(
  ['', ...columns.map(({ name }) => name)],
  figureRows.map(([name, cell]) => [name, ...columns.map(cell)]),
)}
<h2>Requests by what becomes of them: ${escaped(a.name)} (rows) → ${escaped(b.name)} (columns)</h2>
${matrixTable(comparison)}
${cellLists(comparison, local)}
<div class="pictures">
<section><h2>Messages each hour</h2>${hours(comparison, timeZone)}</section>
<section><h2>How long people waited</h2>${waits(columns)}</section>
<section><h2>Messages a person and day</h2>${personDays([a, b])}</section>
<section><h2>Limits that hold or drop</h2>${limits(comparison)}</section>
</div>
<h2>People most changed</h2>
${tableOf(
  ['person', 'requests', 'changed', 'messages A', 'B', 'longest wait A', 'B'],
  comparison.mostChanged.map((each) => [
    each.recipient,
    number(each.requests),
    number(each.changed),
    number(each.messagesA),
    number(each.messagesB),
    span(each.longestWaitAMs),
    span(each.longestWaitBMs),
  ]),
)}
${differences(fidelity, local)}
<h2>Not modelled</h2>
<ul>${comparison.notModelled.map((each) => `<li>${escaped(each)}</li>`).join('')}</ul>
</html>
`
}

function formatter(
  timeZone: string,
  options: Intl.DateTimeFormatOptions,
): (instant: string | number) => string {
  const format = new Intl.DateTimeFormat('en-GB', { timeZone, ...options })
  return (instant) => format.format(new Date(instant))
}

const legend = (columns: readonly Column[]): string =>
  columns
    .map(
      ({ name }, index) =>
        `<span class="key" style="background: var(--${['happened', 'a', 'b'][index]})"></span>${escaped(name)}`,
    )
    .join(' ')

function tableOf(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '<p class="soft">None.</p>'
  const head = titles.map((title) => `<th>${escaped(title)}</th>`).join('')
  const body = rows.map((row) => `<tr>${row.map((cell) => `<td>${escaped(cell)}</td>`).join('')}</tr>`)
  return `<div class="scroll"><table><tr>${head}</tr>${body.join('\n')}</table></div>`
}

const behind = (titles: readonly string[], rows: readonly (readonly string[])[]): string =>
  `<details><summary>The table</summary>${tableOf(titles, rows)}</details>`

const cellId = (one: FateKind, other: FateKind): string => `cell-${one}-${other}`

function matrixTable({ matrix, fidelity }: Comparison): string {
  // Below the fidelity that is asked for, a difference that is no larger than the infidelity means nothing.
  const greyMost = fidelity.share < fidelityMin ? (1 - fidelity.share) * fidelity.compared : 0
  const head = fateKinds.map((kind) => `<th>${kindNames[kind]}</th>`).join('')
  const rows = fateKinds.map((one) => {
    const cells = fateKinds.map((other) => {
      const count = matrix[one][other]
      if (count === 0) return '<td>0</td>'
      const of = one === other ? 'same' : count <= greyMost ? 'grey' : 'moved'
      return `<td class="${of}"><a href="#${cellId(one, other)}">${number(count)}</a></td>`
    })
    return `<tr><td>${kindNames[one]}</td>${cells.join('')}</tr>`
  })
  return `<div class="scroll"><table><tr><th></th>${head}</tr>${rows.join('')}</table></div>`
}

/** The requests of each cell. A link to what stands inside such a list opens it. */
function cellLists({ cells, a, b }: Comparison, local: (instant: string) => string): string {
  const fate = ({ kind, channel, until, reason, limit }: ShownFate): string => {
    const why = [channel, reason, limit].filter((part) => part !== undefined).join(', ')
    return `${kindNames[kind]}${until === undefined ? '' : ` until ${local(until)}`} (${why})`
  }
  const lists = cells.map(({ a: one, b: other, requests, items }) => {
    const rows = items.map((item) => [
      item.id,
      local(item.at),
      item.recipient,
      item.category,
      fate(item.a),
      fate(item.b),
    ])
    const count = `${number(requests)}${items.length < requests ? `, ${items.length} of them listed` : ''}`
    return `<details class="cell"><summary>${kindNames[one]} → ${kindNames[other]}: ${count}</summary><div id="${cellId(one, other)}">${tableOf(['id', 'at', 'person', 'category', a.name, b.name], rows)}</div></details>`
  })
  return lists.join('\n')
}

const curveOf = (name: string, of: string, values: readonly number[]): Curve => ({ name, of, values })

function hours({ period, happened, a, b }: Comparison, timeZone: string): string {
  const from = Date.parse(period.from)
  const count = a.perHour.length
  const short = formatter(timeZone, count > 48 ? { day: 'numeric', month: 'short' } : { timeStyle: 'short' })
  const full = formatter(timeZone, { dateStyle: 'short', timeStyle: 'short' })
  const step = count > 48 ? 24 : 1
  const every = step * Math.max(1, Math.ceil(count / step / 5))
  const ticks = Array.from({ length: Math.ceil(count / every) }, (_, index) => ({
    at: (index * every) / Math.max(1, count - 1),
    text: short(from + index * every * hourMs),
  }))
  const picture = steps(
    {
      title: 'Messages each hour',
      description: `Messages that arrived in each of ${count} hours under A and B; the area between them is the difference.`,
    },
    [
      curveOf(happened.name, 'happened', happened.perHour),
      curveOf(a.name, 'a', a.perHour),
      curveOf(b.name, 'b', b.perHour),
    ],
    { horizontal: { label: timeZone, ticks }, label: 'messages an hour' },
  )
  const rows = a.perHour.map((_, hour) => [
    full(from + hour * hourMs),
    ...[happened, a, b].map(({ perHour }) => number(perHour[hour] ?? 0)),
  ])
  return picture + behind(['hour', happened.name, a.name, b.name], rows)
}

function waits(columns: readonly Column[]): string {
  const shares = ({ waits: counts, kinds }: Column): readonly number[] => {
    const all = Math.max(1, kinds.at_once + kinds.delayed + kinds.digest)
    return counts.map((count) => Math.min(1, count / all))
  }
  const labels = waitSteps.map(stepText)
  const ticks = labels.map((text, index) => ({ at: index / (labels.length - 1), text }))
  const picture = steps(
    {
      title: 'How long people waited',
      description: 'The share of requests that left within a time, the time logarithmic.',
    },
    columns.map((column, index) => curveOf(column.name, ['happened', 'a', 'b'][index]!, shares(column))),
    { horizontal: { label: 'waited at most, log', ticks }, label: 'share', most: 1, isShare: true },
  )
  const rows = labels.map((label, index) => [
    label,
    ...columns.map((column) => percent(shares(column)[index]!)),
  ])
  return picture + behind(['at most', ...columns.map(({ name }) => name)], rows)
}

function stepText(ms: number): string {
  if (ms < 60_000) return `${ms / 1_000}s`
  if (ms < hourMs) return `${ms / 60_000}min`
  return ms < 24 * hourMs ? `${ms / hourMs}h` : `${ms / 24 / hourMs}d`
}

function personDays(columns: readonly Column[]): string {
  const counts = ({ perPersonAndDay }: Column): readonly number[] =>
    Array.from({ length: dayMax }, (_, index) =>
      Object.entries(perPersonAndDay)
        .filter(([messages]) => Math.min(dayMax, Number(messages)) === index + 1)
        .reduce((sum, [, days]) => sum + days, 0),
    )
  const labels = Array.from({ length: dayMax }, (_, index) =>
    index + 1 === dayMax ? `${dayMax}+` : `${index + 1}`,
  )
  const picture = logBars(
    {
      title: 'Messages a person and day',
      description: `Days of people by their number of messages, counts logarithmic: ${columns.map(({ name, personDay }) => `${name} p50 ${personDay.p50}, p99 ${personDay.p99}, at most ${personDay.max}`).join('; ')}.`,
    },
    labels,
    columns.map((column, index) => curveOf(column.name, ['a', 'b'][index]!, counts(column))),
    'messages a person and day (UTC)',
  )
  const rows = labels.map((label, index) => [
    label,
    ...columns.map((column) => number(counts(column)[index]!)),
  ])
  return picture + behind(['messages', ...columns.map(({ name }) => name)], rows)
}

/** Limits that have a bar; all of them stand in the table. */
const limitBars = 8

function limits({ limits: all, a, b }: Comparison): string {
  if (all.length === 0) return '<p class="soft">None.</p>'
  const shown = all.slice(0, limitBars)
  const letters = shown.map((_, index) => String.fromCharCode(65 + index))
  const picture = logBars(
    {
      title: 'Limits that hold or drop',
      description: `Requests that each limit delayed, collected, moved or dropped, counts logarithmic: ${shown.map(({ limit }, index) => `${letters[index]} is ${limit}`).join(', ')}.`,
    },
    letters,
    [
      curveOf(
        a.name,
        'a',
        shown.map((each) => each.a),
      ),
      curveOf(
        b.name,
        'b',
        shown.map((each) => each.b),
      ),
    ],
    'limit, by its letter below',
  )
  const names = shown.map(({ limit }, index) => `${letters[index]} ${escaped(limit)}`).join(' · ')
  const rows = all.map((each) => [each.limit, ...[each.a, each.b, each.peopleA, each.peopleB].map(number)])
  return `${picture}<p class="soft">${names}</p>${behind(['limit', a.name, b.name, 'people A', 'people B'], rows)}`
}

function expectationList(expectations: readonly ExpectationResult[]): string {
  if (expectations.length === 0) return ''
  const items = expectations.map(
    ({ text, holds, found }) =>
      `<li>${holds ? '✔' : '✖'} ${escaped(text)} <span class="soft">(${escaped(found)})</span></li>`,
  )
  return `<h2>Expectations</h2><ul>${items.join('')}</ul>`
}

function differences(fidelity: Comparison['fidelity'], local: (instant: string) => string): string {
  if (fidelity.examples.length === 0) return ''
  const rows = fidelity.examples.map(({ id, at, why, happened, replayed }) => [
    id,
    local(at),
    why,
    happened,
    replayed,
  ])
  return `<h2>Examples of decisions that are not repeated</h2>${tableOf(['id', 'at', 'why', 'happened', 'replayed'], rows)}`
}
