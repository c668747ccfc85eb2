/** Reports that reach two processes over one PostgreSQL at once: neither waits for a row of the other in a circle. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import type { FeedbackEvent, WaitingReport } from '../../../src/ports/feedback.ts'
import type { Store } from '../../../src/ports.ts'
import { dropSchemas, openAt, schemaUrl } from './database.ts'

const count = 500
const rounds = 6

/** Opens two processes of a fleet over one schema. */
async function openBoth(t: TestContext, name: string): Promise<readonly [Store, Store]> {
  const open = async (member: string): Promise<Store> => {
    const store = await openAt(schemaUrl(name), stillClock(epoch), member)
    t.after(() => store.close())
    return store
  }
  return [await open('1'), await open('2')]
}

/** Gives both processes the same rows at once, to each in its own order. */
async function inBothOrders<Row, Answer>(
  rowsOf: (round: number) => readonly Row[],
  writes: readonly [(rows: readonly Row[]) => Promise<Answer>, (rows: readonly Row[]) => Promise<Answer>],
): Promise<readonly (readonly [Answer, Answer])[]> {
  const answers: (readonly [Answer, Answer])[] = []
  for (let round = 0; round < rounds; round += 1) {
    const rows = rowsOf(round)
    answers.push(await Promise.all([writes[0](rows), writes[1](rows.toReversed())]))
  }
  return answers
}

describe('reports that two processes get at once on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('are kept once each by both, in whatever orders they come', async (t) => {
    const [a, b] = await openBoth(t, 'feedback')
    const eventsOf = (round: number): FeedbackEvent[] =>
      Array.from({ length: count }, (_, n) => ({
        tenant: 'acme',
        notificationId: `n${round}-${n}`,
        key: 'k',
        type: 'complaint',
        channel: 'email',
        category: 'marketing',
        at: epoch + round,
        keptAt: epoch,
      }))
    const answers = await inBothOrders(eventsOf, [a.feedback.keep, b.feedback.keep])
    for (const both of answers) assert.equal(both.flat().filter((isNew) => isNew).length, count)
  })

  test('wait once each for their notifications', async (t) => {
    const [a, b] = await openBoth(t, 'waiting_reports')
    const reportsOf = (round: number): WaitingReport[] =>
      Array.from({ length: count }, (_, n) => ({
        id: `${round}-${n}`,
        reporter: 'acme',
        until: epoch,
        body: '{}',
      }))
    const keep =
      ({ feedback }: Store) =>
      (rows: readonly WaitingReport[]) =>
        feedback.keepWaiting(rows, { ofOne: 100_000, ofAll: 100_000 })
    const answers = await inBothOrders(reportsOf, [keep(a), keep(b)])
    for (const both of answers) assert.ok(both.flat().every((waits) => waits))
    assert.equal((await a.feedback.waiting(rounds * count + 1)).length, rounds * count)
  })

  test('are shown in the order of one call where they are of one instant', async (t) => {
    const [a] = await openBoth(t, 'feedback_order')
    const keys = ['c', 'a', 'b', 'a']
    const events = keys.map(
      (key): FeedbackEvent => ({
        tenant: 'acme',
        notificationId: 'n',
        key,
        type: 'open',
        channel: 'email',
        category: 'marketing',
        at: epoch,
        keptAt: epoch,
      }),
    )
    assert.deepEqual(await a.feedback.keep(events), [true, true, true, false])
    assert.deepEqual(
      (await a.feedback.of('acme', ['n'])).map(({ key }) => key),
      ['c', 'a', 'b'],
    )
  })
})
