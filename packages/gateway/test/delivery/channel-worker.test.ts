import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SendResult } from '../../src/ports.ts'
import { delivered, throttled } from './scripted.ts'
import { createStage, queued, type Stage, second, start } from './stage.ts'

const many = (count: number) => Array.from({ length: count }, (_, index) => queued(`n${index}`))
const instants = (calls: readonly { readonly at: number }[]): number[] => calls.map(({ at }) => at)

test('a worker takes as many notifications as there are leases, and asks the limits for 32 of them together', async (t) => {
  const stage = await createStage(t, { started: false })
  await stage.queue(...many(200))
  stage.start()
  await stage.runFor(0)
  assert.deepEqual(
    stage.fired.map(({ length }) => length),
    [32, 32, 32, 32, 32, 32, 8],
  )
  assert.equal(stage.calls.length, 200)
})

test('a starting worker sends queued notifications, and later ones when they arrive', async (t) => {
  const stage = await createStage(t, { started: false })
  await stage.queue(queued('early'))
  assert.equal(stage.calls.length, 0)
  stage.start()
  await stage.runFor(0)
  assert.equal(stage.calls.length, 1)
  await stage.runFor(second)
  await stage.queue(queued('late'))
  assert.deepEqual(instants(stage.calls), [0, second])
})

test('a worker without a lease sends when the rate of an account has room again', async (t) => {
  const stage = await createStage(t, { rates: ['1/300ms'] })
  await stage.queue(...many(3))
  await stage.runFor(second)
  assert.deepEqual(instants(stage.calls), [0, 300, 600])
})

test('a worker without a lease sends when a call has ended, once for calls that end in the same tick', async (t) => {
  const stage = await createStage(t, {
    rates: [''],
    concurrency: 4,
    send: () =>
      new Promise((resolve) => {
        stage.clock.at(stage.clock.now() + 100, () => resolve(delivered))
      }),
  })
  await stage.queue(...many(8))
  await stage.runFor(100)
  assert.deepEqual(instants(stage.calls).slice(-4), [100, 100, 100, 100])
  assert.deepEqual(stage.fired.at(-1)?.length, 4)
})

test('notifications that wait longer than 5 s while all accounts are out are dead letters, and return when one is back', async (t) => {
  let limited = true
  const answer = (): SendResult => (limited ? throttled('60') : delivered)
  const stage = await createStage(t, { rates: [''], answer })
  await stage.queue(queued('first'))
  limited = false
  await stage.queue(...many(3))
  await stage.runFor(5 * second - 1)
  assert.equal((await stage.record('n0')).status, 'queued')
  await stage.runFor(1)
  for (const id of ['first', 'n0', 'n1', 'n2'])
    assert.deepEqual(await stage.last(id), ['dead', 'pool_blocked', 5 * second])
  await stage.runFor(55 * second - 1)
  assert.equal(stage.calls.length, 1)
  await stage.runFor(second)
  assert.equal(stage.calls.length, 5)
  assert.equal(stage.calls[1]!.at, 60 * second)
})

test('dead letters return soon after a hold is ended early, though a message waits at that moment', async (t) => {
  let limited = true
  const answer = (): SendResult => (limited ? throttled('60') : delivered)
  const stage = await createStage(t, { rates: [''], answer })
  await stage.queue(queued('first'))
  limited = false
  await stage.queue(...many(3))
  await stage.runFor(10 * second)
  assert.deepEqual(await stage.last('n0'), ['dead', 'pool_blocked', 5 * second])
  const { pool, clock } = stage
  pool.hold('a', clock.now() + 24 * 3_600 * second, clock.now())
  await stage.runFor(60 * second)
  await stage.queue(queued('waiting'))
  pool.hold('a', 0, clock.now())
  await stage.runFor(5 * second)
  assert.equal((await stage.record('waiting')).status, 'delivered')
  for (const id of ['first', 'n0', 'n1', 'n2']) assert.equal((await stage.record(id)).status, 'delivered', id)
})

test('a stopped worker takes nothing and leaves no timer', async (t) => {
  const stage = await createStage(t, { rates: ['1/s'] })
  await stage.queue(...many(3))
  await stage.stop()
  assert.equal(stage.clock.next(), undefined)
  await stage.queue(queued('late'))
  await stage.runFor(60 * second)
  assert.deepEqual(instants(stage.calls), [0])
  assert.equal(stage.ledger.live('late')?.notification.dueAt, start)
})

test('a worker sends all of a long queue over a record that gives many rights later than they last', async (t) => {
  // As a record does it: all that wait for a right share one call, whose duration grows with their number.
  const perRightMs = 1
  let asking: { readonly count: number; readonly resolve: () => void }[] = []
  let isBusy = false
  const answerAll = (): void => {
    if (isBusy || asking.length === 0) return
    isBusy = true
    const together = asking
    asking = []
    const tookMs = perRightMs * together.reduce((sum, { count }) => sum + count, 0)
    stage.clock.at(stage.clock.now() + tookMs, () => {
      isBusy = false
      for (const { resolve } of together) resolve()
      answerAll()
    })
  }
  const stage: Stage = await createStage(t, {
    rates: [''],
    concurrency: 5_000,
    wrapLedger: (ledger) => ({
      ...ledger,
      async begin(of) {
        const askedAt = stage.clock.monotonic()
        await new Promise<void>((resolve) => {
          asking.push({ count: of.length, resolve })
          void Promise.resolve().then(answerAll)
        })
        const given = await ledger.begin(of)
        return { ...given, until: askedAt + 250 }
      },
    }),
  })
  await stage.queue(...many(3_000))
  await stage.runFor(20 * second)
  assert.equal(new Set(stage.calls.map(({ id }) => id)).size, 3_000)
})
