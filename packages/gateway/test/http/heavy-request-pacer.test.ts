/** Large bodies and long lists of one tenant, counted in virtual time, and over a socket beside another tenant. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { largeBytes } from '../../src/http/body-parser.ts'
import { createHeavyRequestPacer } from '../../src/http/heavy-request-pacer.ts'
import type { Clock } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { message, startStub } from './stub.ts'

const start = 1_000_000
const mebibyte = 2 ** 20

/** A megabyte a second, and at most 5 s of waiting. */
function begin() {
  const clock = createVirtualClock(start)
  const pacer = createHeavyRequestPacer({
    clock,
    bytesPerSecond: mebibyte,
    waitMaxMs: 5_000,
    rememberedMs: 10_000,
  })
  const begun: number[] = []
  const send = (tenant: string, bytes: number): void => {
    pacer.note(tenant)
    const turn = pacer.pace(tenant, bytes)
    if (turn === undefined) begun.push(clock.now() - start)
    else void turn.then(() => begun.push(clock.now() - start))
  }
  return { clock, pacer, begun, send }
}

test('beside another tenant the bytes of large bodies go on at the pace', async () => {
  const { clock, pacer, begun, send } = begin()
  pacer.note('quiet')
  for (let count = 0; count < 4; count += 1) send('heavy', mebibyte)
  assert.deepEqual(begun, [0])
  await clock.runUntil(start + 2_500)
  assert.deepEqual(begun, [0, 1_000, 2_000])
  await clock.runUntil(start + 3_500)
  assert.deepEqual(begun, [0, 1_000, 2_000, 3_000])
})

test('the large body of one tenant does not wait for those of another', () => {
  const { begun, send } = begin()
  send('one', mebibyte)
  send('two', mebibyte)
  assert.deepEqual(begun, [0, 0])
})

test('a tenant that is alone is not paced, and is alone again when no other has sent a request for a while', async () => {
  const { clock, pacer, begun, send } = begin()
  for (let count = 0; count < 3; count += 1) send('heavy', mebibyte)
  assert.equal(begun.length, 3)
  pacer.note('quiet')
  send('heavy', mebibyte)
  send('heavy', mebibyte)
  assert.equal(begun.length, 4)
  await clock.runUntil(start + 10_000)
  assert.equal(begun.length, 5)
  for (let count = 0; count < 3; count += 1) send('heavy', mebibyte)
  assert.equal(begun.length, 8)
})

test('a large body waits no longer than the longest wait, however many are before it', async () => {
  const { clock, pacer, begun, send } = begin()
  pacer.note('quiet')
  for (let count = 0; count < 50; count += 1) send('heavy', mebibyte)
  await clock.runUntil(start + 5_000)
  assert.equal(begun.length, 50)
})

test('at a graceful shutdown all waiting bodies go on at once', async () => {
  const { pacer, begun, send } = begin()
  pacer.note('quiet')
  for (let count = 0; count < 4; count += 1) send('heavy', mebibyte)
  pacer.close()
  await new Promise(setImmediate)
  assert.deepEqual(begun, [0, 0, 0, 0])
})

/** A clock that stands still, and the timers that were set. */
function standingClock(): { clock: Clock; waiting: (() => void)[] } {
  const waiting: (() => void)[] = []
  const at: Clock['at'] = (_instant, callback) => {
    waiting.push(callback)
    return () => {}
  }
  const soon: Clock['soon'] = (callback) => setImmediate(callback)
  return { clock: { now: () => start, monotonic: () => start, at, soon }, waiting }
}

test('a long list waits for the pace beside another tenant, and short lists and small requests do not', async () => {
  const { clock, waiting } = standingClock()
  const stub = await startStub({ parts: { clock } })
  const list = (tenant: string, limit: number) =>
    stub.ask('GET', `/notifications?limit=${limit}`, undefined, { 'x-tenant-id': tenant })
  for (let count = 0; count < 3; count += 1) assert.equal((await list('heavy', 500)).status, 200)
  assert.equal(waiting.length, 0, 'a tenant that is alone is not paced')
  assert.equal((await list('quiet', 10)).status, 200)
  assert.equal((await list('heavy', 500)).status, 200)
  const paced = list('heavy', 500)
  for (let tries = 0; waiting.length === 0 && tries < 100; tries += 1)
    assert.equal((await list('quiet', 10)).status, 200)
  assert.equal(waiting.length, 1, 'the next long list waits')
  const before = stub.listed.length
  assert.equal((await list('heavy', 100)).status, 200)
  assert.equal((await list('quiet', 500)).status, 200)
  assert.equal((await stub.ask('POST', '/notifications', message, { 'x-tenant-id': 'heavy' })).status, 202)
  assert.equal(stub.listed.length, before + 2)
  waiting[0]!()
  assert.equal((await paced).status, 200)
})

test('a large request waits for the pace, and small requests of its tenant and of others do not', async () => {
  const { clock, waiting } = standingClock()
  const stub = await startStub({ parts: { clock } })
  const body = JSON.stringify(message)
  const send = (tenant: string, text: string) =>
    stub.ask('POST', '/notifications', text, { 'x-tenant-id': tenant })
  const large = ' '.repeat(largeBytes) + body
  assert.equal((await send('quiet', body)).status, 202)
  assert.equal((await send('heavy', large)).status, 202)
  const paced = send('heavy', large)
  while (waiting.length === 0) assert.equal((await send('quiet', body)).status, 202)
  const before = stub.drafts.length
  assert.equal((await send('heavy', body)).status, 202)
  assert.equal((await send('quiet', body)).status, 202)
  assert.equal(stub.drafts.length, before + 2)
  waiting[0]!()
  assert.equal((await paced).status, 202)
})

test('the thread that parses large bodies has a lower priority than the event loop', {
  skip: process.platform !== 'linux',
}, async () => {
  const niceValues = (): number[] =>
    readdirSync('/proc/self/task').map((task) => {
      // The 19th field; the name before it may hold spaces.
      const stat = readFileSync(`/proc/self/task/${task}/stat`, 'utf8')
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
    })
  const [own] = niceValues()
  const stub = await startStub()
  await stub.ask('POST', '/notifications', ' '.repeat(largeBytes) + JSON.stringify(message))
  const [first, ...others] = niceValues()
  assert.equal(first, own)
  assert.ok(others.some((nice) => nice > own!))
})
