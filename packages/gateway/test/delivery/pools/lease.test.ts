/** The last question before a call: whether its lease still permits it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { PooledAccount } from '../../../src/delivery/accounts/account.ts'
import { Pool } from '../../../src/delivery/pools/pool.ts'
import { createScripted, delivered } from '../scripted.ts'

const start = 1_000_000
/** An account whose tokens are good for 20 ms; then another one is taken, where it has one. */
class SlottedAccount extends PooledAccount {
  hasOther = true
  override renew(takenAt: number, now = takenAt): number {
    if (now - takenAt < 20) return takenAt
    return (this.hasOther ? now : undefined) as number
  }
}

function leaseOf() {
  const pool = new Pool({
    channel: 'email',
    provider: createScripted(() => delivered).provider,
    accounts: [{ account: { id: 'a', options: {} }, windows: [], rate: '', concurrencyMax: 2 }],
    marginMs: 20,
    now: start,
    stateOf: (options, policy) => new SlottedAccount(options, policy),
  })
  const [lease] = pool.lease(start, 1)
  return { lease: lease!, holder: lease!.holder as SlottedAccount }
}

describe('a lease directly before its call', () => {
  it('permits the call while its token is good', () => {
    const { lease } = leaseOf()
    assert.ok(lease.mayCall(start + 19))
    assert.equal(lease.takenAt, start)
  })

  it('counts the call by another token when the slot of its own is over', () => {
    const { lease } = leaseOf()
    assert.ok(lease.mayCall(start + 30))
    assert.equal(lease.takenAt, start + 30)
  })

  it('permits no call without a good token, nor while its account is out', () => {
    const { lease, holder } = leaseOf()
    holder.hasOther = false
    assert.ok(!lease.mayCall(start + 30))
    holder.hold(start + 60_000, start)
    assert.ok(!lease.mayCall(start + 1))
  })
})
