/**
 * `sluice simulate`: runs a scenario in virtual time, first without any protection and then under a policy, to
 * show the effect of a policy before it goes live.
 */
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { PolicyConfig } from '../config/config.ts'
import type { FigureRow } from '../simulation/report.ts'
import type { RunResult } from '../simulation/run.ts'
import type { Scenario } from '../simulation/scenario.ts'
import { type Arguments, badUsage, type CommandForm, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { createProgress } from './progress.ts'
import { checkWritable } from './report-file.ts'
import { table } from './text.ts'

export const form: CommandForm = {
  name: 'simulate',
  summary: 'Run a scenario in virtual time: without protection, then under a policy.',
  positionals: ['[scenario]'],
  options: {
    policy: { value: '<file>', text: 'The policy to try; else the built-in one' },
    against: { value: '<file>', text: 'A second policy, to compare it with' },
    report: { value: '<file.html>', text: 'Write the comparison as a page with pictures' },
    seed: { value: '<number>', text: 'Another run of the same scenario; the same number gives the same run' },
    json: jsonOption,
  },
  examples: [
    ['sluice simulate', 'List the scenarios that ship with the product'],
    ['sluice simulate war-story', 'An author posts 47 times in a day to 10,000 followers'],
    [
      'sluice simulate traffic.yaml --policy new.yaml --against old.yaml --report out.html',
      'What would change',
    ],
  ],
}

const shipped = fileURLToPath(new URL('../../scenarios', import.meta.url))

export async function run(read: Arguments, io: Io): Promise<number> {
  const [named] = read.positionals
  if (named === undefined) return list(io)
  const { loadScenario } = await import('../simulation/scenario.ts')
  const scenario = loadScenario(fileOf(named, io), io.cwd)
  const seed = seedOf(read.text('seed'), scenario)
  const policies = await policiesOf(read.text('policy'), read.text('against'), io)
  const report = read.text('report')
  if (report !== undefined) checkWritable(form, report, io)
  const runs = await runAll(scenario, policies, seed, io)
  if (report !== undefined) {
    const { htmlReport } = await import('../simulation/report.ts')
    writeFileSync(resolve(io.cwd, report), htmlReport(scenario, seed, runs))
  }
  io.out(read.has('json') ? jsonOf(scenario, seed, runs) : await textOf(scenario, seed, runs, io))
  if (report !== undefined && !read.has('json')) io.out(`\nThe report is in ${report}`)
  return exitCodes.ok
}

function shippedNames(): readonly string[] {
  return readdirSync(shipped)
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => basename(file, '.yaml'))
}

function list(io: Io): number {
  io.out(
    [
      'Scenarios that ship with the product:',
      ...shippedNames().map((name) => `  ${name}`),
      '',
      'Run one: sluice simulate war-story',
    ].join('\n'),
  )
  return exitCodes.ok
}

/** Finds a scenario: a file, or the name of one that ships with the product. */
function fileOf(named: string, io: Io): string {
  const file = resolve(io.cwd, named)
  if (existsSync(file)) return file
  const own = join(shipped, `${basename(named, '.yaml')}.yaml`)
  if (existsSync(own)) return own
  throw badUsage(form, `there is no file "${named}", and of the scenarios only ${shippedNames().join(', ')}`)
}

function seedOf(text: string | undefined, scenario: Scenario): number {
  if (text === undefined) return scenario.seed
  if (!/^\d{1,10}$/.test(text)) throw badUsage(form, `--seed is a whole number, not "${text}"`)
  return Number(text)
}

interface Named {
  readonly name: string
  readonly policy: PolicyConfig
}

async function policiesOf(
  policy: string | undefined,
  against: string | undefined,
  io: Io,
): Promise<readonly Named[]> {
  const { loadPolicy } = await import('../config/policy-file.ts')
  const { compilePolicy } = await import('../policy/compile.ts')
  const named = (file: string): Named => ({
    name: file,
    policy: loadPolicy({ file: resolve(io.cwd, file), cwd: io.cwd }),
  })
  const unprotected: Named = {
    name: 'unprotected',
    policy: { file: '', builtIn: false, compiled: compilePolicy({ version: 1, limits: [] }) },
  }
  const tried =
    policy === undefined ? { name: 'built-in', policy: loadPolicy({ cwd: io.cwd }) } : named(policy)
  return [unprotected, tried, ...(against === undefined ? [] : [named(against)])]
}

async function runAll(
  scenario: Scenario,
  policies: readonly Named[],
  seed: number,
  io: Io,
): Promise<RunResult[]> {
  const { runScenario } = await import('../simulation/run.ts')
  const runs: RunResult[] = []
  for (const [index, { name, policy }] of policies.entries()) {
    const progress = createProgress(io, name)
    const onProgress = progress.show
    runs.push(await runScenario({ scenario, policy, name, seed, unprotected: index === 0, onProgress }))
    progress.end()
  }
  return runs
}

function jsonOf(scenario: Scenario, seed: number, runs: readonly RunResult[]): string {
  const shown = runs.map((run) => ({
    policy: run.policy,
    accepted: run.accepted,
    delivered: run.delivered,
    merged: run.merged,
    suppressed: run.suppressed,
    digests: run.digests,
    waiting: run.waiting,
    lost: run.lost,
    perRecipientPerDayMax: run.perRecipientPerDayMax,
    perAuthorPerDayMax: run.perAuthorPerDayMax,
    delayMs: run.delayMs,
    ...(run.accounts === undefined ? {} : { accounts: run.accounts }),
    ...run.reactions,
  }))
  return JSON.stringify({ scenario: scenario.name, seed, runs: shown }, null, 2)
}

async function textOf(scenario: Scenario, seed: number, runs: readonly RunResult[], io: Io): Promise<string> {
  const { figureRows, span } = await import('../simulation/report.ts')
  const rows: readonly FigureRow[] = [
    ...figureRows(runs),
    ['delay p50', (run) => span(run.delayMs.p50)],
    ['delay p90', (run) => span(run.delayMs.p90)],
    ['delay p99', (run) => span(run.delayMs.p99)],
  ]
  const columns = [
    { title: '', cell: ([name]: FigureRow) => name },
    ...runs.map((run) => ({
      title: run.policy,
      align: 'right' as const,
      cell: ([, cell]: FigureRow) => cell(run),
    })),
  ]
  return [`${scenario.description || scenario.name} (seed ${seed})`, '', table(io, columns, rows)].join('\n')
}
