/**
 * The comparison of runs: the rows of its figures, and the page with messages over time, messages by recipient, and
 * what recipients do about them.
 */
import { churnCurve, engagementCurve } from '../advice/curves.ts'
import { type Series, svgChart } from '../report/chart.ts'
import { escapeHtml, htmlFigure, htmlPage, htmlTable } from '../report/page.ts'
import type { AccountFigures } from './account-oracle.ts'
import type { RunResult } from './run.ts'
import type { Scenario } from './scenario.ts'

const colours = [1, 2, 3] as const

export function htmlReport(scenario: Scenario, seed: number, runs: readonly RunResult[]): string {
  return htmlPage({
    title: `${scenario.name} · Sluice simulation`,
    body: [
      `<h1>${escapeHtml(scenario.description || scenario.name)}</h1>`,
      `<p>Scenario <code>${escapeHtml(scenario.name)}</code>, seed ${seed}, ${number(scenario.recipients.count)} people. Every figure is counted from what arrived at the provider${scenario.reactions === undefined ? '' : '; openings and uninstalls are expected from that'}.</p>`,
      figuresTable(runs),
      '<div class="pictures">',
      slicesFigure(runs),
      peopleFigure(runs),
      ...reactionFigures(scenario, runs),
      '</div>',
    ],
  })
}

const sliceOf = (runs: readonly RunResult[]): RunResult['slice'] => runs[0]?.slice ?? 'hour'
const each = (runs: readonly RunResult[]): string =>
  sliceOf(runs) === 'hour' ? 'an hour' : `a ${sliceOf(runs)}`
const names = (runs: readonly RunResult[]): string[] => runs.map(({ policy }) => policy)

function figuresTable(runs: readonly RunResult[]): string {
  const rows: readonly FigureRow[] = [
    ...figureRows(runs),
    ['delay p50 · p90 · p99', ({ delayMs }) => [delayMs.p50, delayMs.p90, delayMs.p99].map(span).join(' · ')],
  ]
  return htmlTable({
    head: ['', ...names(runs)],
    rows: rows.map(([name, cell]) => [name.trim(), ...runs.map(cell)]),
  })
}

function slicesFigure(runs: readonly RunResult[]): string {
  const slice = sliceOf(runs)
  const slices = Math.max(1, ...runs.map((run) => run.perSlice.length))
  const most = Math.max(1, ...runs.flatMap((run) => run.perSlice))
  const width = 0.8 / runs.length
  const series = runs.map(
    (run, index): Series => ({
      kind: 'bars',
      name: run.policy,
      colour: colours[index % colours.length]!,
      width,
      shift: index * width,
      points: run.perSlice.map((messages, at) => [at, messages]),
    }),
  )
  return htmlFigure({
    heading: `Messages ${each(runs)}`,
    svg: svgChart({
      title: `Messages ${each(runs)}`,
      description: `Messages that arrived in each ${slice} since the start, at most ${number(most)}.`,
      x: { label: `${slice}s since the start`, max: slices },
      y: { label: 'messages', max: most * 1.05 },
      series,
    }),
    series: names(runs),
    table: {
      head: [slice, ...names(runs)],
      rows: Array.from({ length: slices }, (_, at) => [
        String(at),
        ...runs.map((run) => number(run.perSlice[at] ?? 0)),
      ]),
    },
  })
}

/** Numbers of people on a logarithmic axis, since most of them often stand in one bar. */
function peopleFigure(runs: readonly RunResult[]): string {
  const peopleOf = (run: RunResult, messages: number): number =>
    run.people.find((row) => row.messages === messages)?.people ?? 0
  const sizes = [...new Set(runs.flatMap((run) => run.people.map((row) => row.messages)))].sort(
    (a, b) => a - b,
  )
  const most = Math.max(1, ...runs.flatMap((run) => run.people.map(({ people }) => people)))
  const last = (sizes.at(-1) ?? 0) + 1
  const width = Math.max(0.8, last / 60) / runs.length
  return htmlFigure({
    heading: 'How many people got how many messages',
    svg: svgChart({
      title: 'People by the number of messages that they got',
      description: `Numbers of people on a logarithmic axis; nobody got more than ${number(last - 1)} messages.`,
      x: { label: 'messages in all', max: last },
      y: { label: 'people (log)', scale: 'log', min: 0.5, max: most * 1.5 },
      series: runs.map((run, index) => ({
        kind: 'bars',
        name: run.policy,
        colour: colours[index % colours.length]!,
        width,
        shift: index * width,
        points: run.people.map(({ messages, people }) => [messages, people]),
      })),
    }),
    series: names(runs),
    table: {
      head: ['messages', ...names(runs)],
      rows: sizes.map((messages) => [
        number(messages),
        ...runs.map((run) => number(peopleOf(run, messages))),
      ]),
    },
  })
}

function reactionFigures({ reactions }: Scenario, runs: readonly RunResult[]): string[] {
  const figures: string[] = []
  const last = Math.max(1, ...runs.map((run) => run.perRecipientPerDayMax)) * 1.05
  const chart = (heading: string, colour: 1 | 2, shareAt: (messages: number) => number): void => {
    const points = Array.from({ length: 81 }, (_, index) => 1 + ((last - 1) * index) / 80).map(
      (messages) => [messages, Math.min(1, shareAt(messages))] as const,
    )
    const most = Math.max(...points.map(([, value]) => value))
    figures.push(
      htmlFigure({
        heading,
        svg: svgChart({
          title: heading,
          description: `From ${share(points[0]![1])} at one message a recipient and day to ${share(points.at(-1)![1])}; the lines stand at the most that each run brought a recipient in a day.`,
          x: { label: 'messages a recipient and day', max: last },
          y: { label: 'share', max: most * 1.1, text: share },
          series: [{ kind: 'line', name: heading, colour, points }],
          marks: runs.map((run) => ({ axis: 'x', at: run.perRecipientPerDayMax, label: run.policy })),
        }),
        series: [],
        table: {
          head: ['messages a day', 'share'],
          rows: points
            .filter((_, index) => index % 8 === 0)
            .map(([messages, value]) => [messages.toFixed(0), share(value)]),
        },
      }),
    )
  }
  const { opens, uninstalls } = reactions ?? {}
  if (opens !== undefined)
    chart(
      'Opened, of the messages',
      1,
      (messages) => engagementCurve.at(opens.parameters, messages) / messages,
    )
  if (uninstalls !== undefined)
    chart('Uninstalled, of the people', 2, (messages) => churnCurve.at(uninstalls.parameters, messages))
  return figures
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
    ['lost', (run) => number(run.lost)],
    ...(runs.some((run) => run.accounts !== undefined) ? accountRows : []),
    ['per person and day, at most', (run) => number(run.perRecipientPerDayMax)],
    ['per author, person and day, at most', (run) => number(run.perAuthorPerDayMax)],
    ...(runs.some((run) => run.reactions?.opens !== undefined) ? [openRow] : []),
    ...(runs.some((run) => run.reactions?.uninstalls !== undefined) ? [uninstallRow] : []),
  ]
}

const openRow: FigureRow = [
  'opened',
  ({ reactions }) =>
    reactions?.opens === undefined
      ? '–'
      : `${number(reactions.opens.count)} (${share(reactions.opens.share)})`,
]

const uninstallRow: FigureRow = [
  'uninstalled',
  ({ reactions }) =>
    reactions?.uninstalls === undefined
      ? '–'
      : `${number(reactions.uninstalls.count)} (${reactions.uninstalls.timesUsual.toFixed(1)}× the usual)`,
]

const ofAccounts =
  (cell: (accounts: AccountFigures) => string) =>
  ({ accounts }: RunResult): string =>
    accounts === undefined ? '' : cell(accounts)

const accountRows: readonly FigureRow[] = [
  ['accounts refused', ofAccounts(({ refused, count }) => `${number(refused)} of ${number(count)}`)],
  ['calls refused', ofAccounts(({ refusals }) => number(refusals))],
  ['fullest window of an account', ofAccounts(({ fullestWindow }) => windowText(fullestWindow))],
  ['delivered a second before', ofAccounts(({ deliveredPerSecond }) => perSecond(deliveredPerSecond.before))],
  ['  during the phases', ofAccounts(({ deliveredPerSecond }) => perSecond(deliveredPerSecond.during))],
  ['  after', ofAccounts(({ deliveredPerSecond }) => perSecond(deliveredPerSecond.after))],
  ['dead letters', ofAccounts(({ deadLetters }) => countsText(deadLetters))],
  ['  that came back', ofAccounts(({ returned }) => number(returned))],
]

const windowText = (fullest: AccountFigures['fullestWindow']): string =>
  fullest === null ? '–' : `${number(fullest.calls)} of ${fullest.window}`

const perSecond = (value: number | null): string => (value === null ? '–' : number(value))

function countsText(counts: Readonly<Record<string, number>>): string {
  const reasons = Object.entries(counts)
  return reasons.length === 0
    ? '0'
    : reasons.map(([reason, count]) => `${number(count)} ${reason}`).join(', ')
}

const number = (value: number): string => value.toLocaleString('en')
const share = (value: number): string => `${Number((value * 100).toPrecision(2))} %`

/** Formats a duration: `0 ms`, `1.02 s`, `4.0 h`. */
export function span(ms: number): string {
  if (ms < 1_000) return `${ms} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(2)} s`
  if (ms < 3_600_000) return `${(ms / 60_000).toFixed(1)} min`
  return `${(ms / 3_600_000).toFixed(1)} h`
}
