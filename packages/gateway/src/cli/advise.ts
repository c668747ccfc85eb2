/**
 * `sluice advise`: how many messages a week are best, from a file that counts how recipients reacted to different
 * frequencies. Too little data gives the reasons and exit code 3.
 */
import { writeFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import type { Advice } from '../advice/advice.ts'
import type { CurveFit, FitPoint } from '../advice/model.ts'
import { readTextFile } from '../config/source.ts'
import { type Recording, recorded, recordOptions, withoutRecord } from './advise-record.ts'
import { type Arguments, badUsage, type CommandForm, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { checkWritable } from './report-file.ts'
import { paint, table } from './text.ts'

export const form: CommandForm = {
  name: 'advise',
  summary: 'How many messages a week are best, from what recipients did at different frequencies.',
  positionals: ['[observations.csv]'],
  options: {
    'from-record': { text: 'Take what was delivered and reported back, from the store of the configuration' },
    ...recordOptions,
    value: { value: '<number>', text: 'What a recipient that engages in a week is worth; 1 by default' },
    cost: { value: '<number>', text: 'What a recipient that churns costs, in the same unit; 1 by default' },
    complaints: { value: '<share>', text: 'Complaints at most, of the delivered messages; 0.1% by default' },
    today: { value: '<number>', text: 'Messages a week that are allowed today, to compare with' },
    report: { value: '<file.html>', text: 'Write the advice as a page with pictures' },
    seed: {
      value: '<number>',
      text: 'Other draws of the bootstrap; 1 by default, the same number gives the same',
    },
    json: jsonOption,
  },
  examples: [
    [
      'sluice advise observations.csv',
      'frequency,people,engaged,churned and a line for each group, in counts',
    ],
    [
      'sluice advise --from-record --category marketing --channel email',
      'From the last four weeks on record',
    ],
    [
      'sluice advise observations.csv --cost 20 --today 5',
      'A recipient lost costs as much as 20 that engage',
    ],
  ],
}

/** Exit code where the data allow no advice. */
const noAdvice = 3

export async function run(read: Arguments, io: Io): Promise<number> {
  const settings = await settingsOf(read)
  const report = read.text('report')
  if (report !== undefined) checkWritable(form, report, io)
  const { observations, source } = await observed(read, io)
  const [{ advise }, { seededChance }] = await Promise.all([
    import('../advice/advise.ts'),
    import('../simulation/chance.ts'),
  ])
  const advised = advise({ ...settings, observations, chance: seededChance(settings.seed) })
  if (!('advice' in advised)) return refuse(advised.reasons, read, io)
  const { advice } = advised
  if (report !== undefined) {
    const { adviceReport } = await import('../advice/report.ts')
    const page = adviceReport({ advice, source, today: settings.today })
    writeFileSync(resolve(io.cwd, report), page)
  }
  if (read.has('json')) io.out(await jsonOf(advice))
  else io.out(await textOf(advice, { ...settings, io }))
  if (report !== undefined && !read.has('json')) io.out(`\nThe report is in ${report}`)
  return exitCodes.ok
}

/** Reads the file, or makes the observations of the record. */
async function observed(read: Arguments, io: Io): Promise<Recording> {
  const [file] = read.positionals
  if (read.has('from-record')) {
    if (file !== undefined) throw badUsage(form, 'a file and --from-record exclude each other')
    return recorded(form, read, io)
  }
  if (file === undefined) throw badUsage(form, '<observations.csv> is missing, or --from-record')
  withoutRecord(form, read)
  const { readObservations } = await import('../advice/observations.ts')
  const text = readTextFile(resolve(io.cwd, file))
  if (!text.ok) throw badUsage(form, `"${file}" ${text.message}`)
  return { observations: readObservations(text.text, basename(file)), source: basename(file) }
}

function refuse(reasons: readonly string[], read: Arguments, io: Io): number {
  if (read.has('json'))
    io.err(JSON.stringify({ error: { code: 'NO_ADVICE', message: reasons.join('; '), reasons } }))
  else io.err(['sluice: no advice from these data:', ...reasons.map((reason) => `  ${reason}`)].join('\n'))
  return noAdvice
}

interface Settings {
  readonly value: number
  readonly cost: number
  readonly complaintsMax: number
  readonly today: number | undefined
  readonly seed: number
}

async function settingsOf(read: Arguments): Promise<Settings> {
  const seed = read.text('seed') ?? '1'
  if (!/^\d{1,10}$/.test(seed)) throw badUsage(form, `--seed is a whole number, not "${seed}"`)
  return {
    value: numberOf(read, 'value') ?? 1,
    cost: numberOf(read, 'cost') ?? 1,
    complaintsMax: await shareOf(read),
    today: numberOf(read, 'today'),
    seed: Number(seed),
  }
}

function numberOf(read: Arguments, option: 'value' | 'cost' | 'today'): number | undefined {
  const text = read.text(option)
  if (text === undefined) return undefined
  const value = /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : 0
  if (value > 0 && value < 1e12) return value
  throw badUsage(form, `--${option} is a number above 0, not "${text}"`)
}

async function shareOf(read: Arguments): Promise<number> {
  const text = read.text('complaints') ?? '0.1%'
  const share = /^\d+(?:\.\d+)? ?%$/.test(text) ? Number.parseFloat(text) / 100 : 0
  if (share > 0 && share <= 1) return share
  throw badUsage(form, `--complaints is a share such as 0.1%, not "${text}"`)
}

/** Seven digits: more than any data give. */
const round = (value: number): number => Number(value.toPrecision(7))

async function jsonOf(advice: Advice): Promise<string> {
  const { policyLine } = await import('../advice/recommendation.ts')
  const { engagement, churn, complaints } = advice
  const pair = ([low, high]: readonly [number, number]): [number, number] => [round(low), round(high)]
  const fitOf = ({ intervals, pValue, points }: CurveFit, names: readonly [string, string]): object => ({
    intervals: { [names[0]]: pair(intervals[0]), [names[1]]: pair(intervals[1]) },
    pValue: round(pValue),
    points: points.map(({ frequency, people, count, fitted, deviation }) => ({
      frequency,
      people,
      count,
      fitted: round(fitted),
      deviation: round(deviation),
    })),
  })
  return JSON.stringify(
    {
      frequency: round(advice.frequency),
      interval: pair(advice.interval),
      engagement: { a: round(engagement.parameters[0]), b: round(engagement.parameters[1]) },
      churn: { c: round(churn.parameters[0]), d: round(churn.parameters[1]) },
      ...(advice.isConstrained
        ? { constraint: { complaints: complaints!.limit, frequency: round(complaints!.from!) } }
        : {}),
      warnings: advice.warnings,
      policy: policyLine(advice) ?? null,
      fit: { engagement: fitOf(engagement, ['a', 'b']), churn: fitOf(churn, ['c', 'd']) },
      ...(complaints === undefined
        ? {}
        : {
            complaints: {
              limit: complaints.limit,
              bindsFrom: complaints.from === undefined ? null : round(complaints.from),
            },
          }),
      ...(advice.segments.length === 0
        ? {}
        : {
            segments: advice.segments.map(({ name, frequency, interval }) => ({
              name,
              frequency: frequency === undefined ? null : round(frequency),
              interval: interval === undefined ? null : pair(interval),
            })),
          }),
    },
    null,
    2,
  )
}

async function textOf(advice: Advice, { today, io }: Settings & { readonly io: Io }): Promise<string> {
  const { comparison, complaintText, headline, policyLine, reminder, replayCommand } = await import(
    '../advice/recommendation.ts'
  )
  const { significant } = await import('../advice/warnings.ts')
  const { engagement, churn } = advice
  const first = [paint(io, 'bold', headline(advice)), comparison(advice, today), complaintText(advice)]
  const parameters = [
    ['engagement a·ln(1+b·f)', engagement, ['a', 'b']],
    ['churn c·e^(d·f)', churn, ['c', 'd']],
  ] as const
  const lines = parameters.map(([form, { parameters: found, intervals, pValue }, names]) => {
    const each = names.map(
      (name, index) =>
        `${name} = ${significant(found[index]!)} (${intervals[index]!.map(significant).join('–')})`,
    )
    return `${form}: ${each.join(', ')}; fit p = ${significant(pValue)}`
  })
  const percentOf = (point: FitPoint | undefined, of?: 'fitted'): string | undefined =>
    point && aligned(of === 'fitted' ? point.fitted : point.count / point.people)
  const points = table(
    io,
    [
      { title: 'a week', align: 'right', cell: (point) => point.frequency },
      { title: 'people', align: 'right', cell: (point) => point.people.toLocaleString('en') },
      { title: 'engaged', align: 'right', cell: (point) => percentOf(point.engaged) },
      { title: 'curve', align: 'right', cell: (point) => percentOf(point.engaged, 'fitted') },
      { title: 'off by', align: 'right', cell: (point) => deviationOf(point.engaged) },
      { title: 'churned', align: 'right', cell: (point) => percentOf(point.churned) },
      { title: 'curve', align: 'right', cell: (point) => percentOf(point.churned, 'fitted') },
      { title: 'off by', align: 'right', cell: (point) => deviationOf(point.churned) },
    ],
    churn.points.map((churned) => ({
      frequency: churned.frequency,
      people: churned.people,
      engaged: engagement.points.find(({ frequency }) => frequency === churned.frequency),
      churned,
    })),
  )
  const line = policyLine(advice)
  return [
    first.filter((sentence) => sentence !== undefined).join(' '),
    ...advice.warnings.map((warning) => paint(io, 'yellow', `Warning: ${warning}.`)),
    reminder,
    '',
    ...lines,
    '',
    points,
    '',
    ...(line === undefined
      ? []
      : ['In the policy:', `  ${line}`, 'Try it on recorded traffic:', `  ${replayCommand}`]),
  ].join('\n')
}

/** Formats a share with two decimals, so that a column reads well. */
const aligned = (share: number): string => `${(share * 100).toFixed(2)} %`

function deviationOf(point: FitPoint | undefined): string | undefined {
  if (point === undefined) return undefined
  return `${point.deviation < 0 ? '−' : '+'}${Math.abs(point.deviation).toFixed(1)} σ`
}
