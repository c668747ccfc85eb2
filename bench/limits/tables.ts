/** The tables of docs/reference/limits-benchmarks.md, written from results/limits.json between two marks. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { median, type Result } from '../figures.ts'
import { table, writeBetween } from '../markdown.ts'
import type { Found, Measured } from './findings.ts'
import { inMemory, overRedis, type SetName, setNames } from './rules.ts'

const page = join(import.meta.dirname, '../../docs/reference/limits-benchmarks.md')
const guide = join(import.meta.dirname, '../../docs/guides/choosing-a-limiter.md')

/** The name of a contestant in the tables, and its description. */
const titles: Readonly<Record<string, readonly [name: string, kind: string]>> = {
  sluice: ['**@sluice/limits**', 'exact log, one script'],
  'rate-limiter-flexible': ['rate-limiter-flexible', 'fixed windows, a script a rule'],
  upstash: ['@upstash/ratelimit, its script', 'two weighted counters, a script a rule'],
  'gcra-script': ['GCRA by hand', 'one number a rule, one script'],
  'zset-script': ['sorted sets by hand', 'exact log a rule, one script'],
  'zset-per-rule': ['sorted sets, as blog posts do it', 'exact log a rule, read then write'],
  'rolling-rate-limiter': ['rolling-rate-limiter', 'exact log a rule, MULTI'],
  'floor-get-set': ['floor: GET and SET of 300 bytes', 'a script that decides nothing'],
  'floor-empty': ['floor: an empty script', 'a script that decides nothing'],
  'sluice-memory': ['**@sluice/limits**', 'exact log, all or nothing'],
  arrays: ['naive exact arrays', 'exact log a rule, filtered each call'],
  limiter: ['limiter', 'token buckets, chained'],
  'rate-limiter-flexible-memory': ['rate-limiter-flexible', 'fixed windows'],
  'rolling-rate-limiter-memory': ['rolling-rate-limiter', 'exact log a rule'],
  bottleneck: ['bottleneck', 'a scheduler with a reservoir'],
}

export function writeTables(): void {
  const result: Result = JSON.parse(readFileSync(join(import.meta.dirname, '../results/limits.json'), 'utf8'))
  const found = result.detail as Found
  const { date, rounds, cpus, node, load, notes } = result
  const made = `${date.slice(0, 10)}, ${rounds} ${rounds === 1 ? 'round' : 'rounds'}, ${cpus} cores, Node ${node}, load average at the start ${load}. Medians.`
  const tables = [
    ...notes.filter((note) => note.startsWith('**')),
    'Over Redis:',
    redisTable(found),
    'In memory, one core, decisions/s:',
    memoryTable(found),
    'Bytes of a subject in Redis at 10 · 100 events:',
    bytesTable(found),
    'Limited to 10 a second, the most that passed within one second when somebody was out to get more, and how many of 64 simultaneous calls passed:',
    behaviourTable(found),
    [...notes.filter((note) => !note.startsWith('**')), made].map((note) => `- ${note}`).join('\n'),
  ]
  writeBetween(page, 'limits', tables.join('\n\n'))
  writeBetween(
    guide,
    'limits',
    [...notes.filter((note) => note.startsWith('**')), behaviourTable(found), made].join('\n\n'),
  )
}

const name = (id: string): string => titles[id]![0]
const named = (id: string): string => `${name(id)}<br>${titles[id]![1]}`

function redisTable({ loads }: Found): string {
  const cell = (measured: readonly Measured[] | undefined): string => {
    if (measured === undefined) return '–'
    const of = (figure: 'perSecond' | 'p99Ms' | 'redisCpuMicros') =>
      median(measured.map((each) => each[figure]))
    return `${thousands(of('perSecond'))} · ${of('p99Ms').toFixed(1)} · ${of('redisCpuMicros').toFixed(1)}`
  }
  return table(
    ['decisions/s · p99 ms · Redis CPU µs', ...setNames],
    overRedis.map((id) => [named(id), ...setNames.map((set) => cell(loads[id]?.[set]))]),
  )
}

function memoryTable({ loads }: Found): string {
  const cell = (id: string, set: SetName): string => {
    const measured = loads[id]?.[set]
    return measured === undefined ? '–' : thousands(median(measured.map(({ perSecond }) => perSecond)))
  }
  return table(
    ['', ...setNames],
    inMemory.map((id) => [named(id), ...setNames.map((set) => cell(id, set))]),
  )
}

function bytesTable({ bytes }: Found): string {
  const cell = (id: string, set: SetName): string => {
    const found = bytes[id]?.[set]
    return found === undefined ? '–' : `${thousands(found.at10)} · ${thousands(found.at100)}`
  }
  return table(
    ['', ...setNames],
    overRedis.filter((id) => bytes[id]).map((id) => [name(id), ...setNames.map((set) => cell(id, set))]),
  )
}

function behaviourTable({ behaviour }: Found): string {
  const rows = [...overRedis, ...inMemory].flatMap((id) => {
    const found = behaviour[id]
    if (found === undefined) return []
    const place = (overRedis as readonly string[]).includes(id) ? 'Redis' : 'memory'
    return [[`${name(id)}, ${place}`, titles[id]![1], String(found.worstWindow), String(found.raced)]]
  })
  return table(['limited to 10', 'what it is', 'worst rolling second', 'of 64 at once'], rows)
}

const thousands = (value: number): string => Math.round(value).toLocaleString('en-US')
