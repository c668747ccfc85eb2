/**
 * Preloaded into the process of each group of test files by `npm test -- --times`. At its end it records how much CPU
 * the process and its children have used; those that still run are not counted.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

/** One line of the record. */
export interface Cost {
  /** Absolute paths: one, or those of a group. */
  readonly files: readonly string[]
  readonly cpuMs: number
}

/** `<record>:<pid of the runner>`: the children of a test file inherit it and are not test files. */
const [, record, runner] = /^(.*):(\d+)$/.exec(process.env.SLUICE_TEST_COSTS ?? '') ?? []

if (record !== undefined && isMainThread && process.ppid === Number(runner))
  process.once('exit', () => {
    const { user, system } = process.cpuUsage()
    const [, first = '', ...others] = process.argv
    const files = others.length === 0 ? [first] : others
    const cost: Cost = { files, cpuMs: (user + system) / 1_000 + childrenMs() }
    appendFileSync(record, `${JSON.stringify(cost)}\n`)
  })

/** `cutime` and `cstime` of proc(5), ticks of 10 ms; only Linux has them. */
function childrenMs(): number {
  const stat = '/proc/self/stat'
  if (!existsSync(stat)) return 0
  const text = readFileSync(stat, 'utf8')
  // The second field, the name of the program in brackets, may hold anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[13]) + Number(fields[14])) * 10
}
