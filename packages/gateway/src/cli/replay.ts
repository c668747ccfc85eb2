/**
 * `sluice replay`: takes recorded traffic through the decisions of another policy, in virtual time, and compares what
 * happened, the policy that was in force, and the new one.
 */
import { createReadStream, existsSync, writeFileSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import type { Policy } from '../policy/policy.ts'
import type { Comparison } from '../replay/compare.ts'
import type { ExpectationResult } from '../replay/expect.ts'
import { type Arguments, badUsage, type CommandForm, jsonOption } from './command.ts'
import { exitCodes, type Io } from './io.ts'
import { createProgress } from './progress.ts'
import { checkWritable } from './report-file.ts'
import { table } from './text.ts'

export const form: CommandForm = {
  name: 'replay',
  summary: 'What a policy would have made of recorded traffic.',
  positionals: ['<traffic.ndjson>'],
  options: {
    policy: { value: '<file>', text: 'The policy to try' },
    against: { value: '<file>', text: 'The policy that was in force; else the one that the export names' },
    expect: { value: '<file>', text: 'Expectations; the exit code is 4 where one fails' },
    report: { value: '<file.html>', text: 'Write the comparison as a page with pictures' },
    json: jsonOption,
  },
  examples: [
    ['sluice export > traffic.ndjson', 'The last seven days'],
    ['sluice replay traffic.ndjson --policy new.yaml', 'What would have become of them'],
    [
      'sluice replay traffic.ndjson --policy new.yaml --expect expect.yaml',
      'Exit code 4 where an expectation fails',
    ],
  ],
}

/** The exit code where an expectation fails. */
const unexpected = 4

export async function run(read: Arguments, io: Io): Promise<number> {
  const newFile = read.text('policy')
  if (newFile === undefined) throw badUsage(form, '--policy is missing: the policy to try')
  const file = resolve(io.cwd, read.positionals[0]!)
  if (!existsSync(file)) throw badUsage(form, `there is no file "${read.positionals[0]}"`)
  const [
    { readTraffic, policyOf },
    { loadPolicy },
    { loadExpectations, checkExpectations },
    replays,
    compared,
  ] = await Promise.all([
    import('../replay/traffic.ts'),
    import('../config/policy-file.ts'),
    import('../replay/expect.ts'),
    import('../replay/run.ts'),
    import('../replay/compare.ts'),
  ])
  const load = (name: string): Policy => loadPolicy({ file: resolve(io.cwd, name), cwd: io.cwd }).compiled
  const expectFile = read.text('expect')
  // Mistakes in the files are told before the replay, which may take minutes.
  const expectations = expectFile === undefined ? [] : loadExpectations(resolve(io.cwd, expectFile), io.cwd)
  const newPolicy = load(newFile)
  const oldFile = read.text('against')
  const given = oldFile === undefined ? undefined : load(oldFile)
  const report = read.text('report')
  if (report !== undefined) checkWritable(form, report, io)
  const traffic = await readTraffic(createInterface({ input: createReadStream(file) }))
  const old = given ?? policyOf(traffic.header)

  async function replayed(policy: Policy, name: string) {
    const progress = createProgress(io, name)
    try {
      return await replays.replay({ traffic, policy, onProgress: progress.show })
    } finally {
      progress.end()
    }
  }
  const [nameA, nameB] = namesOf(
    { policy: old, ...(oldFile === undefined ? {} : { file: oldFile }) },
    { policy: newPolicy, file: newFile },
  )
  const a = await replayed(old, nameA)
  const b = newPolicy.version === old.version ? a : await replayed(newPolicy, nameB)
  const comparison = compared.compareReplays({
    traffic,
    a: { name: nameA, policy: old, replayed: a },
    b: { name: nameB, policy: newPolicy, replayed: b },
  })
  const results = checkExpectations(expectations, {
    requests: replays.requestsOf(traffic),
    a: a.fates,
    b: b.fates,
    messagesA: comparison.a.messagesByCategory,
    messagesB: comparison.b.messagesByCategory,
  })
  if (report !== undefined) {
    const { htmlReport } = await import('../replay/html.ts')
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions()
    writeFileSync(resolve(io.cwd, report), htmlReport({ comparison, expectations: results, timeZone }))
  }
  io.out(read.has('json') ? jsonOf(comparison, results) : await textOf(comparison, results, io))
  if (report !== undefined && !read.has('json')) io.out(`\nThe report is in ${report}`)
  return results.every(({ holds }) => holds) ? exitCodes.ok : unexpected
}

interface Side {
  readonly policy: Policy
  /** Absent for the policy that the export names. */
  readonly file?: string
}

/** Names both sides by the policy's `name:` or its file, without folders; two that are called alike by their versions too. */
function namesOf(a: Side, b: Side): readonly [string, string] {
  const short = ({ policy }: Side): string => policy.version.slice(0, 8)
  const nameOf = ({ policy, file }: Side): string =>
    file === undefined
      ? `in force ${policy.name ?? policy.version.slice(0, 8)}`
      : (policy.name ?? basename(file))
  const [one, other] = [nameOf(a), nameOf(b)]
  return one === other && a.policy.version !== b.policy.version
    ? [`${one} ${short(a)}`, `${other} ${short(b)}`]
    : [one, other]
}

const jsonOf = (comparison: Comparison, expectations: readonly ExpectationResult[]): string =>
  JSON.stringify({ ...comparison, expectations }, null, 2)

async function textOf(
  comparison: Comparison,
  expectations: readonly ExpectationResult[],
  io: Io,
): Promise<string> {
  const { textReport } = await import('../replay/text.ts')
  return textReport(comparison, expectations, (titles, rows) =>
    table(
      io,
      titles.map((title, index) => ({
        title,
        align: index === 0 ? ('left' as const) : ('right' as const),
        cell: (row: readonly string[]) => row[index],
      })),
      rows,
    ),
  )
}
