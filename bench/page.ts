/**
 * docs/reference/benchmarks.md, written from the results on record: one table of goals, then a section a benchmark.
 * The README has those of the goals that are measured beside something else.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Comparison, median, meetsGoal, type Result, ratioOf } from './figures.ts'
import { table, writeBetween } from './markdown.ts'

const results = join(import.meta.dirname, 'results')
const file = join(import.meta.dirname, '../docs/reference/benchmarks.md')
const readme = join(import.meta.dirname, '../README.md')

const introduction = `# Benchmarks

Every figure on this page was written here by the command that measured it:

\`\`\`sh
npm run bench                          # all of them, and this page anew
npm run bench -- accept-http           # one
npm run bench -- end-to-end --rounds 3
npm run bench -- --help
\`\`\`

Ours and what it is compared with run in turn, in the same minute, on the same machine, each in a process of its own;
the load generator is one more. A **ratio** is the median over the rounds of the rounds' own ratios. Absolute figures
depend on the machine and its neighbours (the load average stands with each section); ratios do so far less.
`

export function writePage(): void {
  const all = readdirSync(results)
    .filter((name) => name.endsWith('.json') && !name.includes('.local.'))
    .sort()
    .map((name): Result => JSON.parse(readFileSync(join(results, name), 'utf8')))
  const goals = all.flatMap((result) =>
    result.comparisons.filter(({ goal }) => goal !== undefined).map((comparison) => ({ result, comparison })),
  )
  const text = [
    introduction,
    '## Goals\n',
    table(
      ['what', 'measured against', 'goal', 'measured', ''],
      goals.map(({ result, comparison }) => [
        `[${comparison.what}](#${result.name})`,
        comparison.against?.name ?? '–',
        goalOf(comparison),
        reachedOf(comparison),
        meetsGoal(comparison) ? 'met' : '**not met**',
      ]),
    ),
    ...all.map(section),
    boundsText(),
  ].join('\n')
  writeFileSync(file, `${text.trimEnd()}\n`)
  writeBetween(readme, 'ratios', ratios(goals))
}

function ratios(goals: readonly { readonly comparison: Comparison }[]): string {
  const shown = goals.filter(({ comparison }) => comparison.against !== undefined)
  return table(
    ['what', 'beside', 'ours', 'goal'],
    shown.map(({ comparison }) => [
      comparison.what,
      comparison.against!.name,
      reachedOf(comparison),
      `${goalOf(comparison)}${meetsGoal(comparison) ? '' : ', not met'}`,
    ]),
  )
}

function section(result: Result): string {
  const { name, title, comparisons, rounds, date, node, cpus, load, notes } = result
  const rows = comparisons.map((comparison) => {
    const { what, unit, ours, against } = comparison
    const ratio = ratioOf(comparison)
    return [
      what,
      spread(ours, unit),
      against === undefined ? '–' : `${spread(against.figures, unit)}<br>${against.name}`,
      ratio === undefined ? '–' : ratio.toFixed(2),
    ]
  })
  const made = `${date.slice(0, 10)}, ${rounds} ${rounds === 1 ? 'round' : 'rounds'}, ${cpus} cores, Node ${node}, load average at the start ${load}`
  return [
    `\n## ${name}\n`,
    `${title}\n`,
    table(['what', 'ours', 'beside it', 'ratio'], rows),
    '',
    ...notes.map((note) => `- ${note}`),
    `- ${made}. Median (lowest–highest).`,
  ].join('\n')
}

/** The bound of each figure is written by hand, in a file beside the results. */
function boundsText(): string {
  const bounds = join(import.meta.dirname, 'bounds.md')
  return existsSync(bounds) ? `\n${readFileSync(bounds, 'utf8').trimEnd()}` : ''
}

const percent = (share: number): string => `${Math.round(share * 100)} %`

function goalOf({ goal, unit, against }: Comparison): string {
  const [sign, bound] = 'min' in goal! ? ['≥', goal.min] : ['≤', goal!.max]
  if (against === undefined) return `${sign} ${bound} ${unit}`
  return `${sign} ${bound < 1 ? percent(bound) : `${bound}×`}`
}

function reachedOf(comparison: Comparison): string {
  const ratio = ratioOf(comparison)
  if (ratio === undefined) return `${figure(median(comparison.ours))} ${comparison.unit}`
  const bound = comparison.goal === undefined ? 1 : Object.values(comparison.goal)[0]!
  return bound < 1 ? percent(ratio) : `${ratio.toFixed(1)}×`
}

function spread(figures: readonly number[], unit: string): string {
  return `${figure(median(figures))} ${unit} (${figure(Math.min(...figures))}–${figure(Math.max(...figures))})`
}

function figure(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2
  return value.toLocaleString('en-US', { maximumFractionDigits: digits, minimumFractionDigits: digits })
}
