import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createCompleter } from '../../src/delivery/completer.ts'
import { InFlightCounter } from '../../src/delivery/in-flight-counter.ts'
import { SluiceError } from '../../src/errors.ts'
import { advance, type Move, type Notification, type Status } from '../../src/model.ts'
import type { Change, CommitResult } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

const start = 1_000_000

function moveTo(id: string, status: Status): Move {
  const before = {
    id,
    status: 'queued',
    priority: 'normal',
    timeline: [{ at: start, status: 'accepted' }],
  } as unknown as Notification
  const path = ['delivered', 'failed'].includes(status) ? (['sending', status] as Status[]) : [status]
  return advance(
    before,
    path.map((each) => ({ at: start, status: each })),
  )
}

/** A store whose answer to each batch of ids the test decides. */
function setUp(answer: (ids: readonly string[], times: number) => CommitResult | Error | undefined) {
  const clock = createVirtualClock(start)
  const heard: string[] = []
  const groups: (readonly string[])[] = []
  const ids = (moves: readonly { readonly id: string }[]) => moves.map(({ id }) => id)
  const inFlight = new InFlightCounter()
  const completer = createCompleter({
    clock,
    inFlight,
    ledger: {
      async commit({ moves = [] }: Change) {
        const group = ids(moves.map(({ after }) => after))
        groups.push(group)
        const result = answer(group, groups.length) ?? { applied: true }
        if (result instanceof Error) throw result
        return result
      },
      release: ({ id }) => heard.push(`release ${id}`),
    },
    scheduler: {
      place: (notifications) => heard.push(`place ${ids(notifications)}`),
      placeFirst: ({ id }) => heard.push(`first ${id}`),
      recover: async ({ id }) => void heard.push(`recover ${id}`),
    },
    async releaseHolds(held, ended) {
      heard.push(`give back ${held.id} ${held.status} for ${ended}`)
      if (held.id === 'thankless') throw new Error('no')
    },
    onError: (what, error) => heard.push(`${what}: ${(error as Error).message}`),
  })
  const add = (id: string, status: Status = 'delivered'): void =>
    completer.add(moveTo(id, status), { settled: () => void heard.push(`done ${id}`) })
  return { clock, completer, inFlight, heard, groups, add }
}

test('commits the results of one tick in batches of at most 256', async () => {
  const { clock, heard, groups, add } = setUp(() => undefined)
  add('a')
  add('b', 'queued')
  add('c', 'expired')
  await clock.settle()
  assert.deepEqual(groups, [['a', 'b', 'c']])
  assert.deepEqual(heard, [
    'done a',
    'first b',
    'done b',
    'place c',
    'give back c queued for expired',
    'done c',
  ])
  for (let index = 0; index < 600; index += 1) add(`n${index}`)
  await clock.settle()
  assert.deepEqual(
    groups.slice(1).map(({ length }) => length),
    [256, 256, 88],
  )
})

test('an obsolete result is dropped, and the others are committed without it', async () => {
  const { clock, heard, groups, add } = setUp((_, times) =>
    times === 1 ? { applied: false, conflicts: [{ kind: 'notification', key: 'b' }] } : undefined,
  )
  for (const id of ['a', 'b', 'c']) add(id)
  await clock.settle()
  assert.deepEqual(groups, [
    ['a', 'b', 'c'],
    ['a', 'c'],
  ])
  assert.deepEqual(heard, ['release b', 'recover b', 'done b', 'done a', 'done c'])
})

test('a conflict without ids drops the batch instead of retrying for ever', async () => {
  const { clock, heard, groups, add } = setUp(() => ({ applied: false, conflicts: [] }))
  add('a')
  await clock.settle()
  assert.deepEqual([groups.length, heard], [1, ['release a', 'recover a', 'done a']])
})

test('an unavailable store is retried until it recovers', async () => {
  const { clock, heard, groups, add } = setUp((_, times) =>
    times <= 3 ? new SluiceError('STORE_UNAVAILABLE', 'away') : undefined,
  )
  add('a')
  await clock.runUntil(start + 599)
  assert.deepEqual([groups.length, heard], [3, Array(3).fill('settle: away')])
  await clock.runUntil(start + 600)
  assert.deepEqual(heard.at(-1), 'done a')
})

test('a result that cannot be written is reported, and delays neither the others nor its lease', async () => {
  const { clock, heard, groups, inFlight, add } = setUp((ids) =>
    ids.includes('b') ? new Error('unreadable') : undefined,
  )
  for (const id of ['a', 'b', 'c']) add(id)
  await clock.settle()
  assert.deepEqual(groups, [['a', 'b', 'c'], ['a'], ['b'], ['c']])
  assert.deepEqual(heard.toSorted(), [
    'done a',
    'done b',
    'done c',
    'settle: unreadable',
    'settle: unreadable',
  ])
  await inFlight.idle()
})

test('a result is in flight until its holds are released, also when the release fails', async () => {
  const { clock, completer, heard, inFlight } = setUp(() => undefined)
  let isIdle = false
  const written = completer.write(moveTo('thankless', 'expired')).then(() => heard.push('written'))
  void inFlight.idle().then(() => {
    isIdle = true
  })
  assert.equal(isIdle, false)
  await clock.settle()
  await written
  assert.equal(isIdle, true)
  assert.deepEqual(heard.slice(-2), ['give back: no', 'written'])
})
