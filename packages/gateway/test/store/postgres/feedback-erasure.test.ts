/** Reports that meet an erasure of another gateway on PostgreSQL: each of both is under way when the other comes. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, settled, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { applied, conflict, must } from '../../../src/conformance/store/suite.ts'
import type { FeedbackEvent } from '../../../src/ports/feedback.ts'
import { pseudonymPrefix } from '../../../src/ports.ts'
import { type Connection, connect } from '../../../src/store/postgres/connection.ts'
import { feedbackRow, writeFeedback } from '../../../src/store/postgres/feedback.ts'
import { addressOf, dropSchemas, openAt, schemaUrl } from './database.ts'

const waitersText = `WITH RECURSIVE waiter(pid) AS (
    SELECT pg_backend_pid() UNION SELECT a.pid FROM pg_stat_activity a JOIN waiter w ON w.pid = ANY(pg_blocking_pids(a.pid))
  ) SELECT count(*)::int - 1 AS waiters FROM waiter`

/** Resolves with true once so many wait for the transaction, one behind the other, and with false where the promise is settled. */
async function waitsFor(promise: Promise<unknown>, { query }: Connection, count = 1): Promise<boolean> {
  let isSettled = false
  const settle = (): void => {
    isSettled = true
  }
  promise.then(settle, settle)
  while (!isSettled) {
    const [found] = await query<{ waiters: number }>(waitersText)
    if (found!.waiters >= count) return true
    await sleep(10)
  }
  return false
}

/** A store with a delivered notification to Eve and a bounce of it, and a connection of another process. */
async function open(t: TestContext, name: string) {
  const url = schemaUrl(name)
  const store = await openAt(url, stillClock(epoch), '1')
  t.after(() => store.close())
  const other = await connect(addressOf(url))
  t.after(() => other.close())
  const sent = someNotification({ to: { id: 'eve', email: 'eve@example.com' } })
  await must(store, { accept: [sent] })
  await must(store, { moves: [settled(sent, epoch + 5)] })
  const bounce: FeedbackEvent = {
    ...{ tenant: 'acme', notificationId: sent.id, key: 'k', type: 'bounce', channel: 'email' },
    ...{ category: 'product', at: epoch, keptAt: epoch, detail: '550 no such user eve@example.com' },
  } as const
  const details = async () => (await store.feedback.of('acme', [sent.id])).map(({ detail }) => detail)
  return { url, store, other, sent, bounce, details }
}

describe('a report and an erasure at once on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('leave no words of the provider where the erasure has written the notification, and not committed yet', async (t) => {
    const { store, other, sent, bounce, details } = await open(t, 'words behind')
    await other.query('BEGIN')
    await other.query('UPDATE notification SET recipient = $2 WHERE id = $1', [
      sent.id,
      `${pseudonymPrefix}x`,
    ])
    await other.query("UPDATE feedback SET body = body - 'detail' WHERE notification = $1", [sent.id])
    assert.deepEqual(await store.feedback.keep([bounce]), [true], 'it waits for no erasure')
    await other.query('COMMIT')
    assert.deepEqual(await details(), [undefined])
  })

  test('leave no words of the provider where the report is written, and not committed yet', async (t) => {
    const { store, other, bounce, details } = await open(t, 'words before')
    await other.query('BEGIN')
    await other.query(writeFeedback, [JSON.stringify([{ n: 0, ...feedbackRow(bounce) }])])
    await store.beginErasure('acme', 'eve')
    const erased = store.erase('acme', 'eve')
    assert.equal(await waitsFor(erased, other), true, 'it waits for the report')
    await other.query('COMMIT')
    assert.deepEqual(await erased, { done: true })
    assert.deepEqual(await details(), [undefined])
  })

  test('keep the words of the provider while others write the notification and report of it, and no erasure does', async (t) => {
    const { url, store, other, bounce } = await open(t, 'words beside')
    const writer = await openAt(url, stillClock(epoch), '2')
    t.after(() => writer.close())
    const waiting = someNotification({ to: { id: 'eve', email: 'eve@example.com' } })
    await must(writer, { accept: [waiting] })
    const reported = (key: string) => ({ ...bounce, notificationId: waiting.id, key })
    await other.query('BEGIN')
    await other.query(writeFeedback, [JSON.stringify([{ n: 0, ...feedbackRow(reported('beside')) }])])
    // The change has locked what it moves by then, and waits for this.
    await other.query("INSERT INTO recipient VALUES ('acme', 'eve', 1, '{}')")
    const written = writer.commit({ moves: [settled(waiting, epoch + 5)], recipients: [marked] })
    assert.equal(await waitsFor(written, other), true)
    assert.deepEqual(await store.feedback.keep([reported('k')]), [true])
    await other.query('ROLLBACK')
    assert.deepEqual(await written, applied)
    const kept = await store.feedback.of('acme', [waiting.id])
    assert.deepEqual(
      kept.map(({ detail }) => detail),
      [bounce.detail],
    )
  })

  const invalid = [{ channel: 'email', address: 'eve@example.com', at: epoch }] as const
  const marked = { tenant: 'acme', id: 'eve', invalid, version: 0 }

  test('refuse what a report changes of a recipient whose erasure has begun, and is not committed yet', async (t) => {
    const { store, other, sent } = await open(t, 'mark behind')
    await other.query('BEGIN')
    await other.query("SELECT pg_advisory_xact_lock(erasure_lock('acme', 'eve'))")
    await other.query("INSERT INTO erasure VALUES ('acme', 'eve', nextval('acceptance'))")
    const reportedOf = [{ tenant: 'acme', recipient: 'eve', notificationId: sent.id }]
    const written = store.commit({ recipients: [marked], reportedOf })
    assert.equal(await waitsFor(written, other), true)
    await other.query('COMMIT')
    assert.deepEqual(await written, conflict('erased', 'eve'))
    assert.equal(await store.recipient('acme', 'eve'), undefined)
  })

  test('leave nothing of the recipient where the change of a report is written, and not committed yet', async (t) => {
    const { store, other, sent, url } = await open(t, 'mark before')
    const eraser = await openAt(url, stillClock(epoch), '2')
    t.after(() => eraser.close())
    // The change has been compared with the record by then, and waits for this.
    await other.query('BEGIN')
    await other.query("INSERT INTO recipient VALUES ('acme', 'eve', 1, '{}')")
    const reportedOf = [{ tenant: 'acme', recipient: 'eve', notificationId: sent.id }]
    const written = store.commit({ recipients: [marked], reportedOf })
    assert.equal(await waitsFor(written, other), true)
    const begun = eraser.beginErasure('acme', 'eve')
    assert.equal(await waitsFor(begun, other, 2), true, 'it waits for the change')
    await other.query('ROLLBACK')
    assert.deepEqual(await written, applied)
    await begun
    assert.equal(await store.recipient('acme', 'eve'), undefined)
  })
})
