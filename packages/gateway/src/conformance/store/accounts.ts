/** The conformance of stores in keeping accounts and the holds of operators. */
import assert from 'node:assert/strict'
import { epoch } from './sample.ts'
import { must, type Test } from './suite.ts'

export function accounts(test: Test): void {
  test('keeps the holds of operators until they end', async (store) => {
    const marketing = { name: 'quiet', category: 'marketing', since: epoch, until: epoch + 5, reason: 'r' }
    const account = {
      name: 'sms/a',
      channel: 'sms',
      account: 'a',
      since: epoch,
      until: epoch + 6,
      reason: '',
    } as const
    const put = (hold: typeof account | typeof marketing) => ({ kind: 'put', hold }) as const
    await must(store, { holds: [put({ ...marketing, until: epoch + 1 }), put(account)] })
    await must(store, { holds: [put(marketing)] })
    assert.deepEqual(new Set(await store.holds()), new Set([marketing, account]))
    await must(store, {
      holds: [
        { kind: 'end', name: 'quiet' },
        { kind: 'end', name: 'unknown' },
      ],
    })
    assert.deepEqual(await store.holds(), [account])
    const { name, until } = account
    await must(store, { holds: [{ kind: 'end', name, until: until - 1 }] })
    assert.deepEqual(await store.holds(), [account], 'it is another hold of that name')
    const over = { holds: [{ kind: 'end', name, until }] } as const
    assert.equal(await store.isApplied(over), false)
    await must(store, over)
    assert.deepEqual(await store.holds(), [])
    await must(store, { holds: [put({ ...account, until: until + 1 })] })
    assert.equal(await store.isApplied(over), true, 'another one was put in force since')
  })

  test('keeps the state of accounts until they are healthy', async (store) => {
    const account = { channel: 'email', provider: 'smtp', account: 'a' } as const
    const blocked = { ...account, blockedUntil: epoch + 5 }
    const open = { ...account, account: 'b', breaker: { openUntil: epoch, coolDownMs: 5_000 } }
    await must(store, { accounts: [{ ...blocked, blockedUntil: epoch }, open] })
    await must(store, { accounts: [blocked, { ...blocked, channel: 'sms' }] })
    assert.deepEqual(
      new Set(await store.accounts()),
      new Set([blocked, open, { ...blocked, channel: 'sms' }]),
    )
    await must(store, { accounts: [account, { ...account, channel: 'sms' }] })
    assert.deepEqual(await store.accounts(), [open])
  })
}
