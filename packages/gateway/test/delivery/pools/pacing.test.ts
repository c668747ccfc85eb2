import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { Pacing } from '../../../src/delivery/pools/pacing.ts'
import { fullestWindow } from '../../../src/sandbox/oracle.ts'
import { createHarness, minute, second } from '../../harness.ts'

test('a window that was never full is not paced', () => {
  const pacing = new Pacing(parseWindow('10/s'), 0)
  for (let i = 0; i < 10; i += 1) {
    assert.equal(pacing.freeAt(1_000), 1_000)
    pacing.took(1_000)
  }
})

test('after a full window calls keep their distance, and several may share a millisecond', () => {
  for (const [rate, expected] of [
    ['10/s', 97],
    ['4000/s', 0.2425],
  ] as const) {
    const pacing = new Pacing(parseWindow(rate), 0)
    pacing.full(0)
    let now = 0
    let calls = 0
    for (; now < 1_000; now += 1) {
      while (pacing.freeAt(now) <= now) {
        pacing.took(now)
        calls += 1
      }
    }
    assert.ok(Math.abs(calls - 1_000 / expected) <= 1_000 / expected / 50 + 10, `${rate}: ${calls}`)
  }
})

test('the distance is that of the window with its margin, in whole milliseconds, and a delay of two is caught up', () => {
  const pacing = new Pacing(parseWindow('10/s'), 20)
  pacing.full(0)
  pacing.took(0)
  // 1,020 ms / 10 · 0.97 = 98.94 ms; two may be caught up at the first.
  assert.equal(pacing.freeAt(0), 96)
  pacing.took(96)
  assert.equal(pacing.freeAt(96), 195)
  pacing.took(197)
  assert.equal(pacing.freeAt(197), 294)
  pacing.took(400)
  assert.equal(pacing.freeAt(400), 496, 'more is lost')
  assert.equal(pacing.freeAt(1_019), 1_019)
})

describe('one tenant that floods an account, and others beside it', () => {
  const policy = { version: 1, limits: [] }
  const config = { pools: { email: { provider: 'sandbox', accounts: [{ id: 'one', rate: '100/s' }] } } }

  async function run(noisy: boolean) {
    const harness = await createHarness({ policy, config })
    const waits: number[] = []
    const asked = new Map<string, number>()
    if (noisy) await harness.postMany(flood(1_500), { tenant: 'noisy', module: 'm' })
    for (let at = 0; at < 10 * second; at += 50) {
      await harness.runUntil(harness.start + at)
      const { id } = await harness.post({ recipient: `r-${at}` }, { tenant: `quiet-${at % 20}`, module: 'm' })
      asked.set(id, harness.clock.now())
      if (noisy && at % second === 0) await harness.postMany(flood(100), { tenant: 'noisy', module: 'm' })
    }
    await harness.runFor(2 * minute)
    const sent = harness.sent()
    for (const { id, at } of sent) if (asked.has(id)) waits.push(at - asked.get(id)!)
    assert.equal(waits.length, asked.size)
    const instants = sent.map(({ at }) => at)
    assert.ok(fullestWindow('one', instants, second).most <= 100)
    // The first two windows were filled before any other tenant came. From the second second on, when the account is full all the time.
    const used = instants.filter((at) => at >= harness.start + 2 * second && at < harness.start + 10 * second)
    await harness.check()
    await harness.stop()
    return { longestMs: Math.max(...waits.slice(60)), perSecond: used.length / 8 }
  }

  const flood = (count: number) =>
    Array.from({ length: count }, (_, index) => {
      const id = `n-${index}`
      return {
        to: { id, email: `${id}@example.com` },
        content: { subject: 's', text: `t ${index} ${Math.floor(index / 7)}` },
      }
    })

  test('wait for a place or two, not for the window; and the rate is used up', async () => {
    const { longestMs, perSecond } = await run(true)
    assert.ok(longestMs <= 60, `${longestMs} ms`)
    assert.ok(perSecond >= 95, `${perSecond}/s`)
  })

  test('a tenant alone does not wait', async () => {
    assert.equal((await run(false)).longestMs, 0)
  })
})

test('a tenant that is alone is never paced: what the window admits leaves', async () => {
  const config = { pools: { email: { provider: 'sandbox', accounts: [{ id: 'one', rate: '10/s' }] } } }
  const harness = await createHarness({ policy: { version: 1, limits: [] }, config })
  await harness.postMany(
    Array.from({ length: 30 }, (_, index) => ({
      to: { id: `p-${index}`, email: `p-${index}@example.com` },
      content: { subject: 's', text: `t ${index}` },
    })),
  )
  await harness.runFor(minute)
  const instants = harness.sent().map(({ at }) => at - harness.start)
  assert.deepEqual([...new Set(instants)], [0, 1_020, 2_040])
  await harness.stop()
})
