/** The clock of a server that several processes follow, and the processes beside each other. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock, type SystemClock } from '../../../src/adapters/clock.ts'
import { MemberClocks } from '../../../src/store/postgres/fleet/member-clocks.ts'
import { openPostgresFleet, type PostgresFleet } from '../../../src/store/postgres/fleet/open-fleet.ts'
import { ServerReadings } from '../../../src/store/postgres/fleet/server-clock.ts'
import { addressOf, dropSchemas, schemaUrl } from './database.ts'
import { startProxy } from './proxy.ts'

test('the quickest of the last eight readings counts', () => {
  const readings = new ServerReadings()
  readings.add({ leadMs: 1_000, errorMs: 1 })
  for (let index = 0; index < 7; index += 1) readings.add({ leadMs: 1_004, errorMs: 20 })
  assert.equal(readings.best?.leadMs, 1_000)
  readings.add({ leadMs: 1_004, errorMs: 19 })
  assert.equal(readings.best?.leadMs, 1_004)
})

test('a reading of a process that was stopped meanwhile counts only where there is no other', () => {
  const readings = new ServerReadings()
  readings.add({ leadMs: 31_000, errorMs: 30_000 })
  assert.equal(readings.best?.leadMs, 31_000)
  readings.add({ leadMs: 1_000, errorMs: 1 })
  readings.add({ leadMs: 31_000, errorMs: 30_000 })
  assert.equal(readings.best?.leadMs, 1_000)
})

test('where eight readings in a row are slow, the quickest of them counts', () => {
  const readings = new ServerReadings()
  readings.add({ leadMs: 1_000, errorMs: 1 })
  for (let index = 0; index < 7; index += 1) readings.add({ leadMs: 1_040, errorMs: 110 - index })
  assert.equal(readings.best?.errorMs, 1)
  readings.add({ leadMs: 1_050, errorMs: 130 })
  assert.deepEqual(readings.best, { leadMs: 1_040, errorMs: 104 })
  readings.add({ leadMs: 1_060, errorMs: 102 })
  assert.equal(readings.best?.leadMs, 1_060)
  readings.add({ leadMs: 1_010, errorMs: 2 })
  readings.add({ leadMs: 31_000, errorMs: 30_000 })
  assert.equal(readings.best?.leadMs, 1_010)
})

test('a clock that was set is believed with the first reading that shows it', () => {
  const readings = new ServerReadings()
  readings.add({ leadMs: 1_000, errorMs: 1 })
  readings.add({ leadMs: 1_020, errorMs: 12 })
  assert.equal(readings.best?.leadMs, 1_000, 'both may be true')
  readings.add({ leadMs: 3_601_000, errorMs: 50 })
  assert.equal(readings.best?.leadMs, 3_601_000)
})

/** A telling of another member, which is wrong by 1 ms at most. */
const telling = (told: number, aheadMs: number, errorMs = 1) => [{ id: 'b', told, aheadMs, errorMs }]
const own = { aheadMs: 300, errorMs: 2 }

test('a process has fallen behind another one where three of its readings show it', () => {
  const clocks = new MemberClocks()
  assert.equal(clocks.behindMs({ aheadMs: 0, errorMs: 2 }, telling(1, 0)), 0)
  for (const told of [1, 2, 2, 3]) assert.equal(clocks.behindMs(own, telling(told, 0)), 0, `telling ${told}`)
  assert.equal(clocks.behindMs(own, telling(4, -0.5)), 300.5)
  assert.equal(clocks.behindMs({ aheadMs: 0, errorMs: 2 }, telling(5, 0)), 0)
})

test('a server whose clock was set is ahead of all alike: what was told before says nothing', () => {
  const clocks = new MemberClocks()
  const [before, behind] = [
    { aheadMs: 0, errorMs: 2 },
    { aheadMs: 300, errorMs: 2 },
  ]
  assert.equal(clocks.behindMs(before, telling(1, 0)), 0)
  for (const told of [1, 2]) assert.equal(clocks.behindMs(behind, telling(told, 0)), 0)
  for (const told of [3, 4, 5, 6]) assert.equal(clocks.behindMs(behind, telling(told, 300)), 0)
})

test('nobody follows by less than readings may be wrong, nor by more than a process lives that stands still', () => {
  const clocks = new MemberClocks()
  for (let told = 1; told < 9; told += 1) {
    assert.equal(clocks.behindMs({ aheadMs: 90, errorMs: 40 }, telling(told, 0, 40)), 0)
    assert.equal(clocks.behindMs({ aheadMs: 25_000, errorMs: 1 }, telling(told, 0)), 0)
  }
})

describe('processes over one PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('have one time, also where the machine of one stood still', async (t) => {
    const url = schemaUrl('clocks')
    let stoodMs = 0
    const standing = createSystemClock({
      wall: () => Date.now() - 7_200_000 - stoodMs,
      monotonic: () => performance.now() - stoodMs,
    })
    const going = createSystemClock()
    for (const clock of [standing, going]) await open(t, url, clock)
    const apartMs = (): number => Math.abs(going.now() - standing.now())
    assert.ok(apartMs() <= 20, `${apartMs()} ms apart at the start, with wall clocks two hours apart`)
    stoodMs = 300
    assert.ok(apartMs() >= 270)
    for (const until = performance.now() + 15_000; apartMs() > 30 && performance.now() < until; )
      await new Promise((resolve) => setTimeout(resolve, 20))
    assert.ok(apartMs() <= 30, `${apartMs()} ms apart`)
    assert.equal(standing.aheadMs(), 0)
  })

  test('are read also over a line that has become slow', async (t) => {
    const proxy = await startProxy(schemaUrl('slow'))
    const { clockErrorMs } = await open(t, proxy.url, createSystemClock())
    t.after(proxy.close)
    const until = async (isSo: (errorMs: number) => boolean) => {
      for (const end = performance.now() + 30_000; !isSo(clockErrorMs() ?? Number.NaN); await sleep(20))
        assert.ok(performance.now() < end, `it may be wrong by ${clockErrorMs()} ms`)
    }
    await until((errorMs) => errorMs < 100)
    proxy.delayAnswers(230)
    await until((errorMs) => errorMs >= 115)
    proxy.delayAnswers(0)
  })
})

async function open(t: TestContext, url: string, clock: SystemClock): Promise<PostgresFleet> {
  const fleet = await openPostgresFleet({
    address: addressOf(url),
    clock,
    version: '0.0.0',
    channels: ['email'],
    policy: () => 'policy',
    onDeclaredDead: () => {},
    onNotDurable: () => {},
    onError: () => {},
    beatMs: 200,
  })
  t.after(async () => {
    await fleet.members.close()
    await fleet.store.close()
  })
  return fleet
}
