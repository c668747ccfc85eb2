/**
 * The limiter in memory, measured. As a contestant it is put beside its peers by their harness
 * (`npm run limiter-memory -- --extra <this file>` there); run by itself it prints what a reservation and its
 * release cost, and what it costs to join a long line. Nothing here asserts: machines are noisy, look at the best.
 *
 * 2026-11-21, 2 cores shared with other work (load 6 to 11), Node 24, CPU time in the peers' harness, median of
 * pairs: one window 120 ns, 1.6 times naive exact arrays (1.3 to 2.2 from run to run); six rules 195 ns, 4.8 times
 * `limiter`'s token buckets, with a quarter of the calls refused by the 3 ms distance; with a distance of 1 ms, so
 * that all are admitted, 6 times. Reservation and release 0.35 to 1.3 µs at best.
 */
import process from 'node:process'
import { createLimits, type Limit, limit, memoryStore } from '../src/index.ts'

interface PeerRule {
  readonly id: string
  readonly scope: string
  readonly limit?: number
  readonly windowMs?: number
  readonly minDistanceMs?: number
}

export default {
  name: 'ours',
  algorithm: 'exact log, reservations',
  sync: true,
  create({ rules }: { readonly rules: readonly PeerRule[] }) {
    const { take } = createLimits({ store: memoryStore() }).sync
    const limits = rules.map(({ id, scope: stream, limit: max, windowMs, minDistanceMs }) =>
      minDistanceMs === undefined
        ? limit(id, `${max}/${windowMs}ms`, { stream })
        : limit(id, [], { stream, minGap: minDistanceMs }),
    )
    return { consume: (subject: string) => take(subject, limits).allowed }
  },
}

const dayMs = 86_400_000
const everything = limit('everything', '10000/30min')
const gap = limit('gap', [], { minGap: '1ms' })
const marketing = [
  limit('marketing', '200/day, 500/week, 1000/month', { stream: 'marketing:email' }),
  limit('category', '1000/30min'),
  everything,
  gap,
]
const product = [limit('product', '500/day', { stream: 'product:push' }), everything, gap]

function report(name: string, timesUs: readonly number[]): void {
  const sorted = timesUs.toSorted((a, b) => a - b)
  const [best, middle] = [sorted[0]!, sorted[sorted.length >> 1]!]
  process.stdout.write(`${name.padEnd(58)} best ${best.toFixed(2)} µs, median ${middle.toFixed(2)} µs\n`)
}

/** Six rules over four streams, 2,000 people at up to 10 events: one reservation and its release. */
function release(name: string, mixed: boolean, nights: number): void {
  let now = Date.UTC(2026, 10, 21)
  const forbidden = Array.from({ length: nights }, (_, night) => {
    const from = now + (night + 1) * dayMs
    return { from, to: from + dayMs / 3, resumeAt: from + dayMs / 3 + 5_000 }
  })
  const people = Array.from({ length: 2_000 }, (_, index) => `user:${index}`)
  const timesUs: number[] = []
  let ids = 0
  for (let round = 0; round < 15; round += 1) {
    const { sync } = createLimits({ store: memoryStore({ now: () => now }) })
    if (mixed) for (const person of people) for (const rules of [marketing, product]) sync.take(person, rules)
    for (let lap = 0; lap < 8; lap += 1) {
      now += 10_000
      const names = people.map(() => `01JD${String(ids++).padStart(22, '0')}`)
      const start = performance.now()
      for (let index = 0; index < people.length; index += 1) {
        const [person, id] = [people[index]!, names[index]!]
        sync.reserve(person, marketing, { id, forbidden })
        now += 1
        sync.fire(person, id, marketing, { forbidden })
      }
      timesUs.push(((performance.now() - start) / people.length) * 1_000)
    }
  }
  report(name, timesUs)
}

/** A tenant over its limit: 10,000 reservations behind one another, one after the other measured in thousands. */
function line(name: string, firm: boolean): void {
  const now = Date.UTC(2026, 10, 21)
  const rules: readonly (readonly Limit[])[] = [0, 1, 2].map((module) => [
    limit('tenant', '100/min'),
    limit('module', '50/min', { stream: `module:${module}` }),
  ])
  const timesUs: number[] = []
  for (let round = 0; round < 3; round += 1) {
    const { sync } = createLimits({ store: memoryStore({ now: () => now }) })
    for (let thousand = 0; thousand < 10; thousand += 1) {
      const start = performance.now()
      for (let place = 0; place < 1_000; place += 1) {
        sync.reserve('tenant', rules[place % 3]!, { id: `${thousand}:${place}`, firm })
      }
      timesUs.push(performance.now() - start)
    }
  }
  report(name, timesUs)
}

if (process.argv[1] === import.meta.filename) {
  release('reserve + fire, one set of rules a person', false, 0)
  release('reserve + fire, people under several sets', true, 0)
  release('reserve + fire, several sets, nine quiet nights ahead', true, 9)
  line('reserve in a line of 10,000, to be fired', false)
  line('reserve in a line of 10,000, firm', true)
}
