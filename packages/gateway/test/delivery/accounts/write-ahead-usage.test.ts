/**
 * Kills and clean restarts at any moment, against a record that reaches the disk when it pleases: whatever happens, the
 * calls that really left are within every window. The check knows only the instants of the calls.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseWindows } from '@sluice/limits'
import { useAsOf, WriteAheadUsage } from '../../../src/delivery/accounts/write-ahead-usage.ts'
import type { Lease } from '../../../src/delivery/pools/lease.ts'
import { Pool } from '../../../src/delivery/pools/pool.ts'
import type { AccountState } from '../../../src/ports/accounts.ts'
import type { AccountRecord } from '../../../src/ports.ts'
import { createSandbox } from '../../../src/providers/sandbox/adapter.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { densest, hour, minute, second, seeded, testSeed } from '../../harness.ts'

const start = Date.UTC(2026, 10, 21, 12)
const name = { channel: 'sms', provider: 'sandbox', account: 'a' } as const

interface Options {
  readonly rate: string
  /** Duration of a write, ms. @defaultValue nothing */
  readonly writeMs?: () => number
}

/** One account with its record on disk and every call that has left, across any number of processes. */
class Rig {
  readonly calls: number[] = []
  now = start
  writes = 0
  entriesMax = 0
  disk: AccountRecord = name
  readonly #rate: string
  readonly #writeMs: () => number
  readonly #provider = createSandbox({ clock: createVirtualClock(start) })
  #pool!: Pool
  #account: AccountState | undefined
  #dirty = false
  #writing: { readonly record: AccountRecord; readonly landsAt: number } | undefined
  #underWay: { readonly lease: Lease; leavesAt: number; endsAt: number }[] = []

  constructor({ rate, writeMs = () => 0 }: Options) {
    this.#rate = rate
    this.#writeMs = writeMs
    this.begin()
  }

  begin(rate = this.#rate): void {
    this.#writing = undefined
    this.#dirty = false
    this.#account = undefined
    // Calls that are not written by now are never written.
    this.#underWay = []
    const account = { id: 'a', options: {} }
    this.#pool = new Pool({
      channel: 'sms',
      provider: this.#provider,
      accounts: [{ account, windows: parseWindows(rate), rate, concurrencyMax: 50 }],
      marginMs: 0,
      now: this.now,
      keep: (_, reservationRequest) => {
        this.#account = reservationRequest
        this.#dirty = true
        this.#write()
      },
    })
    const use = this.disk.use && useAsOf(this.now, this.disk.use)
    this.disk = use === undefined ? name : { ...name, use }
    this.#pool.restore(this.now, [this.disk], this.now)
  }

  #write(): void {
    if (this.#writing !== undefined || !this.#dirty) return
    const record = this.#pool.record(this.#account!, this.now)
    this.#writing = { record, landsAt: this.now + this.#writeMs() }
    this.#dirty = false
    this.writes += 1
    this.entriesMax = Math.max(this.entriesMax, record.use?.calls.length ?? 0)
  }

  step(to: number): void {
    this.now = to
    while (this.#writing !== undefined && this.#writing.landsAt <= to) this.#land()
    for (const call of this.#underWay.splice(0)) {
      if (call.leavesAt <= to) {
        call.lease.left(to)
        this.calls.push(to)
        call.leavesAt = Number.POSITIVE_INFINITY
      }
      if (call.endsAt <= to) call.lease.end()
      else this.#underWay.push(call)
    }
  }

  #land(): void {
    this.disk = this.#writing!.record
    this.#writing = undefined
    this.#account!.recorded()
    this.#write()
  }

  /** Makes as many calls as are free, up to `max`; each leaves and ends later, or is not made after all. */
  call(max: number, leavesAfter = () => 0, endsAfter = () => 0, undone = () => false): number {
    this.step(this.now)
    const leases = this.#pool.lease(this.now, max)
    for (const lease of leases) {
      const leavesAt = this.now + leavesAfter()
      if (undone()) lease.undo()
      else this.#underWay.push({ lease, leavesAt, endsAt: leavesAt + endsAfter() })
    }
    this.step(this.now)
    return leases.length
  }

  /** Makes all calls that are free now. */
  drain(): number {
    let made = 0
    for (let idle = 0; idle < 3; ) {
      const more = this.call(50)
      made += more
      idle = more === 0 ? idle + 1 : 0
    }
    return made
  }

  stop(rate = this.#rate): void {
    while (this.#underWay.length > 0) this.step(this.now + 1)
    this.#account?.retire()
    // A write in progress at the end must not leave calls ahead.
    if (this.#writing !== undefined) this.#land()
    if (this.#account !== undefined) {
      this.disk = this.#pool.record(this.#account, this.now)
      assert.equal(this.disk.use?.ahead ?? 0, 0, 'nothing is ahead after a clean end')
    }
    this.begin(rate)
  }
}

for (const rate of ['40/10s', '3/5s', '20/4s, 90/min', '5/s, 30/10s', '300/10min']) {
  test(`${rate} holds in every window when killed and restarted at any moment (seed ${testSeed})`, (t) => {
    const chance = seeded(testSeed)
    const upTo = (most: number) => () => Math.floor(chance() * most)
    const rig = new Rig({ rate, writeMs: upTo(30) })
    const longest = Math.max(...parseWindows(rate).map(({ windowMs }) => windowMs))
    let kills = 0
    for (let turn = 0; turn < 20_000; turn += 1) {
      rig.step(rig.now + 1 + Math.floor(chance() * (chance() < 0.02 ? longest : longest / 500)))
      const busy = Math.floor(turn / 200) % 3
      if (busy > 0) rig.call(1 + upTo(8)(), upTo(chance() < 0.1 ? 400 : 6), upTo(200), () => chance() < 0.05)
      const fate = chance()
      if (fate < 0.002) rig.stop()
      else if (fate < 0.004) {
        kills += 1
        rig.begin()
      }
    }
    t.diagnostic(`${rig.calls.length} calls, ${rig.writes} writes, ${kills} kills`)
    assert.ok(kills > 10 && rig.calls.length > 200)
    for (const { max, windowMs, text } of parseWindows(rate))
      assert.ok(densest(rig.calls, windowMs) <= max, `${densest(rig.calls, windowMs)} in ${text}`)
  })
}

test(`the record counts every call in every window, at most 1 % of the window late (seed ${testSeed})`, () => {
  const chance = seeded(testSeed)
  const windows = parseWindows('20/4s, 90/min, 1000/h')
  const use = new WriteAheadUsage(windows, 0)
  const ended: number[] = []
  let now = start
  for (let turn = 0; turn < 20_000; turn += 1) {
    now += Math.floor(chance() * (chance() < 0.01 ? minute : second))
    use.take()
    const at = now - Math.floor(chance() * 300)
    use.end(at)
    ended.push(at)
    if (turn % 200 !== 199) continue
    const { calls } = use.record(now)!
    assert.ok(calls.length <= 300, `${calls.length} entries`)
    ended.sort((a, b) => a - b)
    for (const { windowMs } of windows) {
      for (const later of [0, windowMs / 300, windowMs / 3, windowMs - 10]) {
        const from = now + later - windowMs
        const recorded = calls.reduce((sum, [at, count]) => (at > from ? sum + count : sum), 0)
        const since = (instant: number) => ended.filter((at) => at > instant).length
        assert.ok(recorded >= since(from), `${recorded} of ${since(from)} in ${windowMs} ms`)
        assert.ok(recorded <= since(from - windowMs / 90), `${recorded} are too many in ${windowMs} ms`)
      }
    }
  }
})

/** Four hours of a little more than 50,000/h lets go, a restart every seven minutes. */
function saturated(restart: (rig: Rig) => void): Rig {
  const rig = new Rig({ rate: '50000/h' })
  for (let minutes = 0; minutes < 240; minutes += 1) {
    for (let tick = 0; tick < 60; tick += 1) {
      rig.step(start + minutes * minute + tick * second)
      for (let left = 14; left > 0; ) {
        const made = rig.call(left)
        if (made === 0 && rig.call(left) === 0) break
        left -= made
      }
    }
    if (minutes % 7 === 6) restart(rig)
  }
  const { calls } = rig
  assert.ok(calls.every((at, index) => index < 50_000 || at - calls[index - 50_000]! >= hour))
  return rig
}

test('clean restarts cost less than 1 % of the use, and a write covers hundreds of calls', (t) => {
  const undisturbed = saturated(() => undefined)
  const restarted = saturated((rig) => rig.stop())
  const share = restarted.calls.length / undisturbed.calls.length
  t.diagnostic(`${(share * 100).toFixed(2)} % of ${undisturbed.calls.length} calls, with 34 clean restarts`)
  t.diagnostic(`${undisturbed.writes} writes; ${restarted.entriesMax} entries in the longest record`)
  assert.ok(share > 0.99, `${share}`)
  assert.ok(undisturbed.writes < undisturbed.calls.length / 200)
  assert.ok(restarted.entriesMax <= 110, `${restarted.entriesMax}`)
})

test('a kill costs at most the calls written ahead: 500 of 50,000, two of 40', () => {
  for (const [rate, ahead] of [
    ['50000/h', 500],
    ['40/10s', 2],
    ['10/day', 1],
  ] as const) {
    const { max } = parseWindows(rate)[0]!
    const rig = new Rig({ rate })
    for (let tries = 0; tries < max && rig.calls.length < max / 2; tries += 1) rig.call(1)
    assert.equal(rig.calls.length, max / 2)
    rig.step(rig.now + second)
    rig.begin()
    const before = rig.calls.length
    const after = rig.drain()
    assert.ok(before + after <= max && before + after >= max - ahead, `${rate}: ${before} and ${after}`)
  }
})

test('an unused account has nothing written ahead, and kills cost it nothing', () => {
  const rig = new Rig({ rate: '10/day' })
  for (let kills = 0; kills < 20; kills += 1) rig.begin()
  assert.equal(rig.disk.use, undefined)
  rig.call(1)
  rig.call(1)
  for (let kills = 0; kills < 20; kills += 1) rig.begin()
  assert.equal(rig.calls.length, 1)
  assert.equal(rig.drain(), 9)
})

test('calls that count no more are removed from the record', () => {
  const rig = new Rig({ rate: '40/10s' })
  assert.equal(rig.drain(), 40)
  rig.stop()
  assert.equal(
    rig.disk.use?.calls.reduce((sum, [, count]) => sum + count, 0),
    40,
  )
  rig.step(rig.now + 10 * second)
  rig.begin()
  assert.equal(rig.disk.use, undefined)
})

test('a lowered rate counts calls made under the old one, a raised rate admits more', () => {
  const rig = new Rig({ rate: '40/10s' })
  assert.equal(rig.drain(), 40)
  rig.stop('60/10s')
  assert.equal(rig.drain(), 20)
  rig.step(rig.now + 5 * second)
  rig.stop('10/10s')
  assert.equal(rig.drain(), 0)
  rig.step(rig.now + 5 * second)
  assert.equal(rig.drain(), 10)
  rig.stop('10/10s, 75/min')
  assert.equal(rig.drain(), 0)
  rig.step(rig.now + 10 * second)
  assert.equal(rig.drain(), 10, 'of the longer window it knows what the shorter one had kept')
})

test('a full window passes after the clock was set back an hour during downtime', () => {
  for (const end of ['stop', 'begin'] as const) {
    const rig = new Rig({ rate: '40/10min' })
    assert.equal(rig.drain(), 40)
    rig.step(rig.now + minute)
    rig.now -= hour
    rig[end]()
    const restartedAt = rig.now
    assert.equal(rig.drain(), 0)
    rig.step(restartedAt + 10 * minute - 1)
    assert.equal(rig.drain(), 0)
    rig.step(restartedAt + 10 * minute)
    assert.equal(rig.drain(), 40, `${end}: not an hour later`)
  }
})
