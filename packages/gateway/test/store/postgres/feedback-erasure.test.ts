/** Reports that meet an erasure of another gateway on PostgreSQL: each of both is under way when the other comes. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, settled, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { must } from '../../../src/conformance/store/suite.ts'
import type { FeedbackEvent } from '../../../src/ports/feedback.ts'
import { pseudonymPrefix } from '../../../src/ports.ts'
import { connect } from '../../../src/store/postgres/connection.ts'
import { feedbackRow, writeFeedback } from '../../../src/store/postgres/feedback.ts'
import { addressOf, dropSchemas, openAt, schemaUrl } from './database.ts'

/** True where it has not ended within 50 ms. */
const isPending = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise.then(() => false), sleep(50, true)])

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
  return { store, other, sent, bounce, details }
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
    assert.equal(await isPending(erased), true, 'it waits for the report')
    await other.query('COMMIT')
    assert.deepEqual(await erased, { done: true })
    assert.deepEqual(await details(), [undefined])
  })
})
