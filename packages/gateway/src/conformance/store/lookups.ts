/** Commits whose answer was lost: a store tells afterwards what became of them, whatever was written since. */
import assert from 'node:assert/strict'
import { advance } from '../../model.ts'
import type { Change, StoredAnswer } from '../../ports.ts'
import { epoch, settled, someDigest, someJob, someNotification } from './sample.ts'
import type { Test } from './suite.ts'
import { conflict, must } from './suite.ts'

const answer: StoredAnswer = {
  tenant: 'acme',
  module: 'shop',
  method: 'POST',
  path: '/notifications',
  key: 'k1',
  requestHash: 'h1',
  status: 202,
  body: '{}',
  createdAt: epoch,
}
const recipient = { id: 'ada', tenant: 'acme', optOuts: [{ category: 'product' }], timeZone: 'UTC' }
const account = { channel: 'email', provider: 'sandbox', account: 'a1', blockedUntil: epoch + 5_000 } as const

export function lookups(test: Test): void {
  test('tells of each kind of change whether it is on record', async (store) => {
    const stored = someNotification({ status: 'scheduled', dueAt: epoch + 10 })
    const [job, digest] = [someJob(), someDigest()]
    await must(store, { accept: [stored], digests: [{ kind: 'open', digest: someDigest({ id: 'd0' }) }] })
    const running = someJob()
    const work = {
      message: { channel: 'email', category: 'product', priority: 'normal' },
      recipients: [],
    } as const
    await must(store, { jobs: [{ kind: 'open', job: running, work }] })
    const later = { ...someDigest({ id: 'd0' }), closesAt: epoch + 7_200_000 }
    const { module, to, priority } = stored
    const heldAs = { module, to, priority, actors: ['eve'] }
    const hold = { name: 'h1', tenant: 't1', until: epoch + 5_000, reason: 'outage', since: epoch }
    const changes: readonly Change[] = [
      { accept: [someNotification()], answer },
      { accept: [someNotification()], jobs: [{ kind: 'open', job, work }] },
      { moves: [advance(stored, [{ at: epoch + 10, status: 'queued' }])] },
      { jobs: [{ kind: 'open', job: someJob(), work }] },
      { jobs: [{ kind: 'move', before: running, after: { ...running, taken: 2 } }] },
      {
        jobs: [
          {
            kind: 'move',
            before: { ...running, taken: 2 },
            after: { ...running, taken: 2, status: 'cancelled' },
          },
        ],
      },
      { answer: { ...answer, key: 'k2' } },
      { digests: [{ kind: 'open', digest: { ...digest, recipient: 'user-2' } }] },
      { digests: [{ kind: 'postpone', digest: later }] },
      { digests: [{ kind: 'postpone', digest: { ...later, heldAs } }] },
      { recipients: [recipient] },
      { recipients: [{ ...recipient, optOuts: [] }] },
      { accounts: [account] },
      { accounts: [{ ...account, blockedUntil: epoch + 9_000 }] },
      { accounts: [{ channel: 'email', provider: 'sandbox', account: 'a1' }] },
      { holds: [{ kind: 'put', hold }] },
      { holds: [{ kind: 'put', hold: { ...hold, until: epoch + 9_000 } }] },
      { holds: [{ kind: 'end', name: hold.name }] },
    ]
    for (const [index, change] of changes.entries()) {
      assert.equal(await store.isApplied(change), false, `change ${index} before`)
      await must(store, change)
      assert.equal(await store.isApplied(change), true, `change ${index} after`)
    }
    assert.equal(await store.isApplied({}), true)
  })

  test('tells that a change is on record whose notifications have moved on since', async (store) => {
    let row = someNotification()
    const accept = { accept: [row] }
    await must(store, accept)
    const changes: Change[] = [accept]
    // Beyond the length at which a timeline is shortened.
    for (let call = 0; call < 40; call += 1) {
      const move = advance(row, [
        { at: epoch + call, status: 'sending', account: 'a' },
        { at: epoch + call, status: 'queued', reason: 'provider_capacity' },
      ])
      await must(store, { moves: [move] })
      if (call > 35) changes.push({ moves: [move] })
      row = move.after
    }
    await must(store, { moves: [settled(row, epoch + 100)] })
    for (const change of changes) assert.equal(await store.isApplied(change), true)
  })

  test('tells that a change is not on record that a concurrent one kept off it', async (store) => {
    const row = someNotification({ status: 'scheduled', dueAt: epoch + 10 })
    await must(store, { accept: [row] })
    const cancelled = { moves: [advance(row, [{ at: epoch + 1, status: 'cancelled' }])] }
    const queued = { moves: [advance(row, [{ at: epoch + 10, status: 'queued' }])] }
    const other = { accept: [someNotification()], moves: queued.moves }
    await must(store, cancelled)
    for (const refused of [queued, other]) {
      assert.deepEqual(await store.commit(refused), conflict('notification', row.id))
      assert.equal(await store.isApplied(refused), false)
    }
    assert.equal(await store.isApplied(cancelled), true)
  })

  test('tells what becomes of a change that is still on its way', async (store) => {
    const changes = Array.from({ length: 20 }, () => ({ accept: [someNotification()] }))
    const answers = changes.map(async (change) => {
      const committed = store.commit(change)
      assert.equal(await store.isApplied(change), true)
      await committed
    })
    await Promise.all(answers)
  })
}
