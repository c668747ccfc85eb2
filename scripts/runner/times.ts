/** Says where the time of a run goes, for `npm test -- --times`: by group of files, how long it took and how much CPU it used. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Cost } from './cost.ts'
import { type Group, nameOf } from './groups.ts'

const shownMax = 40

export interface Times {
  /** Arguments of Node for each test file. */
  readonly execArgv: readonly string[]
  took(group: Group, ms: number): void
  /** The slowest groups; what all took together. Call it once, at the end. */
  table(): string
}

export function startTimes(root: string): Times {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-times-'))
  const record = join(folder, 'costs.jsonl')
  process.env.SLUICE_TEST_COSTS = `${record}:${process.pid}`
  const took: { readonly group: Group; readonly ms: number }[] = []
  return {
    execArgv: [`--import=${fileURLToPath(new URL('./cost.ts', import.meta.url))}`],
    took: (group, ms) => void took.push({ group, ms }),
    table() {
      const lines = readFileSync(record, { encoding: 'utf8', flag: 'a+' }).split('\n').filter(Boolean)
      rmSync(folder, { recursive: true })
      const costs = new Map(
        lines.map((line) => JSON.parse(line) as Cost).map(({ files, cpuMs }) => [files.join(), cpuMs]),
      )
      const rows = took
        .map(({ group, ms }) => ({
          group,
          ms,
          cpuMs: costs.get(group.map((file) => `${root}/${file}`).join()) ?? 0,
        }))
        .sort((a, b) => b.ms - a.ms)
      const row = (ms: number, cpuMs: number, file: string) =>
        `${(ms / 1_000).toFixed(1).padStart(8)} ${(cpuMs / 1_000).toFixed(1).padStart(8)}  ${file}`
      const sum = (of: 'ms' | 'cpuMs') => rows.reduce((all, each) => all + each[of], 0)
      return [
        `${'seconds'.padStart(8)} ${'CPU'.padStart(8)}  files`,
        ...rows.slice(0, shownMax).map(({ group, ms, cpuMs }) => row(ms, cpuMs, nameOf(group))),
        row(sum('ms'), sum('cpuMs'), `all ${rows.length} processes`),
      ].join('\n')
    },
  }
}
