/**
 * The benchmarks: what each measures and which options it takes, with their defaults. The door (run.ts) lists them,
 * and refuses what none of those asked for takes; each benchmark reads its own options from here.
 */
import { tmpdir } from 'node:os'
import { parseArgs } from 'node:util'

type Value = number | string | boolean

export interface Benchmark {
  readonly what: string
  /** With their defaults; a switch is off. */
  readonly options: Readonly<Record<string, Value>>
  /** True if the competitor is no dependency of the project (bench/package.json). */
  readonly rivals?: true
}

/** The benchmarks that the page shows, by duration. */
export const benchmarks = {
  'limiter-memory': {
    what: 'the library in memory beside exact arrays and token buckets',
    options: { rounds: 5, seconds: 1 },
    rivals: true,
  },
  limits: {
    what: 'the library beside others over Redis and in memory: speed, CPU, bytes, what each lets through',
    options: { rounds: 5, seconds: 0.8, keys: 3_000, minutes: 6, quick: false },
    rivals: true,
  },
  'accept-http': {
    what: 'durable accepts, one a request, beside a route that answers a constant',
    options: { rounds: 5, requests: 20_000 },
  },
  'accept-batch': {
    what: 'durable accepts in batches of 100, beside raw INSERTs',
    options: { rounds: 5, rows: 20_000 },
  },
  'end-to-end': {
    what: 'from POST to settled, beside the stack that one would join together',
    options: { rounds: 5, messages: 30_000 },
    rivals: true,
  },
  fleet: {
    what: 'gateways over PostgreSQL and Redis, from POST to settled, beside the stack and two queues on PostgreSQL',
    options: { rounds: 5, messages: 6_000, minutes: 5, base: '', only: '' },
    rivals: true,
  },
  scheduled: {
    what: 'a million scheduled notifications: speed and memory beside an empty gateway',
    options: { rounds: 5, full: 1_000_000, rows: 5_000 },
  },
  'fleet-waiting': {
    what: 'a million waiting in PostgreSQL: speed, start and memory of a gateway beside an empty one',
    options: { rounds: 5, waiting: 1_000_000, rows: 2_000 },
  },
  fairness: {
    what: 'how long 99 tenants wait while another sends a hundred times its share',
    options: { rounds: 2, seconds: 6 },
  },
} as const satisfies Record<string, Benchmark>

/** Studies of one part, which print their figures; run by name. */
export const studies = {
  observability: {
    what: 'cost of metrics and log: the gateway with and without them, in pairs, from POST to settled',
    options: { rounds: 15, messages: 6_000, control: 0 },
  },
  'before-after': {
    what: 'the gateway of another commit beside this one, in pairs, from POST to settled',
    options: { base: 'HEAD~1', rounds: 15, messages: 6_000 },
  },
  'http-route': {
    what: 'intake over HTTP before any decision, beside a route that answers a constant',
    options: { rounds: 5, seconds: 2 },
  },
  store: {
    what: 'the embedded store beside raw INSERTs of the same rows',
    options: { rounds: 5, rows: 20_000, full: 0, folder: tmpdir() },
  },
  'store-thread': {
    what: 'the embedded store in the owner’s thread and in one of its own',
    options: { rounds: 5, seconds: 2, pace: 3_000, folder: tmpdir() },
  },
  postgres: {
    what: 'the store on PostgreSQL beside plain INSERTs, and what one call of it takes',
    options: { rounds: 5, seconds: 3, pace: 1_000 },
  },
  'store-full': {
    what: 'the embedded store with a million waiting, beside an empty one',
    options: { rounds: 5, rows: 5_000, full: 1_000_000, folder: tmpdir() },
  },
  'quiet-hours': { what: 'nanoseconds a question about quiet hours', options: {} },
  line: { what: 'bytes and microseconds a notification behind a tenant’s limit', options: {} },
  'moving-up': {
    what: 'a cancellation and a wider policy with very many who wait for one limit',
    options: { waiting: 10_000 },
  },
  'throttle-fill': {
    what: 'a Redis that has lost very many who wait is filled: how long others wait for it; and a start with them',
    options: { waiting: 40_000, full: 500_000, rounds: 1, seconds: 3, base: '' },
  },
  websocket: {
    what: 'a quiet tenant beside one with a thousand connections',
    options: { rounds: 1, seconds: 6, connections: 1_000 },
  },
  'websocket-fleet': {
    what: 'from a POST at one gateway until a WebSocket client at another has it',
    options: { seconds: 10, pace: 100 },
  },
  dispatch: {
    what: 'a lease with 1, 50 and 500 accounts, and a whole gateway in virtual time',
    options: { rounds: 5, messages: 20_000 },
  },
  'account-rate': {
    what: 'how much of an account’s rate a new process uses over real sockets, and how long its first calls take',
    options: { rounds: 1, seconds: 20, busy: false, rate: 'all' },
  },
  'account-fleet': {
    what: 'accounts that four processes call over Redis: rates, kills, a 429 storm, blocked accounts, the cost',
    options: { seconds: 20, only: '', openings: 300 },
  },
  threads: { what: 'the CPU of a message by thread (Linux)', options: { rounds: 5, messages: 6_000 } },
  memory: {
    what: 'what the memory of a gateway is made of with a million waiting, and after a restart (Linux)',
    options: { full: 1_000_000, seconds: 80 },
  },
  flood: {
    what: 'how long somebody waits beside a flood of valid requests',
    options: { rounds: 3, seconds: 3 },
  },
  heavy: {
    what: 'how long somebody waits beside the heaviest that another tenant may ask for, and the memory',
    options: { seconds: 10, only: '' },
  },
  'digest-close': {
    what: 'how long somebody waits while the largest digest that a tenant may fill is closed, and the memory',
    options: { full: 400 },
  },
  smtp: {
    what: 'how fast and how evenly mails reach a mail server, by us or by nodemailer',
    options: { connections: 8, nodemailer: false },
  },
} as const satisfies Record<string, Benchmark>

const all = { ...benchmarks, ...studies }
export type Name = keyof typeof all
/** Every one of them, by name. */
export const catalogue: Readonly<Record<Name, Benchmark>> = all

const meanings: Readonly<Record<string, string>> = {
  rounds: 'every contestant is measured once in each',
  base: 'the commit that ours is compared with; fleet keeps no record of such a run',
  control: '1 compares two that are the same, to see how exact a run is',
  waiting: 'how many wait beforehand',
  seconds: 'length of one measurement',
  only: 'some of its rows, separated by commas',
  minutes: 'no round begins that would end later',
  keys: 'subjects that the calls are spread over',
  requests: 'in a round',
  messages: 'in a round',
  rows: 'notifications in a round',
  full: 'notifications that wait in the store beforehand',
  openings: 'of a breaker, for the probes',
  pace: 'notifications a second at a steady pace',
  connections: 'open at once',
  folder: 'where the database lies: another disk has other figures',
  quick: 'a short run, to see that it works; no record',
  rate: '50/5s, 40/s, 20/s or 1000/s alone',
  busy: 'with programs that want every core besides',
  nodemailer: 'nodemailer’s own pool in place of ours',
}

/** One line an option that at least `takenBy` of these benchmarks take: its meaning and its defaults. */
export function optionLines(names: readonly Name[], takenBy: number): string[] {
  const taken = Object.keys(meanings).filter(
    (option) => names.filter((name) => option in catalogue[name].options).length >= takenBy,
  )
  return taken.map((option) => {
    const defaults = new Set(names.map((name) => catalogue[name].options[option]))
    const known = [...defaults].filter((value) => value !== undefined && value !== false)
    const written = `--${option}${defaults.has(false) ? '' : ' <value>'}`
    return `  ${written.padEnd(22)} ${meanings[option]}${known.length > 0 ? ` (${known.join(', ')})` : ''}`
  })
}

type Read<Options> = {
  readonly [Key in keyof Options]: Options[Key] extends number
    ? number
    : Options[Key] extends boolean
      ? boolean
      : string
}

/** From the command line, else the defaults. @throws {TypeError} for what the benchmark does not take. */
export function options<const N extends Name>(
  name: N,
  args: readonly string[] = process.argv.slice(2),
): Read<(typeof all)[N]['options']> {
  const defaults: Readonly<Record<string, Value>> = catalogue[name].options
  const { values } = parseArgs({
    args: [...args],
    options: Object.fromEntries(
      Object.entries(defaults).map(([option, value]) => [
        option,
        { type: typeof value === 'boolean' ? ('boolean' as const) : ('string' as const) },
      ]),
    ),
  })
  const read = Object.entries(values).map(([option, value]) => {
    if (typeof defaults[option] !== 'number') return [option, value]
    if (value === '' || !(Number(value) >= 0))
      throw new TypeError(`--${option} wants a number, not "${value}"`)
    return [option, Number(value)]
  })
  return { ...defaults, ...Object.fromEntries(read) }
}
