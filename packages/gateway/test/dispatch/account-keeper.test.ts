import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PooledAccount } from '../../src/dispatch/account.ts'
import { createAccountKeeper } from '../../src/dispatch/account-keeper.ts'
import type { Pool } from '../../src/dispatch/pool.ts'
import type { Change } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'

/** A pool that says of its accounts what they are at the moment. */
function setUp(fails: () => boolean) {
  const clock = createVirtualClock(0)
  const written: string[][] = []
  const keeper = createAccountKeeper({
    clock,
    onTrouble: () => undefined,
    ledger: {
      async commit({ accounts = [] }: Change) {
        await Promise.resolve()
        if (fails()) throw new Error('the disk is full')
        written.push(accounts.map(({ account, blockedUntil }) => `${account} ${blockedUntil}`))
        return { applied: true }
      },
    },
  })
  let version = 0
  const pool = {
    record: ({ account }: PooledAccount) => ({
      channel: 'email',
      provider: 'x',
      account: account.id,
      blockedUntil: version,
    }),
  } as unknown as Pool
  const [a, b] = ['a', 'b'].map((id) => ({ account: { id } }) as unknown as PooledAccount)
  const change = (account: PooledAccount | undefined): void => {
    version += 1
    keeper.changed(pool, account!)
  }
  return { clock, keeper, written, change, a, b }
}

test('what changes while something is written is written together and once, as it is by then', async () => {
  const { clock, written, change, a, b } = setUp(() => false)
  change(a)
  change(a)
  change(b)
  change(b)
  await clock.settle()
  assert.deepEqual(written, [['a 1'], ['a 4', 'b 4']])
})

test('what the store refused is written again, and a later change takes its place', async () => {
  let failing = true
  const { clock, written, change, a, b } = setUp(() => failing)
  change(a)
  await clock.settle()
  change(b)
  failing = false
  await clock.runUntil(499)
  assert.deepEqual(written, [])
  await clock.runUntil(500)
  assert.deepEqual(written.flat().sort(), ['a 2', 'b 2'])
})
