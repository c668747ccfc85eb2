import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMemoryRoom } from '../../src/adapters/state/memory-room.ts'
import { SluiceError } from '../../src/errors.ts'
import { createLedger } from '../../src/ledger/ledger.ts'
import { advance } from '../../src/model.ts'
import type { Change, Store } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'
import { queuedAt } from '../queued.ts'

const start = 1_000_000

const waiting = queuedAt(start, 'n1')

const cancelled = (): Change => ({ moves: [advance(waiting, [{ at: start, status: 'cancelled' }])] })

/** An answer that is lost on the way there belongs to a commit that the store never performed. */
type Fate = 'answered' | 'lost on the way there' | 'lost on the way back'

/**
 * Commits two equal cancellations of one notification at once. The answer of each comes at its own instant, and may be
 * lost before or after the commit is performed.
 */
async function cancelTwice(fates: readonly { readonly fate: Fate; readonly answeredMs: number }[]) {
  const clock = createVirtualClock(start)
  const memory = createMemoryStore()
  await memory.commit({ accept: [waiting] })
  const left = [...fates]
  const commit: Store['commit'] = async (change) => {
    const { fate, answeredMs } = left.shift()!
    const result = fate === 'lost on the way there' ? undefined : await memory.commit(change)
    await new Promise<void>((resolve) => clock.at(start + answeredMs, resolve))
    if (fate === 'answered') return result!
    throw new SluiceError('STORE_UNAVAILABLE', 'The connection was lost.', { isUncertain: true })
  }
  const ledger = await createLedger({
    store: Object.assign(Object.create(memory) as Store, { commit, isApplied: memory.isApplied }),
    room: createMemoryRoom(),
    clock,
    boundsFor: () => ({ queueMax: 10, waitingMax: 5, bytesMax: 1_000 }),
  })
  const heard: string[] = []
  ledger.subscribe(({ notification: { status } }) => heard.push(status))
  const committing = fates.map(async () => ledger.commit(cancelled()))
  await clock.runUntil(start + 5_000)
  const applied = (await Promise.all(committing)).map((result) => result.applied)
  return { applied, heard, counts: ledger.counts(), occupancy: ledger.occupancy('acme') }
}

for (const [first, second] of [
  ['answered', 'lost on the way there'],
  ['answered', 'lost on the way back'],
  ['lost on the way back', 'lost on the way there'],
  ['lost on the way there', 'answered'],
] as const) {
  for (const [firstMs, secondMs] of [
    [10, 20],
    [20, 10],
    [500, 10],
  ] as const) {
    test(`of two equal cancellations one counts: ${first} after ${firstMs} ms, ${second} after ${secondMs} ms`, async () => {
      const { applied, heard, counts, occupancy } = await cancelTwice([
        { fate: first, answeredMs: firstMs },
        { fate: second, answeredMs: secondMs },
      ])
      assert.deepEqual([counts.cancelled, counts.queued], [1, 0])
      assert.deepEqual(occupancy, { queue: 0, waiting: 0, bytes: 0 })
      assert.deepEqual(heard, ['cancelled'])
      assert.equal(applied.filter(Boolean).length, 1, 'the other is told of the conflict')
      if (first === 'answered') assert.deepEqual(applied, [true, false], 'an answer of the store is believed')
      if (second === 'answered')
        assert.deepEqual(applied, [false, true], 'an answer of the store is believed')
    })
  }
}

for (const kind of ['accept', 'moves'] as const) {
  test(`what the own sweep brings back while a commit of ${kind} is looked up is sent once`, async () => {
    const clock = createVirtualClock(start)
    const memory = createMemoryStore()
    await memory.commit({ accept: [waiting] })
    const move = advance(waiting, [{ at: start, status: 'queued' }])
    const change: Change = kind === 'accept' ? { accept: [queuedAt(start, 'n2')] } : { moves: [move] }
    const written = change.accept?.[0] ?? move.after
    const ledger = await createLedger({
      store: Object.assign(Object.create(memory) as Store, {
        async commit(asked: Change) {
          await memory.commit(asked)
          throw new SluiceError('STORE_UNAVAILABLE', 'The connection was lost.', { isUncertain: true })
        },
        async isApplied(asked: Change) {
          await new Promise<void>((resolve) => clock.at(start + 1_000, resolve))
          return memory.isApplied(asked)
        },
        tallies: memory.tallies,
      }),
      room: createMemoryRoom(),
      clock,
      boundsFor: () => ({ queueMax: 10, waitingMax: 5, bytesMax: 1_000 }),
    })
    const committed = ledger.commit(change)
    await clock.runUntil(start + 500)
    const read = structuredClone((await memory.notification(written.tenant, written.id))!)
    ledger.hold(read)
    assert.equal(ledger.mark(read, 'sending'), true)
    await clock.runUntil(start + 1_000)
    assert.ok((await committed).applied)
    ledger.hold(written)
    assert.equal(ledger.isCurrent(written), false, 'it is being sent')
    assert.equal(ledger.isCurrent(read), true)
  })
}
