/**
 * The cost of quiet hours on the way of a notification: nanoseconds a call over 20 time zones and instants spread
 * over a month, beside one reading of `Intl.DateTimeFormat`, the least that asking the platform each time would
 * cost. Rounds are interleaved; the median of seven is printed.
 *
 *     npm run bench -- quiet-hours
 */
import {
  forbiddenIntervals,
  isQuiet,
  nextAllowed,
  type QuietSpec,
} from '../packages/limits/src/quiet-hours.ts'

const CALLS = 200_000
const ROUNDS = 7
const DAY_MS = 86_400_000
const START_MS = Date.UTC(2026, 2, 1)

const names = `
  UTC Europe/Rome Europe/London America/New_York America/Los_Angeles America/Sao_Paulo America/St_Johns
  Asia/Tokyo Asia/Kolkata Asia/Kathmandu Asia/Shanghai Asia/Tehran Africa/Cairo Africa/Casablanca Africa/Lagos
  Australia/Sydney Australia/Lord_Howe Pacific/Auckland Pacific/Chatham America/Havana`
  .trim()
  .split(/\s+/)
const quiet: QuietSpec[] = names.map((timeZone) => ({ from: '22:00', to: '08:00', timeZone }))
const withLegal = quiet.map((spec) => [spec, { ...spec, from: '21:00' }])
const nothingFree = quiet.map((spec) => [spec, { ...spec, from: '08:00', to: '22:00' }])
const readings = names.map(
  (timeZone) =>
    new Intl.DateTimeFormat('en-US', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
)

const cases: Record<string, (at: number, i: number) => unknown> = {
  isQuiet: (at, i) => isQuiet(at, quiet[i]!),
  nextAllowed: (at, i) => nextAllowed(at, quiet[i]!),
  'nextAllowed, two specs': (at, i) => nextAllowed(at, withLegal[i]!),
  'nextAllowed, nothing free': (at, i) => nextAllowed(at, nothingFree[i]!),
  'forbiddenIntervals, a day': (at, i) => forbiddenIntervals(quiet[i]!, at, at + DAY_MS),
  'forbiddenIntervals, a week, two specs': (at, i) => forbiddenIntervals(withLegal[i]!, at, at + 7 * DAY_MS),
  'Intl.DateTimeFormat, one reading': (at, i) => readings[i]!.format(at),
}

let sink = 0

function nanosecondsPerCall(call: (at: number, i: number) => unknown): number {
  const begin = process.hrtime.bigint()
  // A step coprime to the number of zones and far from a divisor of a day: no pattern to be predicted.
  for (let n = 0; n < CALLS; n++) {
    if (call(START_MS + ((n * 7_919_113) % (30 * DAY_MS)), n % names.length) !== undefined) sink++
  }
  return Number(process.hrtime.bigint() - begin) / CALLS
}

const beginFirst = process.hrtime.bigint()
nextAllowed(START_MS, { from: '22:00', to: '08:00', timeZone: 'Africa/Monrovia' })
const beginNext = process.hrtime.bigint()
const rest = ['Asia/Beirut', 'Asia/Seoul', 'America/Lima', 'Europe/Oslo', 'Asia/Dhaka', 'America/Denver']
for (const timeZone of rest) nextAllowed(START_MS, { from: '22:00', to: '08:00', timeZone })
const end = process.hrtime.bigint()

const measured = new Map<string, number[]>()
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, call] of Object.entries(cases)) {
    const figure = nanosecondsPerCall(call)
    if (round > 0) measured.set(name, [...(measured.get(name) ?? []), figure])
  }
}
for (const [name, figures] of measured) {
  const median = figures.toSorted((a, b) => a - b)[ROUNDS >> 1]!
  console.log(`${name.padEnd(40)} ${median.toFixed(0).padStart(6)} ns`)
}
console.log(`first zone of the process ${(Number(beginNext - beginFirst) / 1e6).toFixed(1)} ms`)
console.log(`first touch of a further zone ${(Number(end - beginNext) / 1e3 / rest.length).toFixed(0)} µs`)
if (sink === 0) throw new Error('nothing was measured')
