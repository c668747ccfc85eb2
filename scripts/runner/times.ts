/** Says where the time of a run goes, for `npm test -- --times`: by file, how long it took and how much CPU it used. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Cost } from './cost.ts'

const shownMax = 40

export interface Times {
  /** Arguments of Node for each test file. */
  readonly execArgv: readonly string[]
  took(file: string, ms: number): void
  /** The slowest files; what the files took in all. Call it once, at the end. */
  table(): string
}

export function startTimes(root: string): Times {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-times-'))
  const record = join(folder, 'costs.jsonl')
  process.env.SLUICE_TEST_COSTS = `${record}:${process.pid}`
  const took: { readonly file: string; readonly ms: number }[] = []
  return {
    execArgv: [`--import=${fileURLToPath(new URL('./cost.ts', import.meta.url))}`],
    took: (file, ms) => void took.push({ file, ms }),
    table() {
      const lines = readFileSync(record, { encoding: 'utf8', flag: 'a+' }).split('\n').filter(Boolean)
      rmSync(folder, { recursive: true })
      const costs = new Map(
        lines.map((line) => JSON.parse(line) as Cost).map((cost) => [cost.file, cost.cpuMs]),
      )
      const rows = took
        .map(({ file, ms }) => ({ file, ms, cpuMs: costs.get(`${root}/${file}`) ?? 0 }))
        .sort((a, b) => b.ms - a.ms)
      const row = (ms: number, cpuMs: number, file: string) =>
        `${(ms / 1_000).toFixed(1).padStart(8)} ${(cpuMs / 1_000).toFixed(1).padStart(8)}  ${file}`
      const sum = (of: 'ms' | 'cpuMs') => rows.reduce((all, each) => all + each[of], 0)
      return [
        `${'seconds'.padStart(8)} ${'CPU'.padStart(8)}  file`,
        ...rows.slice(0, shownMax).map(({ file, ms, cpuMs }) => row(ms, cpuMs, file)),
        row(sum('ms'), sum('cpuMs'), `all ${rows.length} files`),
      ].join('\n')
    },
  }
}
