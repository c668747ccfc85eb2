import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createAccountPersistence } from '../../../src/delivery/accounts/account-persistence.ts'
import type { Pool } from '../../../src/delivery/pools/pool.ts'
import type { AccountState } from '../../../src/ports/accounts.ts'
import type { AccountRecord, Change, CommitResult } from '../../../src/ports.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

/** A pool that records the present state of its accounts. */
function setUp(fails: () => boolean, known: readonly AccountRecord[] = []) {
  const clock = createVirtualClock(0)
  const asked: string[][] = []
  const written: string[][] = []
  const troubles: string[] = []
  const records: AccountRecord[] = []
  const heard: string[] = []
  let committed: (() => void) | undefined
  const persistence = createAccountPersistence({
    clock,
    store: { accounts: async () => known },
    onError: (what) => troubles.push(what),
    ledger: {
      commit({ accounts = [] }: Change) {
        asked.push(accounts.map(({ account }) => account))
        const commit = Promise.resolve().then((): CommitResult => {
          if (fails()) throw new Error('the disk is full')
          written.push(accounts.map(({ account, blockedUntil }) => `${account} ${blockedUntil}`))
          records.push(...accounts)
          return { applied: true }
        })
        commit.then(committed, () => undefined)
        committed = undefined
        return commit
      },
    },
  })
  let version = 0
  const pool = {
    record: ({ account }: AccountState) => ({
      channel: 'email',
      provider: 'x',
      account: account.id,
      blockedUntil: version,
    }),
  } as unknown as Pool
  const [a, b] = ['a', 'b'].map((id) => {
    const retire = (): unknown => heard.push(`${id} retires`)
    const recorded = (): unknown => heard.push(`on disk: ${id}`)
    return { account: { id }, retire, recorded } as unknown as AccountState
  })
  const change = (account: AccountState | undefined): void => {
    version += 1
    persistence.changed(pool, account!)
  }
  const onCommitted = (then: () => void): void => {
    committed = then
  }
  return { clock, persistence, asked, written, troubles, records, heard, change, onCommitted, a, b }
}

test('changes of an account during a write are written together and once, with their latest state', async () => {
  const { clock, written, heard, change, a, b } = setUp(() => false)
  change(a)
  change(a)
  change(b)
  change(b)
  await clock.settle()
  assert.deepEqual(written, [['a 1'], ['b 3'], ['a 4'], ['b 4']])
  assert.deepEqual(heard, ['on disk: a', 'on disk: b', 'on disk: a', 'on disk: b'])
})

test('a change at the very moment a write ends is written', async () => {
  const { written, change, a, b, clock, onCommitted } = setUp(() => false)
  // Settlements of the same transaction are told first, and let the next call ask for its account.
  onCommitted(() => queueMicrotask(() => change(b)))
  change(a)
  await clock.settle()
  assert.deepEqual(written, [['a 1'], ['b 2']])
})

test('a block is handed to the store at once, while the record of another account is on its way', () => {
  // A dead letter that the block causes is written after it: a kill between both would forget the block.
  const { asked, change, a, b } = setUp(() => false)
  change(a)
  change(b)
  assert.deepEqual(asked, [['a'], ['b']])
})

test('a refused write is retried, and a later change replaces it', async () => {
  let failing = true
  const { clock, written, troubles, heard, change, a, b } = setUp(() => failing)
  change(a)
  await clock.settle()
  change(b)
  failing = false
  await clock.runUntil(499)
  assert.deepEqual(troubles, ['keep what is known of accounts'])
  assert.deepEqual(written, [])
  assert.deepEqual(heard, [], 'no account is freed by a record that is not written')
  await clock.runUntil(500)
  assert.deepEqual(written.flat().sort(), ['a 2', 'b 2'])
})

test('close writes the final state of every account ever written', async () => {
  const { clock, persistence, written, heard, change, a, b } = setUp(() => false)
  change(a)
  change(b)
  await clock.settle()
  written.length = 0
  heard.length = 0
  await persistence.close()
  assert.deepEqual(written, [['a 2', 'b 2']])
  assert.deepEqual(heard.slice(0, 2), ['a retires', 'b retires'])
})

test('usage ahead of an earlier process is counted once at start, and expired usage is dropped', async () => {
  const of = (account: string, use?: AccountRecord['use']): AccountRecord => ({
    channel: 'email',
    provider: 'x',
    account,
    ...(use === undefined ? {} : { use }),
  })
  const clean = of('clean', { calls: [[-5, 3]], ahead: 0, windowMs: 10_000 })
  const { persistence, records } = setUp(
    () => false,
    [
      clean,
      of('killed', {
        calls: [
          [-20_000, 9],
          [-5, 3],
        ],
        ahead: 2,
        windowMs: 10_000,
      }),
      of('passed', { calls: [[-20_000, 9]], ahead: 0, windowMs: 10_000 }),
      { ...of('blocked', { calls: [[-20_000, 9]], ahead: 0, windowMs: 10_000 }), blockedUntil: 7 },
      of('ahead of the clock', {
        calls: [
          [-5, 1],
          [3_600_000, 4],
        ],
        ahead: 0,
        windowMs: 10_000,
      }),
    ],
  )
  const expected = [
    of('killed', {
      calls: [
        [-5, 3],
        [0, 2],
      ],
      ahead: 0,
      windowMs: 10_000,
    }),
    of('passed'),
    { ...of('blocked'), blockedUntil: 7 },
    of('ahead of the clock', {
      calls: [
        [-5, 1],
        [0, 4],
      ],
      ahead: 0,
      windowMs: 10_000,
    }),
  ]
  assert.deepEqual(await persistence.begin(), [clean, ...expected])
  assert.deepEqual(records, expected)
})

test('close waits for a running write, and not for a store that refuses', async () => {
  const { clock, persistence, written, change, a } = setUp(() => false)
  change(a)
  const closed = persistence.close().then(() => written.length)
  await clock.settle()
  assert.equal(await closed, 2, 'what changed, and how it was at the end')

  const refused = setUp(() => true)
  refused.change(refused.a)
  let isClosed = false
  void refused.persistence.close().then(() => {
    isClosed = true
  })
  await refused.clock.settle()
  assert.deepEqual([isClosed, refused.troubles.length], [true, 1])
})
