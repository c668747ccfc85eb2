import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Budget } from '../../../src/http/websocket/budget.ts'
import { Deadlines } from '../../../src/http/websocket/deadlines.ts'
import { Flusher } from '../../../src/http/websocket/flusher.ts'
import { textFrame } from '../../../src/http/websocket/frame.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

test('tenants take turns: a connection waits behind a few of the others, not behind a thousand', () => {
  const rounds: (() => void)[] = []
  const flusher = new Flusher({ soon: (callback) => rounds.push(callback) })
  const flushed: string[] = []
  const wake = (tenant: string): void => flusher.wake({ tenant, flush: () => flushed.push(tenant) })
  for (let n = 0; n < 1_000; n += 1) wake('noisy')
  wake('quiet')
  rounds.shift()!()
  assert.ok(flushed.includes('quiet') && flushed.indexOf('quiet') <= 8)
  assert.ok(flushed.length <= 40, 'the event loop gets its turn')
  while (rounds.length > 0) rounds.shift()!()
  assert.equal(flushed.length, 1_001)
})

test('a budget allows a second’s worth at once, and then no more than its rate', () => {
  const budget = new Budget(100)
  for (let n = 0; n < 100; n += 1) assert.equal(budget.spend(5_000), 0)
  assert.equal(budget.spend(5_000), 10)
  assert.equal(budget.spend(5_000), 20)
  assert.equal(budget.spend(5_020), 10)
  assert.equal(budget.spend(60_000), 0)
})

test('each connection is called at its instant, again at the next one, and no more once it is closed', async () => {
  const clock = createVirtualClock(0)
  const deadlines = new Deadlines(clock)
  const asked: string[] = []
  deadlines.add(50, {
    onDeadline: (now) => {
      asked.push(`a ${now}`)
      return now < 100 ? now + 30 : undefined
    },
  })
  deadlines.add(20, { onDeadline: (now) => void asked.push(`b ${now}`) })
  await clock.runUntil(1_000)
  assert.deepEqual(asked, ['b 20', 'a 50', 'a 80', 'a 110'])
  deadlines.add(1_100, { onDeadline: () => assert.fail('it has been stopped') })
  deadlines.stop()
  await clock.runUntil(2_000)
})

test('a frame has the head of RFC 6455', () => {
  assert.deepEqual([...textFrame('hé')], [0x81, 3, 0x68, 0xc3, 0xa9])
  assert.deepEqual([...textFrame('x'.repeat(125)).subarray(0, 2)], [0x81, 125])
  assert.deepEqual([...textFrame('x'.repeat(126)).subarray(0, 4)], [0x81, 126, 0, 126])
  assert.deepEqual([...textFrame('x'.repeat(65_535)).subarray(0, 4)], [0x81, 126, 0xff, 0xff])
  assert.deepEqual([...textFrame('x'.repeat(65_536)).subarray(0, 10)], [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0])
  assert.equal(textFrame('x'.repeat(65_536)).length, 10 + 65_536)
})
