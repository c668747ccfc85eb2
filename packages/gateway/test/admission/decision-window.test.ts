/** Drafts that are decided at once where their limits stand on a server (decision-window.ts). */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { createDecisionWindow } from '../../src/admission/decision-window.ts'
import type { Draft } from '../../src/model.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const begunAt = Date.UTC(2026, 11, 1)

function openWindow() {
  const clock = createVirtualClock(begunAt)
  const window = createDecisionWindow(clock)
  /** The requests that are being decided, by their names, in the order in which they have begun. */
  const begun: string[] = []
  const ends = new Map<string, (error?: Error) => void>()
  async function ask(
    tenant: string,
    name: string,
    drafts = 64,
    priority: 'normal' | 'critical' = 'normal',
    isRetry = false,
  ) {
    const request = {
      caller: { tenant, module: 'tests' },
      drafts: Array.from(
        { length: drafts },
        (_, at): Draft => ({
          to: { id: `r${at}`, email: 'ada@example.com' },
          channel: 'email',
          category: 'news',
          priority: at === 0 ? priority : 'normal',
          content: { text: name },
        }),
      ),
    }
    const work = () =>
      new Promise<string>((resolve, reject) => {
        begun.push(name)
        ends.set(name, (error) => (error === undefined ? resolve(name) : reject(error)))
      })
    return window.run(request, isRetry, work)
  }
  async function end(name: string, error?: Error) {
    ends.get(name)!(error)
    await turn()
  }
  return { clock, ask, begun, end }
}

test('small requests are decided side by side, and a batch begins when there is room for a draft of it', async () => {
  const { ask, begun, end } = openWindow()
  const all = [ask('acme', 'one', 1), ask('acme', 'batch', 100), ask('acme', 'two', 1)]
  await turn()
  assert.deepEqual(begun, ['one', 'batch'])
  await end('one')
  assert.deepEqual(begun, ['one', 'batch'], 'the batch alone leaves no room')
  await end('batch')
  assert.deepEqual(begun, ['one', 'batch', 'two'])
  await end('two')
  assert.deepEqual(await Promise.all(all), ['one', 'batch', 'two'])
})

test('tenants take turns, and the requests of one keep their order', async () => {
  const { ask, begun, end } = openWindow()
  for (const name of ['a1', 'a2', 'a3']) void ask('a', name)
  void ask('b', 'b1')
  void ask('c', 'c1')
  await turn()
  for (const name of ['a1', 'a2', 'b1', 'c1']) await end(name)
  assert.deepEqual(begun, ['a1', 'a2', 'b1', 'c1', 'a3'])
})

test('a turn is as many drafts as a batch of another tenant has', async () => {
  const { ask, begun, end } = openWindow()
  void ask('a', 'a1', 100)
  void ask('a', 'a2', 100)
  for (const name of ['b1', 'b2', 'b3']) void ask('b', name, 30)
  await turn()
  await end('a1')
  assert.deepEqual(begun, ['a1', 'a2'])
  await end('a2')
  assert.deepEqual(begun, ['a1', 'a2', 'b1', 'b2', 'b3'])
})

test('one that met a concurrent change has had its turn', async () => {
  const { ask, begun, end } = openWindow()
  void ask('a', 'a1')
  void ask('a', 'a2')
  void ask('a', 'again', 64, 'normal', true)
  await turn()
  assert.deepEqual(begun, ['a1', 'again'])
  await end('a1')
  assert.deepEqual(begun, ['a1', 'again'], 'it takes a place')
  await end('again')
  assert.deepEqual(begun, ['a1', 'again', 'a2'])
})

test('a critical one does not wait, and no other one waits for it', async () => {
  const { ask, begun, end } = openWindow()
  void ask('a', 'a1')
  void ask('b', 'b1')
  void ask('c', 'code', 64, 'critical')
  await turn()
  assert.deepEqual(begun, ['a1', 'code'])
  await end('a1')
  assert.deepEqual(begun, ['a1', 'code', 'b1'])
})

test('one that fails leaves its place, and so does one that takes long, once', async () => {
  const { clock, ask, begun, end } = openWindow()
  const failed = assert.rejects(ask('a', 'fails'), /lost/)
  for (const name of ['long', 'next', 'last']) void ask('a', name)
  await turn()
  await end('fails', new Error('lost'))
  await failed
  assert.deepEqual(begun, ['fails', 'long'])
  await clock.runUntil(begunAt + 299)
  assert.deepEqual(begun, ['fails', 'long'])
  await clock.runUntil(begunAt + 300)
  await turn()
  assert.deepEqual(begun, ['fails', 'long', 'next'])
  await end('long')
  assert.deepEqual(begun, ['fails', 'long', 'next'], 'its place was left before')
  await clock.runUntil(begunAt + 600)
  await turn()
  assert.deepEqual(begun, ['fails', 'long', 'next', 'last'])
})
