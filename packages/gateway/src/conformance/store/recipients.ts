/** Recipients of a store: their last version, one or many at once. */
import assert from 'node:assert/strict'
import type { Recipient } from '../../model.ts'
import type { Test } from './suite.ts'
import { must } from './suite.ts'

/** A store of several processes reads recipients with their versions. */
function unversioned<T extends object>(found: T | undefined): T | undefined {
  if (found === undefined) return undefined
  const { version: _, ...rest } = found as T & { readonly version?: number }
  return rest as T
}

export function recipients(test: Test): void {
  test('stores the last version of recipients by tenant', async (store) => {
    const recipient: Recipient = {
      tenant: 'acme',
      id: 'user-1',
      email: 'a@example.com',
      optOuts: [{ channel: 'sms' }],
    }
    await must(store, {
      recipients: [recipient, { tenant: 'other', id: 'user-1' }],
    })
    const { optOuts: _, ...changed } = {
      ...recipient,
      quietHours: { default: { from: '22:00', to: '08:00' } },
    }
    await must(store, { recipients: [changed] })
    assert.deepEqual(unversioned(await store.recipient('acme', 'user-1')), changed)
    assert.deepEqual(unversioned(await store.recipient('other', 'user-1')), {
      tenant: 'other',
      id: 'user-1',
    })
    assert.equal(await store.recipient('acme', 'user-2'), undefined)
  })

  test('answers many recipients at once, in the order of the keys', async (store) => {
    const written: Recipient[] = Array.from({ length: 300 }, (_, n) => ({
      tenant: n % 2 === 0 ? 'acme' : 'other',
      id: `user-${n}`,
      // Some of them are as large as the schema allows: an engine may need several answers.
      ...(n % 20 === 0
        ? { optOuts: Array.from({ length: 500 }, (_, k) => ({ category: `c${k}`.padEnd(60) })) }
        : {}),
    }))
    await must(store, { recipients: written })
    const keys = written.flatMap(({ tenant, id: recipient }) => [
      { tenant, recipient },
      { tenant: 'third', recipient },
    ])
    const found = await store.recipients([...keys, ...keys.toReversed()])
    const expected = written.flatMap((each) => [each, undefined])
    assert.deepEqual(found.map(unversioned), [...expected, ...expected.toReversed()])
    assert.deepEqual(await store.recipients([]), [])
  })
}
