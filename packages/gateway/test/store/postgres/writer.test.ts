/** The writing connection of a process over PostgreSQL: which changes share a transaction, and what they write. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { advance, type Notification } from '../../../src/model.ts'
import { ask, dropSchemas, openAt, schemaUrl } from './database.ts'

describe('the writer of a store on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('a change that the answer of a group sets off shares the next group', async (t) => {
    const url = schemaUrl('writer')
    const store = await openAt(url, stillClock(Date.now()))
    t.after(() => store.close())
    const accept = (id: string) => store.commit({ accept: [someNotification({ id })] })
    const first = accept('a')
    // The first group is under way by then.
    await turn()
    await turn()
    const waiting = accept('b')
    await first
    await turn()
    await accept('c')
    await waiting
    const rows = await ask(url, 'SELECT id, xmin::text FROM live ORDER BY id')
    const [a, b, c] = rows.map(({ xmin }) => xmin)
    assert.notEqual(a, b)
    assert.equal(b, c)
  })

  test('a decision is written once more only where it has changed since the acceptance', async (t) => {
    const url = schemaUrl('decisions')
    const now = Date.now()
    const store = await openAt(url, stillClock(now))
    t.after(() => store.close())
    const accepted = ['a', 'b', 'c'].map((id) => someNotification({ id, status: 'scheduled' }))
    await store.commit({ accept: accepted })
    const [a, b, c] = accepted as [Notification, Notification, Notification]
    const other = { outcome: 'fallback', policyVersion: 'p2', rules: [] } as const
    const queued = advance(b, [{ at: now, status: 'queued' }], { decision: other })
    await store.commit({ moves: [queued] })
    assert.deepEqual(
      await ask(url, 'SELECT id, policy FROM live WHERE waits IS NOT NULL ORDER BY id'),
      [
        { id: 'a', policy: 'p1' },
        { id: 'b', policy: 'p2' },
        { id: 'c', policy: 'p1' },
      ],
      'a look at those that wait needs no JSON',
    )
    const ended = [
      advance(a, [{ at: now, status: 'expired' }]),
      advance(queued.after, [{ at: now, status: 'expired' }]),
      advance(c, [{ at: now, status: 'expired' }], { decision: other }),
    ]
    await store.commit({ moves: ended })
    assert.deepEqual(
      await ask(url, "SELECT id, state->'decision'->>'policyVersion' AS policy FROM outcome ORDER BY id"),
      [
        { id: 'a', policy: null },
        { id: 'b', policy: 'p2' },
        { id: 'c', policy: 'p2' },
      ],
    )
    for (const { after } of ended) assert.deepEqual(await store.notification(after.tenant, after.id), after)
  })

  test('rights of a whole group are updates in place', async (t) => {
    const url = schemaUrl('rights')
    const now = Date.now()
    const store = await openAt(url, stillClock(now))
    t.after(() => store.close())
    // From then on what is due is held by the process that accepts it.
    await store.claimDue(now, 10)
    const accepted = Array.from({ length: 200 }, () => someNotification({ createdAt: now, status: 'queued' }))
    await store.commit({ accept: accepted })
    const pages = () =>
      ask(url, 'SELECT id, (ctid::text::point)[0] AS page, begun_at IS NULL AS is_new FROM live')
    const before = new Map((await pages()).map(({ id, page }) => [id, page]))
    await store.begin(accepted.map((notification) => ({ notification })))
    const after = await pages()
    assert.ok(after.length === 200 && after.every(({ is_new }) => !is_new))
    assert.deepEqual(
      after.filter(({ id, page }) => before.get(id) !== page),
      [],
    )
  })

  test('a right waits for the changes that were called before it, and for no later ones', async (t) => {
    const now = Date.now()
    const store = await openAt(schemaUrl('overload'), stillClock(now))
    t.after(() => store.close())
    const notification = someNotification({ createdAt: now, status: 'queued' })
    await store.commit({ accept: [notification] })
    // Changes of one account never share a group, and some wait at any time.
    const account = { channel: 'email', provider: 'sandbox', account: 'a' } as const
    let [written, isGiven] = [0, false]
    async function writeOn(): Promise<void> {
      for (; !isGiven && written < 60; written += 1)
        await store.commit({ accounts: [{ ...account, blockedUntil: now + written }] })
    }
    const writing = Promise.all([writeOn(), writeOn(), writeOn()])
    const { refused } = await store.begin([{ notification }])
    isGiven = true
    assert.equal(refused.size, 0)
    await writing
    assert.ok(written < 30, `${written} changes were written`)
  })

  test('refuses in time what waits, however much that is', async (t) => {
    const now = Date.now()
    const clock = stillClock(now)
    const store = await openAt(schemaUrl('many'), clock)
    t.after(() => store.close())
    // More than a function takes arguments, before the first of them is sent.
    const waiting = Array.from({ length: 150_000 }, () => store.commit({}))
    const late = store.commit({ sendBefore: now + 5_000 })
    clock.set(now + 6_000)
    await assert.rejects(late, { code: 'STORE_UNAVAILABLE', isUncertain: false })
    assert.ok((await Promise.all(waiting)).every(({ applied }) => applied))
  })
})
