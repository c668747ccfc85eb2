import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError, StoreAwayError } from '../../src/errors.ts'
import { createStoreOutage } from '../../src/observability/store-outage.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const error = new StoreAwayError('The store does not answer.')

function setUp() {
  const clock = createVirtualClock(1_000_000)
  const lines: object[] = []
  const line = (fields: object): void => void lines.push(fields)
  const outage = createStoreOutage({ clock, log: { info: line, error: line } })
  const server = { isAway: false, pings: 0 }
  const ping = async (): Promise<void> => {
    server.pings += 1
    if (server.isAway) throw error
  }
  return { clock, lines, outage, server, watch: () => outage.watch({ shown: 'postgres://h', ping }) }
}

test('an outage of the store is told once, with its end, and covers the errors that come of it', async () => {
  const { clock, lines, outage, server, watch } = setUp()
  watch()
  server.isAway = true
  assert.equal(outage.covers(error), false, 'the first one is told: it may be a fault of its own')
  await clock.settle()
  assert.deepEqual(lines, [{ event: 'store.unavailable', store: 'postgres://h', err: error }])
  await clock.runUntil(1_010_500)
  for (let n = 0; n < 50; n += 1) assert.equal(outage.covers(error), true)
  assert.equal(outage.covers(new Error('another fault')), false)
  assert.equal(outage.covers(new SluiceError('STATE_UNAVAILABLE', 'Redis does not answer.')), false)
  assert.equal(outage.covers(new SluiceError('STORE_UNAVAILABLE', 'Too much waits.')), false)
  assert.equal(server.pings, 11)
  server.isAway = false
  await clock.runUntil(1_020_500)
  assert.equal(lines.length, 1, 'it is back when it was calm for ten seconds')
  await clock.runUntil(1_030_000)
  assert.deepEqual(lines.slice(1), [{ event: 'store.available', store: 'postgres://h', awayMs: 11_000 }])
  assert.equal(server.pings, 22)
  assert.equal(outage.covers(error), false)
})

test('a store that answers each look, and refuses what it is asked for in between, is not back', async () => {
  const { clock, lines, outage, server, watch } = setUp()
  watch()
  server.isAway = true
  outage.covers(error)
  await clock.settle()
  server.isAway = false
  for (let n = 0; n < 10; n += 1) {
    await clock.runUntil(clock.now() + 8_000)
    assert.equal(outage.covers(error), true)
  }
  assert.equal(lines.length, 1)
  await clock.runUntil(clock.now() + 15_000)
  assert.equal(lines.length, 2)
})

test('an error of one statement while the store answers is told by itself, each time', async () => {
  const { clock, lines, outage, server, watch } = setUp()
  watch()
  for (let n = 1; n <= 3; n += 1) {
    assert.equal(outage.covers(error), false)
    await clock.settle()
    assert.equal(server.pings, n)
  }
  assert.deepEqual(lines, [])
})

test('a store that nobody watches, yet or any more, is not asked', async () => {
  const { clock, lines, outage, server, watch } = setUp()
  server.isAway = true
  assert.equal(outage.covers(error), false)
  watch()
  outage.covers(error)
  await clock.settle()
  outage.stop()
  const { pings } = server
  await clock.runUntil(1_060_000)
  assert.equal(outage.covers(error), false)
  assert.deepEqual([server.pings, lines.length], [pings, 1])
})

test('a look that is under way at the stop tells nothing', async () => {
  const { clock, lines, outage, server, watch } = setUp()
  watch()
  server.isAway = true
  outage.covers(error)
  outage.stop()
  await clock.runUntil(1_060_000)
  assert.deepEqual([server.pings, lines.length], [1, 0])
})
