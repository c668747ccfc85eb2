/**
 * The comparison as one self-contained HTML file: a table, a chart of messages over time of each run, and the
 * distribution of messages over recipients. Everything that comes from a scenario or policy is escaped.
 */
import type { AccountFigures } from './account-oracle.ts'
import type { RunResult } from './run.ts'
import type { Scenario } from './scenario.ts'

const width = 900
const height = 220
const colours = ['#c2410c', '#0f766e', '#1d4ed8']

export function htmlReport(scenario: Scenario, seed: number, runs: readonly RunResult[]): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(scenario.name)} · Sluice simulation</title>
<style>
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1c1917; background: #fff }
  table { border-collapse: collapse; width: 100% }
  th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid #d6d3d1; font-variant-numeric: tabular-nums }
  th:first-child, td:first-child { text-align: left }
  svg { width: 100%; height: auto }
  .key { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .4em }
  text { font: 12px system-ui, sans-serif; fill: #57534e }
</style>
<h1>${escaped(scenario.description || scenario.name)}</h1>
<p>Scenario <code>${escaped(scenario.name)}</code>, seed ${seed}, ${scenario.recipients.count.toLocaleString('en')} people.
Every figure is counted from what arrived at the provider.</p>
${figuresTable(runs)}
<h2>Messages ${each(runs)}</h2>
${legend(runs)}
${slicesPicture(runs)}
<h2>How many people got how many messages</h2>
${peopleTable(runs)}
</html>
`
}

const sliceOf = (runs: readonly RunResult[]): RunResult['slice'] => runs[0]?.slice ?? 'hour'
const each = (runs: readonly RunResult[]): string =>
  sliceOf(runs) === 'hour' ? 'an hour' : `a ${sliceOf(runs)}`

function figuresTable(runs: readonly RunResult[]): string {
  const rows: readonly FigureRow[] = [
    ...figureRows(runs),
    ['delay p50 · p90 · p99', ({ delayMs }) => [delayMs.p50, delayMs.p90, delayMs.p99].map(span).join(' · ')],
  ]
  const head = runs.map((run) => `<th>${escaped(run.policy)}</th>`).join('')
  const body = rows.map(
    ([name, cell]) =>
      `<tr><td>${name.trim()}</td>${runs.map((run) => `<td>${cell(run)}</td>`).join('')}</tr>`,
  )
  return `<table><tr><th></th>${head}</tr>${body.join('\n')}</table>`
}

function legend(runs: readonly RunResult[]): string {
  return runs
    .map(
      (run, index) => `<span class="key" style="background:${colours[index]}"></span>${escaped(run.policy)} `,
    )
    .join(' ')
}

function slicesPicture(runs: readonly RunResult[]): string {
  const slice = sliceOf(runs)
  const unit = { hour: 'h', minute: 'min', second: 's' }[slice]
  const slices = Math.max(1, ...runs.map((run) => run.perSlice.length))
  const most = Math.max(1, ...runs.flatMap((run) => run.perSlice))
  const slot = width / slices
  const bar = Math.max(1, (slot * 0.8) / runs.length)
  const bars = runs.flatMap((run, index) =>
    run.perSlice.map((messages, at) => {
      const tall = (messages / most) * height
      const x = at * slot + index * bar
      return `<rect x="${x.toFixed(1)}" y="${(height - tall).toFixed(1)}" width="${bar.toFixed(1)}" height="${tall.toFixed(1)}" fill="${colours[index]}"><title>${escaped(run.policy)}, ${slice} ${at}: ${number(messages)}</title></rect>`
    }),
  )
  const mark = Math.max(12, Math.ceil(slices / 144) * 12)
  const marks = Array.from({ length: Math.floor(slices / mark) + 1 }, (_, index) => {
    const x = index * mark * slot
    return `<text x="${x.toFixed(1)}" y="${height + 16}">${index * mark} ${unit}</text>`
  })
  return `<svg viewBox="0 -18 ${width} ${height + 42}" role="img" aria-label="Messages ${each(runs)}">
<line x1="0" x2="${width}" y1="${height}" y2="${height}" stroke="#a8a29e"/>
<text x="0" y="-6">${number(most)} in the busiest ${slice}</text>
${bars.join('\n')}
${marks.join('')}
</svg>`
}

function peopleTable(runs: readonly RunResult[]): string {
  const sizes = [...new Set(runs.flatMap((run) => run.people.map((row) => row.messages)))].sort(
    (a, b) => a - b,
  )
  const rows = sizes.map((messages) => {
    const cells = runs.map((run) => run.people.find((row) => row.messages === messages)?.people ?? 0)
    return `<tr><td>${number(messages)}</td>${cells.map((people) => `<td>${number(people)}</td>`).join('')}</tr>`
  })
  return `<table><tr><th>messages</th>${runs.map((run) => `<th>${escaped(run.policy)}</th>`).join('')}</tr>${rows.join('\n')}</table>`
}

/** A row's label, and its value for a run. */
export type FigureRow = readonly [string, (run: RunResult) => string]

/** The rows of the comparison, on a terminal and in the page alike; the delays come after them. */
export function figureRows(runs: readonly RunResult[]): readonly FigureRow[] {
  return [
    ['accepted', (run) => number(run.accepted)],
    ['messages sent', (run) => number(run.delivered)],
    ['  of these digests', (run) => number(run.digests)],
    ['merged into digests', (run) => number(run.merged)],
    ['suppressed', ({ suppressed }) => countsText(suppressed)],
    ['still waiting', (run) => number(run.waiting)],
    ...(runs.some((run) => run.accounts !== undefined) ? accountRows : []),
    ['per person and day, at most', (run) => number(run.perRecipientPerDayMax)],
    ['per author, person and day, at most', (run) => number(run.perAuthorPerDayMax)],
  ]
}

const ofAccounts =
  (cell: (accounts: AccountFigures) => string) =>
  ({ accounts }: RunResult): string =>
    accounts === undefined ? '' : cell(accounts)

const accountRows: readonly FigureRow[] = [
  ['accounts refused', ofAccounts(({ refused, count }) => `${number(refused)} of ${number(count)}`)],
  ['calls refused', ofAccounts(({ refusals }) => number(refusals))],
  ['delivered a second before', ofAccounts(({ deliveredPerSecond }) => perSecond(deliveredPerSecond.before))],
  ['  during the phases', ofAccounts(({ deliveredPerSecond }) => perSecond(deliveredPerSecond.during))],
  ['  after', ofAccounts(({ deliveredPerSecond }) => perSecond(deliveredPerSecond.after))],
  ['dead letters', ofAccounts(({ deadLetters }) => countsText(deadLetters))],
  ['  that came back', ofAccounts(({ returned }) => number(returned))],
]

const perSecond = (value: number | null): string => (value === null ? '–' : number(value))

function countsText(counts: Readonly<Record<string, number>>): string {
  const reasons = Object.entries(counts)
  return reasons.length === 0
    ? '0'
    : reasons.map(([reason, count]) => `${number(count)} ${reason}`).join(', ')
}

const number = (value: number): string => value.toLocaleString('en')

/** Formats a duration: `0 ms`, `1.02 s`, `4.0 h`. */
export function span(ms: number): string {
  if (ms < 1_000) return `${ms} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(2)} s`
  if (ms < 3_600_000) return `${(ms / 60_000).toFixed(1)} min`
  return `${(ms / 3_600_000).toFixed(1)} h`
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => entities[character]!)
