/** The comparison as text for a terminal: tables whose columns are separated by two blanks. Pure. */
import type { Column, Comparison, Quantiles } from './compare.ts'
import type { ExpectationResult } from './expect.ts'
import { fateKinds } from './fate.ts'
import { type Explanation, explanations } from './fidelity.ts'

export const kindNames = {
  at_once: 'at once',
  delayed: 'delayed',
  digest: 'in a digest',
  dropped: 'dropped',
  ended: 'cancelled or expired',
} as const

export const number = (value: number): string => value.toLocaleString('en')
export const percent = (share: number): string => {
  const isNearEnd = (share > 0.99 && share < 1) || (share > 0 && share < 0.001)
  return `${(100 * share).toFixed(isNearEnd ? 2 : 1)} %`
}

/** Formats a duration: `0 ms`, `1.02 s`, `4.0 h`, `2.5 d`. */
export function span(ms: number): string {
  if (ms < 1_000) return `${ms} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(2)} s`
  if (ms < 3_600_000) return `${(ms / 60_000).toFixed(1)} min`
  if (ms < 2 * 86_400_000) return `${(ms / 3_600_000).toFixed(1)} h`
  return `${(ms / 86_400_000).toFixed(1)} d`
}

/** Formats what changes in a sentence or two: fewer or more messages, of which categories, and how many people wait long. */
export function summaryOf({ a, b, changed, requests, peopleOverDay }: Comparison): string {
  const difference = b.messages - a.messages
  const share = a.messages === 0 ? 0 : Math.abs(difference) / a.messages
  const messages =
    difference === 0
      ? 'As many messages.'
      : `${number(Math.abs(difference))} messages ${difference < 0 ? 'fewer' : 'more'} (${difference < 0 ? '−' : '+'}${percent(share)}).`
  const decisions =
    changed.total === 0
      ? 'No decision changes.'
      : `${number(changed.total)} of ${number(requests)} decisions change (${percent(changed.total / Math.max(1, requests))})${mostOf(changed.byCategory, changed.total)}.`
  const security = changed.byCategory.security ?? 0
  const critical = changed.byPriority.critical ?? 0
  const kept =
    security + critical === 0
      ? 'No security or critical message changes.'
      : `${number(security)} of security and ${number(critical)} critical ones change.`
  const waiting =
    peopleOverDay.a === peopleOverDay.b
      ? ''
      : ` ${number(peopleOverDay.b)} people wait longer than a day, ${number(peopleOverDay.a)} under ${a.name}.`
  return `${messages} ${decisions}${waiting} ${kept}`
}

function mostOf(counts: Readonly<Record<string, number>>, total: number): string {
  const [most] = Object.entries(counts).sort(([, one], [, other]) => other - one)
  return most === undefined ? '' : `, ${percent(most[1] / total)} of them ${most[0]}`
}

export function fidelityText({ fidelity }: Comparison): string {
  const { compared, equal, share, differences } = fidelity
  const reasons = Object.entries(differences).map(
    ([why, count]) => `${percent(count / compared)} ${explanations[why as Explanation]}`,
  )
  const rest = reasons.length === 0 ? '' : `; ${reasons.join('; ')}`
  return `${percent(share)} of the decisions are repeated (${number(equal)} of ${number(compared)})${rest}.`
}

/** A row's label, and its value for a column. */
export type FigureRow = readonly [string, (column: Column) => string]

const quantiles = ({ p50, p90, p99, max }: Quantiles, format: (value: number) => string): string =>
  [p50, p90, p99, max].map(format).join(' · ')

export const figureRows: readonly FigureRow[] = [
  ['messages that arrived', ({ messages }) => number(messages)],
  ...fateKinds.map((kind): FigureRow => [`requests ${kindNames[kind]}`, ({ kinds }) => number(kinds[kind])]),
  ['wait p50 · p90 · p99 · max', ({ waitMs }) => quantiles(waitMs, span)],
  ['messages a person and day p50 · p90 · p99 · max', ({ personDay }) => quantiles(personDay, number)],
]

type Table = (titles: readonly string[], rows: readonly (readonly string[])[]) => string

/** @param table formats a table: the first column to the left, the others to the right */
export function textReport(
  comparison: Comparison,
  expectations: readonly ExpectationResult[],
  table: Table,
): string {
  const { period, requests, people, happened, a, b, matrix, limits, mostChanged, warnings } = comparison
  const columns = [happened, a, b]
  const lines = [
    `${number(requests)} requests for ${number(people)} people, ${period.from} to ${period.to}`,
    '',
    summaryOf(comparison),
    '',
    `Fidelity: ${fidelityText(comparison)}`,
    ...comparison.fidelity.examples
      .filter(({ why }) => why === 'unexplained')
      .map(({ id, happened: was, replayed }) => `  ${id}: ${was}; replayed ${replayed}`),
    ...warnings.map((warning) => `Warning: ${warning}`),
    '',
    table(
      ['', 'what happened', a.name, b.name],
      figureRows.map(([name, cell]) => [name, ...columns.map(cell)]),
    ),
    '',
    `Requests by what becomes of them: ${a.name} (rows) → ${b.name} (columns)`,
    table(
      ['', ...fateKinds.map((kind) => kindNames[kind])],
      fateKinds.map((one) => [kindNames[one], ...fateKinds.map((other) => number(matrix[one][other]))]),
    ),
  ]
  if (limits.length > 0)
    lines.push(
      '',
      table(
        ['limit that holds or drops', a.name, b.name, 'people', 'people then'],
        limits.map((each) => [each.limit, ...[each.a, each.b, each.peopleA, each.peopleB].map(number)]),
      ),
    )
  if (mostChanged.length > 0)
    lines.push(
      '',
      table(
        ['people most changed', 'requests', 'changed', 'messages', 'then', 'longest wait', 'then'],
        mostChanged.map((each) => [
          each.recipient,
          number(each.requests),
          number(each.changed),
          number(each.messagesA),
          number(each.messagesB),
          span(each.longestWaitAMs),
          span(each.longestWaitBMs),
        ]),
      ),
    )
  lines.push('', 'Not modelled:', ...comparison.notModelled.map((each) => `  ${each}`))
  if (expectations.length > 0)
    lines.push('', ...expectations.map(({ text, holds, found }) => `${holds ? '✔' : '✖'} ${text} (${found})`))
  return lines.join('\n')
}
