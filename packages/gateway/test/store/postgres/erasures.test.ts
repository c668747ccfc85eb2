/** Erasures by two processes over one record: of recipients that a batch has yet to reach, and of the same recipient. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { settled, someJob, someNotification } from '../../../src/conformance/store/sample.ts'
import { must } from '../../../src/conformance/store/suite.ts'
import { pseudonymPrefix, type Store, type StoredAnswer } from '../../../src/ports.ts'
import type { Db } from '../../../src/store/postgres/connection.ts'
import { createErasures } from '../../../src/store/postgres/erasures.ts'
import type { Writer } from '../../../src/store/postgres/writer.ts'
import { ask, dropSchemas, joinAt, openAt, schemaUrl } from './database.ts'
import { explained } from './explained.ts'

const message = { channel: 'email', category: 'news', priority: 'normal' } as const
/** True where it has not ended within 20 ms. */
const isPending = (promise: Promise<unknown>): Promise<boolean> =>
  Promise.race([promise.then(() => false), sleep(20, true)])
const people = Array.from({ length: 12 }, (_, n) => ({ id: `p${n}`, email: `p${n}@example.com` }))

describe('two processes that erase', needs('postgres'), () => {
  after(dropSchemas)

  async function two(name: string, run: (a: Store, b: Store) => Promise<void>): Promise<void> {
    const url = schemaUrl(name)
    const join = () => joinAt(url, createSystemClock(), { beatMs: 2_000 })
    const [a, b] = [await join(), await join()]
    try {
      await run(a.store, b.store)
    } finally {
      for (const { members, store } of [a, b]) {
        await members.close()
        await store.close()
      }
    }
  }

  test('take all their recipients out of the remaining work of a batch', () =>
    two('work', async (a, b) => {
      const job = someJob({ total: people.length })
      await must(a, { jobs: [{ kind: 'open', job, work: { message, recipients: people } }] })
      await Promise.all(people.map(({ id }, n) => (n % 2 === 0 ? a : b).beginErasure('acme', id)))
      const { recipients } = (await a.jobWork(job))!
      assert.deepEqual(
        recipients.filter(({ id }) => !id.startsWith(pseudonymPrefix)),
        [],
      )
    }))

  test('take all their recipients out of one answer', () =>
    two('answer', async (a, b) => {
      const results = people.map(({ id, email }) => ({
        recipient: id,
        code: 'INVALID_REQUEST',
        detail: email,
      }))
      const answer: StoredAnswer = {
        ...{ tenant: 'acme', module: 'shop', method: 'POST', path: '/batch', key: 'k', requestHash: 'h' },
        ...{ status: 202, body: JSON.stringify({ results }), createdAt: 1 },
      }
      await must(a, { answer })
      await Promise.all(
        people.map(async ({ id }, n) => {
          const store = n % 2 === 0 ? a : b
          await store.beginErasure('acme', id)
          assert.deepEqual(await store.erase('acme', id), { done: true })
        }),
      )
      const kept = JSON.parse((await a.answer(answer))!.body)
      for (const { recipient, detail } of kept.results) {
        assert.ok(recipient.startsWith(pseudonymPrefix), recipient)
        assert.equal(detail, 'erased')
      }
    }))

  test('refuse a step of a batch that was read before one of its recipients was erased', () =>
    two('step', async (a, b) => {
      const job = someJob({ total: people.length })
      await must(a, { jobs: [{ kind: 'open', job, work: { message, recipients: people } }] })
      const before = (await a.job('acme', job.id))!
      await b.beginErasure('acme', 'p0')
      assert.deepEqual(await b.erase('acme', 'p0'), { done: true })
      const accepted = someNotification({ to: people[0]!, job: job.id })
      const step = (of: typeof job) => ({ kind: 'move', before: of, after: { ...of, taken: 1 } }) as const
      const refused = await a.commit({ accept: [accepted], jobs: [step(before)] })
      assert.deepEqual(refused, { applied: false, conflicts: [{ kind: 'job', key: job.id }] })
      await must(a, {
        accept: [someNotification({ job: job.id })],
        jobs: [step((await a.job('acme', job.id))!)],
      })
    }))

  test('look through the answers of a tenant page by page, and at no content of others', () =>
    two('pages', async (a) => {
      const url = schemaUrl('pages')
      const named = `'{"results":[{"recipient":"eve"}]}'`
      await ask(
        url,
        `INSERT INTO answer SELECT 'acme', 'shop', 'POST', '/batch', 'k' || n, 'h', 202,
          CASE WHEN n % 4000 = 0 THEN ${named} ELSE '{}' END, 1 FROM generate_series(1, 12000) n`,
      )
      // Nobody names it: the next pruning removes it.
      await ask(url, `INSERT INTO content VALUES ('other', 'acme', 9, '{}')`)
      await a.beginErasure('acme', 'eve')
      assert.deepEqual(await a.erase('acme', 'eve'), { done: true })
      const bodies = await ask(url, 'SELECT body, count(*)::int AS n FROM answer GROUP BY body ORDER BY 2')
      assert.deepEqual(
        bodies.map(({ n }) => n),
        [3, 11_997],
      )
      assert.equal(bodies[0]!.body.includes('"eve"'), false)
      assert.deepEqual(await ask(url, 'SELECT id FROM content'), [{ id: 'other' }])
    }))

  test('look through the batches that have ended page by page, and hold up nothing that is written meanwhile', () =>
    two('ended', async (a) => {
      const url = schemaUrl('ended')
      const refused = (recipient: string) =>
        JSON.stringify(Array.from({ length: 9 }, () => ({ recipient, code: 'INVALID_REQUEST', detail: '' })))
      await ask(
        url,
        `INSERT INTO job SELECT 'j' || n, 'acme', 1, 'done', 9, NULL, json_build_object('id', 'j' || n, 'status', 'done',
          'refused', CASE WHEN n % 15000 = 0 THEN '${refused('eve')}' ELSE '${refused('bob')}' END::json)
          FROM generate_series(1, 60000) n`,
      )
      let isErasing = true
      const erasing = a
        .beginErasure('acme', 'eve')
        .then(() => a.erase('acme', 'eve'))
        .finally(() => {
          isErasing = false
        })
      let commits = 0
      for (; isErasing; commits += 1) {
        await must(a, { accept: [someNotification()] })
      }
      assert.deepEqual(await erasing, { done: true })
      assert.ok(commits > 20, `${commits} commits while the batches were looked through`)
      const bodies = await ask(
        url,
        `SELECT body->'refused'->0->>'recipient' AS recipient, count(*)::int AS n FROM job GROUP BY 1 ORDER BY 2`,
      )
      assert.deepEqual(
        bodies.map(({ n }) => n),
        [4, 59_996],
      )
      assert.ok(bodies[0]!.recipient.startsWith(pseudonymPrefix))
    }))

  test('erase what another process removes because it is old, and neither fails', () =>
    two('old', async (a, b) => {
      const url = schemaUrl('old')
      const sent = someNotification({ to: { id: 'eve' }, createdAt: 1, dueAt: 1 })
      await must(a, { accept: [sent] })
      await must(a, { moves: [settled(sent, 1)] })
      // The erasure is slow between the two rows of a notification.
      await ask(
        url,
        `CREATE FUNCTION be_slow() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN PERFORM pg_sleep(1); RETURN new; END $$;
          CREATE TRIGGER slow BEFORE UPDATE ON notification FOR EACH ROW EXECUTE FUNCTION be_slow()`,
      )
      await a.beginErasure('acme', 'eve')
      const erasing = a.erase('acme', 'eve')
      while (
        (await ask(url, "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'")).length === 0 &&
        (await isPending(erasing))
      );
      await b.prune({ answers: 0, notifications: 10 })
      assert.deepEqual(await erasing, { done: true })
      assert.equal((await b.prune({ answers: 0, notifications: 10 })).oldestAt, undefined)
    }))

  test('erase a recipient who has got very much in slices', async (t) => {
    const url = schemaUrl('slices')
    const clock = createSystemClock()
    const store = await openAt(url, clock)
    t.after(() => store.close())
    await ask(
      url,
      `INSERT INTO notification SELECT 'n' || n, n, 'acme', 'eve', 'product', NULL, NULL, n, '{"to":{"id":"eve"}}', '{"timeline":[{"at":1}]}'
          FROM generate_series(1, 2000) n;
        INSERT INTO outcome SELECT 'n' || n, 'acme', 'email', 6, 1, 1, 1 FROM generate_series(1, 2000) n;
        SELECT setval('acceptance', 2000);
        ANALYZE notification, outcome`,
    )
    const db = await explained(t, url)
    const writer = { task: <T>(run: (db: Db & { epoch: number }) => Promise<T>) => run({ ...db, epoch: 1 }) }
    const parts = { db, writer: writer as Writer, pseudonymOf: () => 'erased:eve', clock, isLogged: false }
    const { beginErasure, erase } = createErasures(parts)
    await beginErasure('acme', 'eve')
    assert.deepEqual(await erase('acme', 'eve'), { done: true })
    const most = db.most()
    assert.ok(most <= 500, `one statement reads ${most} rows`)
    assert.deepEqual(await ask(url, 'SELECT recipient, count(*)::int AS n FROM notification GROUP BY 1'), [
      { recipient: 'erased:eve', n: 2_000 },
    ])
  })

  test('end one erasure of a recipient, and what was accepted behind it stays', () =>
    two('same', async (a, b) => {
      await a.beginErasure('acme', 'eve')
      assert.deepEqual(await a.erase('acme', 'eve'), { done: true })
      const back = someNotification({ to: { id: 'eve' } })
      await must(a, { accept: [back] })
      assert.deepEqual(await b.erase('acme', 'eve'), { done: true }, 'another process has ended it')
      assert.deepEqual(await b.notification('acme', back.id), back)
      assert.deepEqual(await b.erasures(), [])
    }))
})
