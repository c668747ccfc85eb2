import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { exerciseStore, type Random, seededRandom, seedOfRun } from '@sluice/limits-conformance'
import {
  createLimits,
  type Decision,
  entriesOf,
  limit,
  type MemoryLimits,
  memoryStore,
} from '../../src/index.ts'

const day = 86_400_000
const minute = 60_000
const start = Date.UTC(2026, 10, 21)

exerciseStore((world) => ({ store: memoryStore(world) }), { name: 'memory', operations: 10_000 })

describe('the memory store', () => {
  it('drops a subject within two windows of its last call, also without new subjects', () => {
    let now = start
    const store = memoryStore({ now: () => now })
    const { sync } = createLimits({ store })
    const rules = [limit('a', '100/min')]
    for (let index = 0; index < 5_000; index += 1) sync.take(`old${index}`, rules, { id: 'n' })
    now += minute - 1
    for (let call = 0; call < 5_000; call += 1) sync.take('ada', rules)
    assert.equal(store.size, 5_001, 'nothing is over yet')
    now += minute
    for (let call = 0; call < 1_000; call += 1) sync.take('ada', rules)
    assert.equal(store.size, 1)
  })

  it('gives the entries of a subject from which another store decides the same', () => {
    const seed = seedOfRun()
    const random = seededRandom(seed)
    let now = start
    const clock = { now: () => now }
    const rules = [limit('a', '3/min, 5/h'), limit('b', '4/min', { stream: 'b', minGap: '2s' })]
    let store = memoryStore(clock)
    const stays = createLimits({ store: memoryStore(clock) }).sync
    for (let step = 0; step < 1_000; step += 1) {
      now += random.below(20_000)
      const moved = memoryStore(clock)
      moved.sync.restore('ada', entriesOf(store.sync, 'ada'))
      store = moved
      const sync = createLimits({ store }).sync
      const asked = random.below(2) === 0 ? rules : rules.slice(1)
      const id = `n${step - random.below(5)}`
      const of = (limits: typeof sync) =>
        step % 7 === 3 ? limits.cancel('ada', id) : limits.reserve('ada', asked, { id, horizonMs: 90_000 }).at
      assert.equal(of(sync), of(stays), `seed ${seed}, step ${step}`)
    }
    assert.deepEqual(entriesOf(memoryStore().sync, 'nobody'), [])
  })

  it('holds no more of a million rotating subjects than two windows used', () => {
    let now = start
    const store = memoryStore({ now: () => now })
    const { sync } = createLimits({ store })
    const rules = [limit('a', '100/min')]
    const perMinute = 2_000
    let most = 0
    for (let index = 0; index < 40_000; index += 1) {
      now += minute / perMinute
      sync.take(`address${index}`, rules)
      most = Math.max(most, store.size)
    }
    assert.ok(most <= 2 * perMinute, `${most} subjects where two windows used ${2 * perMinute}`)
  })

  it('looks at a subject that is called all the time about once in its window', () => {
    let now = start
    const rules = [limit('a', '2/10s')]
    const store = memoryStore({ now: () => now })
    const { sync } = createLimits({ store })
    for (let call = 0; call < 10_000; call += 1) {
      now += 100
      assert.equal(sync.take('ada', rules).allowed, call % 100 < 2)
    }
    now += 20_000
    sync.take('eve', rules)
    assert.equal(store.size, 1)
  })

  it('never stalls: however many are over at once, a call drops eight of them at most', () => {
    let now = start
    const store = memoryStore({ now: () => now })
    const { sync } = createLimits({ store })
    const rules = [limit('a', '5/min')]
    for (let index = 0; index < 20_000; index += 1) sync.take(`old${index}`, rules)
    now += 2 * minute
    let most = 0
    let calls = 0
    for (; store.size > 2 * calls && calls < 40_000; calls += 1) {
      const before = store.size
      sync.take(`new${calls}`, rules)
      most = Math.max(most, before + 1 - store.size)
    }
    assert.ok(most >= 2 && most <= 8, `a call dropped ${most}`)
    assert.ok(calls < 12_000, `${store.size} are left after ${calls} calls`)
  })

  it('lets no more through when the machine sets its clock back, and less for no longer than a window', (t) => {
    let wall = start
    t.mock.method(Date, 'now', () => wall)
    const { sync } = createLimits({ store: memoryStore() })
    const rules = [limit('a', '5/min')]
    const take = (): number =>
      Array.from({ length: 5 }, () => sync.take('ada', rules)).filter((one) => one.allowed).length
    wall += minute / 2
    assert.equal(take(), 5)
    wall -= 2 * minute
    assert.equal(take(), 0, 'it is the same minute still')
    wall += minute - 1
    assert.equal(take(), 0)
    wall += 1
    assert.equal(take(), 5)
    // It comes back to what it was, and the five have their minute.
    wall += minute + 10_000
    assert.equal(take(), 5)
    wall += 1_000
    assert.equal(take(), 0)
    wall -= 31 * day
    assert.equal(take(), 0)
    wall += minute
    assert.equal(take(), 5)
  })

  it('asks for the time anew in each call, so that a clock that a test puts there counts', (t) => {
    const store = memoryStore()
    const { sync } = createLimits({ store })
    const rules = [limit('a', '1/min')]
    t.mock.timers.enable({ apis: ['Date'], now: start + 50 * 365 * day })
    assert.equal(sync.take('ada', rules).at, start + 50 * 365 * day)
    assert.equal(sync.take('ada', rules).allowed, false)
    t.mock.timers.tick(minute)
    assert.equal(sync.take('ada', rules).allowed, true)
  })

  it('drops subjects by a timer when no calls come, which keeps no process alive', async (t) => {
    t.mock.timers.enable({ apis: ['Date', 'setTimeout'], now: start })
    const store = memoryStore()
    const { sync } = createLimits({ store })
    for (let index = 0; index < 20_000; index += 1) sync.take(`a${index}`, [limit('a', '5/min')])
    sync.take('month', [limit('a', '5/month')])
    for (let tick = 0; tick < 130; tick += 1) t.mock.timers.tick(1_000)
    assert.equal(store.size, 1)
  })

  it('keeps nothing of subjects that were forgotten before they were over', () => {
    let now = start
    const store = memoryStore({ now: () => now })
    const { sync } = createLimits({ store })
    const rules = [limit('a', '5/month')]
    for (let index = 0; index < 10_000; index += 1) {
      sync.take(`a${index}`, rules)
      if (index % 10 > 0) sync.forget(`a${index}`)
    }
    assert.equal(store.size, 1_000)
    now += 60 * day
    for (let call = 0; call < 2_000; call += 1) sync.take('ada', rules)
    assert.equal(store.size, 1)
  })

  it('keeps counted instants for a shorter retention, but never shorter than a window', () => {
    let now = start
    const store = memoryStore({ now: () => now, retentionMs: 0 })
    const { sync } = createLimits({ store })
    const rules = [limit('a', '1/h')]
    sync.take('ada', rules)
    sync.reserve('bob', rules, { id: 'n', notBefore: now + 2 * day })
    now += day / 24 - 1
    for (let index = 0; index < 50; index += 1) sync.check(`x${index}`, rules)
    assert.equal(sync.take('ada', rules).allowed, false)
    now += 1 + day
    for (let call = 0; call < 64 * 20; call += 1) sync.take('eve', rules)
    assert.deepEqual([sync.has('ada'), sync.has('bob')], [false, true])
  })

  it('drops bookings that were not fired for 31 days, and their ids', () => {
    let now = start
    const store = memoryStore({ now: () => now })
    const { sync } = createLimits({ store })
    const rules = [limit('a', '1/h')]
    sync.reserve('ada', rules, { id: 'n' })
    now += 32 * day
    for (let call = 0; call < 64 * 5; call += 1) sync.take('eve', rules)
    assert.equal(sync.has('ada'), false)
  })

  it('drops streams that are over from a subject that lives', () => {
    let now = start
    const store = memoryStore({ now: () => now, retentionMs: 31 * day })
    const { sync } = createLimits({ store })
    const by = (author: number) => [
      limit('all', '900/day'),
      limit('author', '3/day', { stream: `by:${author}` }),
    ]
    for (let author = 0; author < 60; author += 1) sync.take('ada', by(author), { id: `n${author}` })
    assert.equal(sync.check('ada', [limit('x', '1/day', { stream: 'by:59' })]).allowed, false)
    now += 40 * day
    for (let call = 0; call < 64 * 3; call += 1) sync.take('ada', by(60))
    assert.equal(sync.check('ada', [limit('x', '1/month', { stream: 'by:59' })]).rules[0]!.used, 0)
    assert.equal(sync.check('ada', [limit('x', '999/month', { stream: 'all' })]).rules[0]!.used, 3)
  })

  it('goes on counting in streams that it had dropped', () => {
    let now = start
    const store = memoryStore({ now: () => now, retentionMs: 31 * day })
    const { sync } = createLimits({ store })
    // So many streams need a map; one array of rules recurs, and others are made for one call.
    const recurring = [limit('recurring', '1/day')]
    const author = (number: number) => [limit('author', '1/day', { stream: `by:${number}` })]
    const look = () => {
      for (let call = 0; call < 64 * 5; call += 1) sync.take('eve', recurring)
    }
    for (let number = 0; number < 20; number += 1) sync.take('ada', author(number))
    for (let call = 0; call < 3; call += 1) sync.take('ada', recurring)
    now += 20 * day
    sync.take('ada', author(0))
    now += 20 * day
    look()
    // All but one are gone by now, and two of them come back.
    sync.take('ada', author(7))
    sync.take('bob', author(7))
    now += 20 * day
    look()
    assert.deepEqual([sync.has('ada'), sync.has('bob')], [true, true])
    sync.take('ada', recurring)
    now += 20 * day
    look()
    assert.equal(sync.check('ada', [limit('recurring', '9/month')]).rules[0]!.used, 1)
  })

  it('forgets the ids of a busy subject with their instants', () => {
    let now = start
    const { sync } = createLimits({ store: memoryStore({ now: () => now, retentionMs: 31 * day }) })
    const rules = [limit('a', '5/5ms'), limit('b', '50/50ms', { stream: 'b' })]
    // So many others that the walk over the dead does not come by.
    for (let index = 0; index < 5_000; index += 1) sync.take(`other${index}`, rules)
    const rounds = (count: number) => {
      for (let index = 0; index < count; index += 1) {
        now += 1
        assert.equal(sync.take('ada', rules, { id: `n${now}` }).allowed, true)
      }
    }
    rounds(20_000)
    const known = Array.from({ length: 20_000 }, (_, index) =>
      sync.cancel('ada', `n${start + 1 + index}`),
    ).filter(Boolean)
    // Ids are known as long as one of their instants is kept: the newest 128 of a stream, up to twice as many
    // between two trims, and as many again between two looks for forgotten ids.
    assert.ok(known.length >= 128 && known.length <= 4 * 128, `${known.length} ids are known`)
    assert.equal(sync.cancel('ada', `n${start + 1}`), false)
  })
})

interface Entry {
  readonly id: string
  readonly at: number
}

/** Oracle 3: what a caller was told to send, kept by the caller alone, and every literal window of it counted. */
describe('expiry of the memory store', () => {
  const rules = [
    limit('gap', '4/60ms', { stream: 'a', minGap: 7 }),
    limit('all', '6/90ms'),
    limit('a', '9/200ms'),
  ]

  it('fills no window beyond its count, under any mixture of operations and a clock that steps back', (t) => {
    const seed = seedOfRun()
    t.diagnostic(`SLUICE_SEED=${seed}`)
    let released = 0
    for (let run = 0; run < 150; run += 1) {
      const random = seededRandom(seed + run)
      let now = start
      const { sync } = createLimits({ store: memoryStore({ now: () => now }) })
      let gone: Entry[] = []
      for (let step = 0; step < 200; step += 1) {
        now += random.once(30) ? -random.between(1, 80) : random.pick([0, 1, 3, 7, 20])
        gone = apply(sync, random, gone, now)
        assert.equal(overfull(gone), undefined, `SLUICE_SEED=${seed}, run ${run}, step ${step}`)
      }
      released += gone.length
    }
    assert.ok(released > 500, `only ${released} were let go`)
  })

  it('admits no call into a window that another caller forced full', (t) => {
    const seed = seedOfRun()
    t.diagnostic(`SLUICE_SEED=${seed}`)
    for (let run = 0; run < 150; run += 1) {
      const random = seededRandom(seed + run)
      let now = start
      const { sync } = createLimits({ store: memoryStore({ now: () => now }) })
      let gone: Entry[] = []
      for (let step = 0; step < 120; step += 1) {
        now += random.pick([0, 1, 3, 7, 20])
        const forced = random.once(4) ? `f${step}` : undefined
        if (forced !== undefined) {
          sync.force('ada', forced, rules)
          gone = [...gone, { id: forced, at: now }]
          continue
        }
        const before = gone
        gone = apply(sync, random, gone, now)
        const admitted = gone.filter((entry) => !before.includes(entry))
        for (const { at } of admitted) {
          assert.equal(
            overfull(
              gone.filter((entry) => entry.at > at - 200),
              at,
            ),
            undefined,
            `SLUICE_SEED=${seed}, run ${run}, step ${step}`,
          )
        }
      }
    }
  })

  /** One random operation; the entries that have gone after it. */
  function apply(sync: MemoryLimits['sync'], random: Random, gone: Entry[], now: number): Entry[] {
    const id = `n${random.below(12)}`
    const without = gone.filter((entry) => entry.id !== id)
    const after = (decision: Decision) => (decision.fired ? [...without, { id, at: decision.at }] : without)
    const dice = random.below(10)
    if (dice < 2) return sync.cancel('ada', id) ? without : gone
    if (dice < 5) {
      sync.reserve('ada', rules, { id, forbidden: [{ from: now, to: now + random.below(20) }] })
      return gone
    }
    if (dice < 8) return after(sync.fire('ada', id, rules))
    const decision = sync.take('ada', rules, { id })
    // One that has gone already is answered again and goes nowhere.
    return decision.allowed && without.length === gone.length ? after(decision) : gone
  }

  /** A window that holds more than it may, and the instant `holding` where one is given. */
  function overfull(entries: readonly Entry[], holding?: number): string | undefined {
    for (const { windows } of rules) {
      for (const { max, windowMs, text } of windows) {
        for (const { at: from } of entries) {
          if (holding !== undefined && (holding < from || holding >= from + windowMs)) continue
          const within = entries.filter(({ at }) => at >= from && at < from + windowMs).length
          if (within > max) return `${within} in ${text}`
        }
      }
    }
    return undefined
  }
})
