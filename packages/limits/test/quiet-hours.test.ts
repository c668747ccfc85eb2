/**
 * Quiet hours against an independent computation: the wall clock is known from Temporal for every minute around the
 * changes of the clocks, and plain scans over those minutes say what is quiet and when it ends. The cases with
 * dates in them were worked out by hand.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Temporal } from 'temporal-polyfill'
import {
  allowedToQuiet,
  forbiddenIntervals,
  isQuiet,
  nextAllowed,
  parseWallTime,
  QuietHoursError,
  type QuietSpec,
} from '../src/quiet-hours.ts'
import { createReader, DAY_MS, type Days, MINUTE_MS, readDays, wallClock } from './wall-clock-readings.ts'

const SEED = Number(process.env.SLUICE_SEED ?? 20_261_121)
const SEEDS = [SEED, SEED + 1, SEED + 2]
console.log(`quiet-hours: SLUICE_SEED=${SEED}`)

const HOUR_MS = 3_600_000
const YEAR = { from: Date.UTC(2026, 0, 1), to: Date.UTC(2027, 0, 1) }

// Half hours and quarters, changes by 30 minutes and by 2 hours, at midnight, backwards in winter, for Ramadan, none.
const ZONES = `
  UTC Europe/Rome Europe/London Europe/Dublin Antarctica/Troll America/New_York America/Los_Angeles
  America/St_Johns America/Sao_Paulo America/Santiago America/Havana Africa/Cairo Africa/Casablanca Asia/Beirut
  Asia/Gaza Asia/Kolkata Asia/Kathmandu Asia/Tehran Australia/Adelaide Australia/Eucla Australia/Lord_Howe
  Pacific/Chatham Pacific/Auckland Pacific/Apia`
  .trim()
  .split(/\s+/)

const at = (text: string): number => Temporal.Instant.from(text).epochMilliseconds
const utc = (ms: number): string => (Number.isFinite(ms) ? new Date(ms).toISOString() : String(ms))
const times = Array.from({ length: 1440 }, (_, minute) => utc(minute * MINUTE_MS).slice(11, 16))
const hhmm = (minute: number): string => times[minute]!

/** The definition, read on texts: 'HH:MM' sorts as time does. */
function reads(minute: number, { from, to }: QuietSpec): boolean {
  const time = hhmm(minute)
  if (from === to) return false
  return from < to ? from <= time && time < to : from <= time || time < to
}

/** mulberry32. */
function createRandom(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

function changesOf2026(timeZone: string): number[] {
  const changes: number[] = []
  let clock: Temporal.ZonedDateTime | null = wallClock(YEAR.from, timeZone).getTimeZoneTransition('next')
  while (clock !== null && clock.epochMilliseconds < YEAR.to) {
    changes.push(clock.epochMilliseconds)
    clock = clock.getTimeZoneTransition('next')
  }
  return changes.length > 0 ? changes : [Date.UTC(2026, 5, 15)]
}

let days: Days[] | undefined
/** Around every change of 2026 in every zone, and around some rarities: short summers, a day that was skipped. */
function allDays(): Days[] {
  days ??= [
    ...ZONES.flatMap((timeZone) => changesOf2026(timeZone).map((change) => readDays(timeZone, change))),
    readDays('America/Recife', at('2000-10-08T03:00:00Z')),
    readDays('America/Recife', at('2000-10-15T02:00:00Z')),
    readDays('Asia/Gaza', at('2040-10-20T00:00:00Z')),
    readDays('Pacific/Apia', at('2011-12-30T10:00:00Z')),
    readDays('Asia/Pyongyang', at('2018-05-04T15:00:00Z')),
    readDays('America/Caracas', at('2016-05-01T07:00:00Z')),
  ]
  for (const { timeZone, fromMs, wallMinutes } of days) {
    const { hour, minute } = wallClock(fromMs, timeZone)
    assert.equal(wallMinutes[0], hour * 60 + minute, 'the table itself is not what it says: see readDays')
  }
  return days
}

/** Tells for each minute that a wall clock can read whether it is quiet. */
const quietMinutes = (specs: readonly QuietSpec[]): readonly boolean[] =>
  times.map((_, minute) => specs.some((spec) => reads(minute, spec)))

function someSpecs(random: (below: number) => number, { timeZone, wallMinutes }: Days): QuietSpec[] {
  // Half of the times are ones that the clocks read about the change: those are swallowed or repeated.
  const some = () => (random(2) === 0 ? random(1440) : wallMinutes[2 * 1440 - 150 + random(300)]!)
  return Array.from({ length: [1, 1, 2, 3][random(4)]! }, () => {
    const from = some()
    const to = random(8) === 0 ? (from + random(3)) % 1440 : some()
    return { from: hhmm(from), to: hhmm(to), timeZone }
  })
}

function someInstant(random: (below: number) => number, { fromMs, middleMs }: Days): number {
  if (random(2) === 0) return fromMs + random(3 * DAY_MS)
  return middleMs - 4 * HOUR_MS + random(8 * 60) * MINUTE_MS + [0, -1, 1][random(3)]!
}

/** The scan: this instant, or the first whole minute that is (or is not) quiet; undefined beyond the table. */
function scan(
  { fromMs, wallMinutes }: Days,
  quiet: readonly boolean[],
  instantMs: number,
  wanted: boolean,
): number | undefined {
  let i = Math.floor((instantMs - fromMs) / MINUTE_MS)
  if (quiet[wallMinutes[i]!] === wanted) return instantMs
  while (i < wallMinutes.length && quiet[wallMinutes[i]!] !== wanted) i++
  return i < wallMinutes.length ? fromMs + i * MINUTE_MS : undefined
}

describe('quiet hours agree with Temporal', () => {
  test('in every minute of the days around every change of the clocks', () => {
    const random = createRandom(SEED)
    for (const table of allDays()) {
      const fixed = { from: '22:00', to: '08:00', timeZone: table.timeZone }
      for (const specs of [[fixed], ...Array.from({ length: 3 }, () => someSpecs(random, table))]) {
        const quiet = quietMinutes(specs)
        table.wallMinutes.forEach((minute, i) => {
          const instantMs = table.fromMs + i * MINUTE_MS
          if (isQuiet(instantMs, specs) === quiet[minute]) return
          assert.fail(`isQuiet(${utc(instantMs)}, ${JSON.stringify(specs)}) is not ${quiet[minute]}`)
        })
      }
    }
  })

  test('in every hour of a year in every zone', () => {
    for (const timeZone of ZONES) {
      const spec = { from: '22:00', to: '08:00', timeZone }
      const read = createReader(timeZone)
      for (let instantMs = YEAR.from; instantMs < YEAR.to; instantMs += HOUR_MS) {
        const expected = reads(read(instantMs), spec)
        if (isQuiet(instantMs, spec) === expected) continue
        assert.fail(`isQuiet(${utc(instantMs)}, ${JSON.stringify(spec)}) is not ${expected}`)
      }
    }
  })

  for (const seed of SEEDS) {
    test(`in the next allowed instant of random instants and hours (seed ${seed})`, () => {
      const random = createRandom(seed)
      for (const table of allDays()) {
        for (let n = 0; n < 60; n++) {
          const specs = someSpecs(random, table)
          const instantMs = someInstant(random, table)
          const actual = nextAllowed(instantMs, specs.length === 1 ? specs[0]! : specs)
          const expected = scan(table, quietMinutes(specs), instantMs, false)
          const where = `nextAllowed(${utc(instantMs)}, ${JSON.stringify(specs)})`
          if (expected !== undefined) assert.equal(utc(actual), utc(expected), where)
          else assert.ok(actual >= table.fromMs + 6 * DAY_MS, `${where}: ${utc(actual)}`)
        }
      }
    })

    test(`in the forbidden intervals of random ranges and hours (seed ${seed})`, () => {
      const random = createRandom(seed)
      for (const table of allDays()) {
        for (let n = 0; n < 40; n++) {
          const specs = someSpecs(random, table)
          const fromMs = someInstant(random, table)
          const toMs = fromMs + random(2 * DAY_MS)
          const quiet = quietMinutes(specs)
          const expected: string[] = []
          let start = scan(table, quiet, fromMs, true)
          while (start !== undefined && start < toMs) {
            const end = scan(table, quiet, start, false)
            expected.push(`${utc(start)} ${end === undefined ? 'beyond' : utc(end)}`)
            start = end === undefined ? undefined : scan(table, quiet, end, true)
          }
          const tableEndMs = table.fromMs + 6 * DAY_MS
          const actual = forbiddenIntervals(specs, fromMs, toMs).map(
            ({ from, to }) => `${utc(from)} ${to >= tableEndMs ? 'beyond' : utc(to)}`,
          )
          assert.deepEqual(actual, expected, `${utc(fromMs)} to ${utc(toMs)}, ${JSON.stringify(specs)}`)
        }
      }
    })
  }

  test('to the second in the odd offsets of former times', () => {
    const random = createRandom(SEED)
    const quietAt = (instantMs: number, spec: QuietSpec) => {
      const clock = wallClock(instantMs, spec.timeZone)
      return reads(clock.hour * 60 + clock.minute, spec)
    }
    const zones = ['Africa/Monrovia', 'Europe/Paris', 'America/New_York', 'Asia/Kathmandu', 'Asia/Manila']
    for (let n = 0; n < 1_500; n++) {
      const timeZone = zones[n % zones.length]!
      const spec = { from: hhmm(random(1440)), to: hhmm(random(1440)), timeZone }
      const instantMs = Date.UTC(1840, 0, 1) + random(Date.UTC(1990, 0, 1) - Date.UTC(1840, 0, 1))
      const freeMs = nextAllowed(instantMs, spec)
      const where = `${utc(instantMs)}, ${JSON.stringify(spec)}: ${utc(freeMs)}`
      assert.equal(isQuiet(instantMs, spec), quietAt(instantMs, spec), where)
      assert.equal(quietAt(freeMs, spec), false, where)
      for (let i = 0; i < 10 && freeMs > instantMs; i++) {
        assert.ok(quietAt(i === 0 ? freeMs - 1 : instantMs + random(freeMs - instantMs), spec), where)
      }
    }
  })
})

/** The forbidden intervals of a range, as text. */
const quietTimes = (specs: QuietSpec | QuietSpec[], from: string, to: string): string[] =>
  forbiddenIntervals(specs, at(from), at(to)).map((interval) => `${utc(interval.from)}/${utc(interval.to)}`)

describe('when the clocks change', () => {
  const rome = (from: string, to: string) => ({ from, to, timeZone: 'Europe/Rome' })

  test('a start inside the gap moves to the end of the gap', () => {
    // 29 March 2026: 01:59:59 is followed by 03:00:00.
    const intervals = quietTimes(rome('02:30', '04:00'), '2026-03-29T00:00:00Z', '2026-03-29T12:00:00Z')
    assert.deepEqual(intervals, ['2026-03-29T01:00:00.000Z/2026-03-29T02:00:00.000Z'])
  })

  test('an end inside the gap comes with the gap', () => {
    const intervals = quietTimes(rome('22:00', '02:30'), '2026-03-28T12:00:00Z', '2026-03-29T12:00:00Z')
    assert.deepEqual(intervals, ['2026-03-28T21:00:00.000Z/2026-03-29T01:00:00.000Z'])
  })

  test('hours that lie in the gap do not exist on that day', () => {
    const intervals = quietTimes(rome('02:00', '03:00'), '2026-03-28T12:00:00Z', '2026-03-30T12:00:00Z')
    assert.deepEqual(intervals, ['2026-03-30T00:00:00.000Z/2026-03-30T01:00:00.000Z'])
  })

  test('an hour that is repeated is quiet twice', () => {
    // 25 October 2026: 02:59:59 summer time is followed by 02:00:00 winter time.
    assert.deepEqual(quietTimes(rome('02:15', '02:45'), '2026-10-25T00:00:00Z', '2026-10-25T12:00:00Z'), [
      '2026-10-25T00:15:00.000Z/2026-10-25T00:45:00.000Z',
      '2026-10-25T01:15:00.000Z/2026-10-25T01:45:00.000Z',
    ])
  })

  test('quiet hours that end inside the repeated hour end, and come back with it', () => {
    assert.deepEqual(quietTimes(rome('22:00', '02:30'), '2026-10-24T20:00:00Z', '2026-10-25T12:00:00Z'), [
      '2026-10-24T20:00:00.000Z/2026-10-25T00:30:00.000Z',
      '2026-10-25T01:00:00.000Z/2026-10-25T01:30:00.000Z',
    ])
  })

  test('a night over a skipped day is one night', () => {
    // Samoa went from the end of 29 December 2011 straight to 31 December.
    const spec = { from: '22:00', to: '08:00', timeZone: 'Pacific/Apia' }
    const intervals = quietTimes(spec, '2011-12-30T00:00:00Z', '2011-12-31T00:00:00Z')
    assert.deepEqual(intervals, ['2011-12-30T08:00:00.000Z/2011-12-30T18:00:00.000Z'])
  })

  test('offsets to the second are kept to the second', () => {
    // Monrovia was 44 minutes and 30 seconds behind, until midnight there on 7 January 1972.
    const monrovia = (to: string) => ({ from: '22:00', to, timeZone: 'Africa/Monrovia' })
    assert.equal(utc(nextAllowed(at('1970-01-01T00:00:00Z'), monrovia('08:00'))), '1970-01-01T08:44:30.000Z')
    assert.equal(utc(nextAllowed(at('1972-01-07T00:00:00Z'), monrovia('00:30'))), '1972-01-07T00:44:30.000Z')
  })
})

describe('several specs', () => {
  const quiet = { from: '22:00', to: '08:00', timeZone: 'Europe/Rome' }
  const noon = at('2026-06-01T10:00:00Z')

  test('the strictest wins, and touching hours become one interval', () => {
    const specs = [
      { ...quiet, from: '08:00', to: '09:00' },
      quiet,
      { ...quiet, ...allowedToQuiet('08:00-21:00') },
    ]
    assert.deepEqual(forbiddenIntervals(specs, noon, noon + DAY_MS), [
      { from: at('2026-06-01T19:00:00Z'), to: at('2026-06-02T07:00:00Z') },
    ])
  })

  test('none forbids nothing, and neither do hours that end where they begin', () => {
    const ten = at('2026-06-01T20:00:00Z')
    for (const specs of [[], { ...quiet, to: '22:00' }, [{ ...quiet, to: '22:00' }]]) {
      assert.deepEqual([isQuiet(ten, specs), nextAllowed(ten, specs)], [false, ten])
      assert.deepEqual(forbiddenIntervals(specs, noon, noon + 31 * DAY_MS), [])
    }
  })

  test('that leave nothing free have no end', () => {
    const specs = [quiet, { ...quiet, from: '08:00', to: '22:00' }]
    assert.equal(nextAllowed(noon, specs), Infinity)
    assert.deepEqual(forbiddenIntervals(specs, noon, noon + DAY_MS), [{ from: noon, to: Infinity }])
  })

  test('of two zones open where only one of them has changed its clocks', () => {
    // New York is 6 hours behind Rome, but 5 from 8 to 29 March 2026: then 05:00 to 06:00 in Rome is free.
    const inRome = { from: '06:00', to: '18:00', timeZone: 'Europe/Rome' }
    const specs = [inRome, { from: '12:00', to: '00:00', timeZone: 'America/New_York' }]
    assert.equal(utc(nextAllowed(at('2026-01-15T00:00:00Z'), specs)), '2026-03-09T04:00:00.000Z')
    // Summer time lets 03:00 to 04:00 in Rome begin at 01:00 UTC, at the very instant of the change.
    const atTheChange = [
      { ...inRome, from: '04:00', to: '03:00' },
      { from: '02:00', to: '01:00', timeZone: 'UTC' },
    ]
    assert.equal(utc(nextAllowed(at('2026-01-15T00:00:00Z'), atTheChange)), '2026-03-29T01:00:00.000Z')
  })
})

describe('ranges and bounds', () => {
  const quiet = { from: '22:00', to: '08:00', timeZone: 'UTC' }

  test('an interval under way begins with the range, and ends at its own end', () => {
    const [from, to] = [at('2026-06-01T23:00:00Z'), at('2026-06-01T23:30:00Z')]
    assert.deepEqual(forbiddenIntervals(quiet, from, to), [{ from, to: at('2026-06-02T08:00:00Z') }])
  })

  test('a range is half open, and an empty one has no intervals', () => {
    const ten = at('2026-06-01T22:00:00Z')
    assert.deepEqual(forbiddenIntervals(quiet, ten - HOUR_MS, ten), [])
    for (const end of [ten, ten - 1]) assert.deepEqual(forbiddenIntervals(quiet, ten, end), [])
    assert.equal(forbiddenIntervals(quiet, ten - 1, ten + 1).length, 1)
  })

  test('the ends of time are instants like others', () => {
    for (const timeZone of ['UTC', 'Europe/Rome', 'Asia/Manila']) {
      const spec = { from: '00:00', to: '23:59', timeZone }
      for (const end of [-8.64e15, 8.64e15]) assert.ok(nextAllowed(end, spec) - end <= DAY_MS)
    }
  })

  test('answers stay the same when the caches have turned over', () => {
    const spec = { from: '22:00', to: '08:00', timeZone: 'Europe/Rome' }
    const years = Array.from({ length: 40 }, (_, i) => Date.UTC(1990 + 2 * i, 6, 1, 23))
    const check = () => years.forEach((at) => void assert.equal(nextAllowed(at, spec), at + 7 * HOUR_MS))
    check()
    for (const name of Intl.supportedValuesOf('timeZone')) {
      for (const timeZone of [name, name.toLowerCase()]) isQuiet(YEAR.from, { ...spec, timeZone })
    }
    check()
  })
})

describe('values', () => {
  const refused = (code: string, run: () => unknown) =>
    assert.throws(run, (error) => error instanceof QuietHoursError && error.code === code)

  test('wall times are HH:MM', () => {
    for (const [minute, text] of times.entries()) assert.equal(parseWallTime(text), minute * MINUTE_MS)
    for (const text of '|8:00|24:00|23:60|-1:00|22.00|22:00:00| 22:00|22:00\n|２２:00|ab:cd'.split('|')) {
      refused('INVALID_WALL_TIME', () => parseWallTime(text))
    }
    refused('INVALID_WALL_TIME', () => parseWallTime(1320 as unknown as string))
  })

  test('allowed hours are the complement of quiet ones', () => {
    assert.deepEqual(allowedToQuiet('08:00-21:00'), { from: '21:00', to: '08:00' })
    assert.deepEqual(allowedToQuiet('20:00-02:00'), { from: '02:00', to: '20:00' })
    const others = '|08:00|8:00-21:00|08:00-24:00|08:00 - 21:00|08:00-21:00-22:00|08:00-08:00'
    for (const text of others.split('|')) refused('INVALID_ALLOWED_HOURS', () => allowedToQuiet(text))
  })

  test('specs name a time zone of the IANA database', () => {
    for (const timeZone of ['', '+02:00', 'PST', 'Europe/Nowhere'])
      refused('INVALID_TIME_ZONE', () => isQuiet(0, { from: '22:00', to: '08:00', timeZone }))
    refused('INVALID_TIME_ZONE', () => isQuiet(0, [null] as never))
  })

  test('instants are finite epoch milliseconds that a date can hold', () => {
    const spec = { from: '22:00', to: '08:00', timeZone: 'UTC' }
    for (const instantMs of [Number.NaN, Infinity, -Infinity, 8.64e15 + 2, 10n as never]) {
      for (const ask of [isQuiet, nextAllowed]) refused('INVALID_INSTANT', () => ask(instantMs, spec))
      refused('INVALID_INSTANT', () => forbiddenIntervals(spec, 0, instantMs))
      refused('INVALID_INSTANT', () => forbiddenIntervals(spec, instantMs, 0))
    }
  })
})
