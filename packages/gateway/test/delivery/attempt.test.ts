import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { PooledAccount } from '../../src/delivery/accounts/account.ts'
import type { SendResult } from '../../src/ports.ts'
import { broken, delivered } from './scripted.ts'
import { createStage, queued, second, start } from './stage.ts'

test('a delivered notification is on record with the account that carried it, and its lease is free', async (t) => {
  const stage = await createStage(t)
  await stage.queue(queued('n'))
  const { status, attempts, timeline } = await stage.record('n')
  assert.deepEqual([status, attempts, stage.pool.inFlight], ['delivered', 1, 0])
  assert.deepEqual(timeline.slice(2), [
    { at: start, status: 'sending', provider: 'scripted', account: 'a', attempt: 1 },
    { at: start, status: 'delivered', provider: 'scripted', account: 'a', attempt: 1 },
  ])
  await stage.stop()
  assert.equal(stage.clock.next(), undefined, 'no timer is left')
})

test('a lease is held until the result is on record', async (t) => {
  let write = (): void => {}
  const stage = await createStage(t, {
    wrapLedger: (ledger) => ({
      ...ledger,
      async commit(change) {
        if (change.moves !== undefined) {
          await new Promise<void>((resolve) => {
            write = resolve
          })
        }
        return ledger.commit(change)
      },
    }),
  })
  await stage.queue(queued('n'))
  assert.deepEqual([stage.calls.length, stage.pool.inFlight], [1, 1])
  write()
  await stage.runFor(0)
  assert.equal(stage.pool.inFlight, 0)
})

test('a notification that cannot be rendered fails without a call and without blame for the account', async (t) => {
  const stage = await createStage(t, {
    templates() {
      throw new Error('no such filter')
    },
  })
  await stage.queue(queued('n', { template: 'broken', content: undefined as never }))
  assert.deepEqual([stage.calls, stage.pool.inFlight], [[], 0])
  const { status, detail } = (await stage.record('n')).timeline.at(-1)!
  assert.deepEqual([status, detail], ['failed', 'no such filter'])
  assert.equal(stage.pool.budget.isCalm(start), true)
})

test('an adapter that throws or rejects counts as a failure of the account, and the notification is retried', async (t) => {
  const thrown = (): never => {
    throw new Error('a defect')
  }
  for (const send of [thrown, async () => thrown()]) {
    let calls = 0
    const stage = await createStage(t, {
      provider: {
        send: () => {
          calls += 1
          return calls === 1 ? send() : Promise.resolve(delivered)
        },
      },
    })
    await stage.queue(queued('n'))
    await stage.runFor(0)
    assert.deepEqual(stage.errors, ['provider scripted: a defect'])
    assert.equal(stage.pool.budget.isCalm(start), false)
    assert.deepEqual([(await stage.record('n')).status, calls, stage.pool.inFlight], ['delivered', 2, 0])
  }
})

test('a call is aborted at its timeout', async (t) => {
  let signal: AbortSignal | undefined
  const stage = await createStage(t, {
    pool: { timeoutMs: second },
    send: (_, __, given) =>
      new Promise((resolve) => {
        signal = given
        given.addEventListener('abort', () => resolve(delivered))
      }),
  })
  await stage.queue(queued('n'))
  await stage.runFor(second - 1)
  assert.equal(signal?.aborted, false)
  await stage.runFor(1)
  assert.equal(signal?.aborted, true)
})

test('a dead letter without a retry budget is redriven when there is capacity again', async (t) => {
  let up = false
  const stage = await createStage(t, { rates: [''], answer: () => (up ? delivered : broken) })
  const ids = Array.from({ length: 14 }, (_, index) => `n${index}`)
  await stage.queue(...ids.map((id) => queued(id)))
  await stage.runFor(0)
  const shed: string[] = []
  for (const id of ids) if ((await stage.last(id))[1] === 'shed') shed.push(id)
  assert.ok(shed.length > 0, 'the budget of retries is spent')
  up = true
  await stage.runFor(60 * second)
  for (const id of ids) assert.equal((await stage.record(id)).status, 'delivered')
})

test('a call that may have arrived counts under an id of its own, and without a retry nothing else is held', async (t) => {
  const unknown: SendResult = { outcome: 'unknown', detail: 'reset' }
  const stage = await createStage(t, { answer: () => unknown })
  await stage.queue(queued('n'))
  assert.deepEqual(await stage.last('n'), ['dead', 'outcome_unknown', 0])
  assert.deepEqual([...stage.counted.keys()], ['n?0'])
  let calls = 0
  const repeating = await createStage(t, {
    provider: { idempotent: true },
    answer: () => (++calls <= 2 ? unknown : delivered),
  })
  await repeating.queue(queued('n'))
  await repeating.runFor(60 * second)
  assert.deepEqual([...repeating.counted.keys()].toSorted(), ['n', 'n?0', 'n?1'])
  assert.deepEqual((await repeating.record('n')).suspects?.length, 2)
})

test('a call that comes too late to be written is sent again, without an attempt and without blame', async (t) => {
  let asked = 0
  class LateAccount extends PooledAccount {
    mayLeave(): boolean {
      asked += 1
      return asked > 1
    }
  }
  const stage = await createStage(t, {
    rates: ['2/10s'],
    stateOf: () => (of, by) => new LateAccount(of, by),
    provider: { tellsWritten: true },
    send: async (_, __, ___, onWritten) => (onWritten?.() === false ? broken : delivered),
  })
  await stage.queue(queued('n'), queued('m'))
  await stage.runFor(second)
  // The call that was not written has taken no place of the account: both others leave at once.
  assert.deepEqual(
    stage.calls.map(({ id, at }) => [id, at]),
    [
      ['n', 0],
      ['m', 0],
      ['n', 0],
    ],
  )
  const { status, attempts, timeline } = await stage.record('n')
  assert.deepEqual([status, attempts, stage.pool.inFlight], ['delivered', 1, 0])
  assert.deepEqual(
    timeline.map((event) => event.status),
    ['accepted', 'queued', 'sending', 'delivered'],
  )
  assert.equal(stage.pool.budget.isCalm(start + second), true)
})

test('a call whose right to send ends while its connection is opened is not written, and is sent again', async (t) => {
  const written: number[] = []
  let calls = 0
  const stage = await createStage(t, {
    wrapLedger: (ledger) => ({
      ...ledger,
      begin: async (of) => ({ ...(await ledger.begin(of)), until: stage.clock.monotonic() + 250 }),
    }),
    provider: { tellsWritten: true },
    async send(_, __, ___, onWritten) {
      calls += 1
      if (calls === 1) await stage.wait(251)
      if (onWritten?.() === false) return broken
      written.push(stage.clock.now() - start)
      return delivered
    },
  })
  await stage.queue(queued('n'))
  await stage.runFor(second)
  assert.deepEqual([calls, written], [2, [251]])
  assert.deepEqual([(await stage.record('n')).status, (await stage.record('n')).attempts], ['delivered', 1])
})

test('a mail whose envelope was given in time is written, however long the provider takes to answer it', async (t) => {
  let calls = 0
  const stage = await createStage(t, {
    wrapLedger: (ledger) => ({
      ...ledger,
      begin: async (of) => ({ ...(await ledger.begin(of)), until: stage.clock.monotonic() + 250 }),
    }),
    provider: { tellsWritten: true },
    async send(_, __, ___, onWritten) {
      calls += 1
      if (onWritten?.('envelope') === false) return broken
      await stage.wait(251)
      return onWritten?.() === false ? broken : delivered
    },
  })
  await stage.queue(queued('n'))
  await stage.runFor(second)
  assert.deepEqual([calls, (await stage.record('n')).status], [1, 'delivered'])
})

test('an adapter that writes although the call comes too late has its result settled', async (t) => {
  class LateAccount extends PooledAccount {
    mayLeave(): boolean {
      return false
    }
  }
  const stage = await createStage(t, {
    stateOf: () => (of, by) => new LateAccount(of, by),
    provider: { tellsWritten: true },
    send: async (_, __, ___, onWritten) => {
      onWritten?.()
      return delivered
    },
  })
  await stage.queue(queued('n'))
  assert.deepEqual([stage.calls.length, (await stage.record('n')).status], [1, 'delivered'])
})

test('a call counts from when it was written if that is more than 5 ms after the limits were asked', async (t) => {
  for (const lateMs of [5, 6]) {
    const counted = lateMs === 5 ? 0 : 6
    const stage = await createStage(t, {
      rates: ['1/10s'],
      provider: { tellsWritten: true },
      send: (_, __, ___, onWritten) =>
        new Promise((resolve) => {
          stage.clock.at(start + lateMs, () => {
            onWritten?.()
            resolve(delivered)
          })
        }),
    })
    await stage.queue(queued('n'))
    await stage.runFor(second)
    assert.equal(stage.counted.get('n'), counted)
    assert.equal((await stage.record('n')).firedAt, start + counted)
  }
})

/** Sends one notification that is written late; returns the instants at which it was written, and counted then. */
async function writtenLate(
  t: TestContext,
  { lateMs, countingMs }: { readonly lateMs: number; readonly countingMs: (count: number) => number },
) {
  let counts = 0
  const written: (readonly [at: number, countedAt: number | undefined])[] = []
  const stage = await createStage(t, {
    isShared: true,
    whileCounting: () => stage.wait(countingMs(counts++)),
    provider: { tellsWritten: true },
    async send(_, __, signal, onWritten) {
      await stage.wait(lateMs)
      if (!(await onWritten?.()) || signal.aborted) return broken
      written.push([stage.clock.now() - start, stage.counted.get('n')])
      return delivered
    },
  })
  await stage.queue(queued('n'))
  await stage.runFor(10 * second)
  assert.equal((await stage.record('n')).status, 'delivered')
  return { stage, written }
}

test('where other processes use the same limits, they have counted a late call before it is written', async (t) => {
  const { stage, written } = await writtenLate(t, { lateMs: 30, countingMs: () => 3 })
  assert.deepEqual(written, [[33, 33]])
  assert.equal((await stage.record('n')).attempts, 1)
})

test('a call that is a little late is counted behind its writing', async (t) => {
  const { written } = await writtenLate(t, { lateMs: 15, countingMs: () => 3 })
  assert.deepEqual(written, [[15, 0]])
})

test('a late call is counted at an instant ahead, and written then, where the limits are slow', async (t) => {
  const { written } = await writtenLate(t, { lateMs: 30, countingMs: () => 40 })
  assert.deepEqual(written, [[150, 150]])
})

test('a late call is not written while the limits do not count it, and is sent again', async (t) => {
  const countingMs = (count: number): number => (count === 0 ? 2 * second : 3)
  const { stage, written } = await writtenLate(t, { lateMs: 30, countingMs })
  const [[at, countedAt] = []] = written
  assert.deepEqual([written.length, countedAt], [1, at])
  assert.ok(at! > 280, 'it was given up before')
  assert.deepEqual([stage.calls.length, (await stage.record('n')).attempts], [2, 1])
})

test('a late call whose provider has given up is not written when it is counted', async (t) => {
  const { stage, written } = await writtenLate(t, { lateMs: 30, countingMs: () => 3 })
  assert.equal(written.length, 1)
  let answer = (_: SendResult): void => {}
  let asked: boolean | Promise<boolean> | undefined
  const other = await createStage(t, {
    isShared: true,
    whileCounting: () => other.wait(50),
    provider: { tellsWritten: true },
    async send(_, __, ___, onWritten) {
      await other.wait(30)
      asked = onWritten?.()
      return new Promise((resolve) => {
        answer = resolve
      })
    },
  })
  await other.queue(queued('n'))
  await other.runFor(40)
  answer({ outcome: 'rejected', invalidAddress: false, detail: 'the server went away' })
  await other.runFor(second)
  assert.equal(await asked, false)
  assert.equal(stage.errors.length, 0)
})
