/**
 * A move from a file to PostgreSQL: a record with notifications in every state, made by a running gateway, and what the
 * API says of each of them before and after.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../src/adapters/clock.ts'
import { connect } from '../../../src/store/postgres/connection.ts'
import { createSqliteStore } from '../../../src/store/sqlite/sqlite.ts'
import { createSite } from '../../child.ts'
import { temporaryFolder } from '../../config/folder.ts'
import { product } from '../../product.ts'
import { addressOf, ask, dropSchemas, schemaUrl } from './database.ts'
import { calm, config, fill, type Listed, policy, said, states, to } from './filled.ts'
import { sluice } from './sluice.ts'

/** The content of the files of a store. */
const filesOf = (folder: string): readonly string[] =>
  ['sluice.db', 'sluice.db-wal', 'sluice.db-mark', 'log.key', 'erasure.key', 'unsubscribe.key'].map(
    (name) => {
      const path = join(folder, 'data', name)
      return existsSync(path) ? createHash('sha256').update(readFileSync(path)).digest('hex') : 'none'
    },
  )

describe('a move from a file to PostgreSQL', needs('postgres'), () => {
  let folder = ''
  let told: ReadonlyMap<string, unknown> = new Map()
  const cleanups: (() => void | Promise<void>)[] = []
  const cleanup = {
    after: (run: () => void | Promise<void>) => void cleanups.push(run),
  } as unknown as TestContext

  before(async () => {
    folder = temporaryFolder(cleanup)
    const path = join(folder, 'data', 'sluice.db')
    mkdirSync(join(folder, 'data'), { recursive: true })
    const earlier = createSqliteStore({ path, clock: createSystemClock() })
    const place = { topicId: 'the-id', partition: 3 }
    await earlier.intake.advance([{ ...place, next: 12, ahead: [14, 17] }])
    const bytes = Buffer.from([0, 255])
    await earlier.intake.keepPoison([
      { ...place, offset: 13, topic: 't', detail: 'no JSON', bytes, size: 2, at: Date.now() },
    ])
    await earlier.close()
    const site = await createSite(cleanup, { folder, config, policy })
    await site.start()
    await fill(site)
    await calm(site)
    told = await said(site)
    assert.equal((await site.terminate()).code, 0)
    const store = createSqliteStore({ path, clock: createSystemClock(), isLogged: true })
    const event = {
      tenant: 'default',
      notificationId: 'n1',
      key: 'k1',
      type: 'bounce',
      channel: 'email',
    } as const
    const at = Date.now()
    await store.feedback.keep([
      { ...event, category: 'news', at, keptAt: at, permanent: true, detail: '550' },
    ])
    const sent = { key: 'a', tenant: 'default', notificationId: 'n1' }
    await store.feedback.keepSent([{ ...sent, sentAt: at - 86_400_000 }])
    await store.feedback.keepSent([{ ...sent, notificationId: 'n2', sentAt: at }])
    await store.feedback.keepWaiting([{ id: 'w', reporter: 'r', until: at, body: '{}' }], {
      ...{ ofOne: 1, ofAll: 1 },
    })
    // The delivery log has yet to hear of it.
    await store.beginErasure('default', 'erased-1')
    await store.erase('default', 'erased-1')
    await store.close()
  })
  after(async () => {
    for (const run of cleanups.reverse()) await run()
    await dropSchemas()
  })

  /** A copy of the store for a test that changes it. */
  function copied(t: TestContext): { readonly folder: string; readonly from: string } {
    const copy = temporaryFolder(t)
    mkdirSync(join(copy, 'data'), { recursive: true })
    cpSync(join(folder, 'data'), join(copy, 'data'), { recursive: true })
    return { folder: copy, from: `sqlite:${join(copy, 'data', 'sluice.db')}` }
  }
  const from = (): string => `sqlite:${join(folder, 'data', 'sluice.db')}`

  test('the record holds every state that is kept', () => {
    const found = new Set([...told.values()].map((each) => (each as Partial<Listed>).status))
    assert.deepEqual(
      states.filter((state) => !found.has(state)),
      [],
    )
    const db = new DatabaseSync(join(folder, 'data', 'sluice.db'), { readOnly: true })
    const count = (table: string) => Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()!.n)
    for (const table of [
      'contents',
      'jobs',
      'job_work',
      'digests',
      'answers',
      'recipients',
      'holds',
      'accounts',
      'feedback',
      'feedback_waiting',
      'sent',
      'outbox',
      'intake_position',
      'poison',
    ])
      assert.ok(count(table) > 0, table)
    assert.ok(count('notifications') > 1_200)
    db.close()
  })

  test('a dry run reads everything and writes nothing', async () => {
    const url = schemaUrl('dry')
    const files = filesOf(folder)
    const { status, out, err } = sluice(['move', from(), url, '--dry-run'], {})
    assert.equal(status, 0, err)
    assert.match(out, /\d+ {2}notifications +[0-9a-f]{32}[\s\S]+Nothing was written\.$/m)
    assert.deepEqual(await ask(url, 'SELECT current_schema() AS name'), [{ name: null }])
    assert.deepEqual(filesOf(folder), files)
  })

  test('the API says of every notification what it said before', async (t) => {
    const url = schemaUrl('moved')
    const files = filesOf(folder)
    const { status, out, err } = sluice(['move', from(), url, '--json'], {})
    assert.equal(status, 0, err)
    const { moved } = JSON.parse(out) as { moved: Record<string, { count: number }> }
    assert.deepEqual(filesOf(folder), files, 'the source is as it was')
    assert.ok(moved.notification!.count > 1_200)
    const site = await createSite(t, { config: { ...config, store: url }, policy })
    await site.start()
    const now = await said(site)
    assert.deepEqual([...now.keys()].sort(), [...told.keys()].sort())
    for (const [what, answer] of told) assert.deepEqual(now.get(what), answer, what)
    const repeated = await site.call(
      'POST',
      '/api/v1/notifications',
      { recipient: to('r-3'), channel: 'email', content: { subject: 'Message 3', text: 'x'.repeat(31) } },
      { 'idempotency-key': 'key-3' },
    )
    const first = await site.call('GET', `/api/v1/notifications/${repeated.json<Listed>().notificationId}`)
    assert.equal(first.status, 200)
    assert.ok(told.has(`default: ${repeated.json<Listed>().notificationId}`), 'the stored answer')
    const { text } = await site.call('GET', '/metrics')
    assert.match(text, /^sluice_notifications_unaccounted 0$/m)
    assert.equal((await site.terminate()).code, 0)
  })

  test('a destination that holds anything is refused', async () => {
    const url = schemaUrl('moved')
    const { status, err } = sluice(['move', from(), url], {})
    assert.equal(status, 2)
    assert.match(err, /is not empty: there are rows in "notification"/)
  })

  test('a source in use, and one whose gateway was killed, are refused and told what to do', async (t) => {
    const copy = copied(t)
    const site = await createSite(t, { folder: copy.folder, config, policy })
    await site.start()
    const inUse = sluice(['move', copy.from, schemaUrl('in_use')], {})
    assert.equal(inUse.status, 2)
    assert.match(inUse.err, /is in use by another gateway/)
    await site.kill()
    const killed = sluice(['move', copy.from, schemaUrl('in_use')], {})
    assert.equal(killed.status, 2)
    assert.match(killed.err, /was not closed: its gateway was killed/)
    const nowhere = sluice(['move', 'sqlite:./nowhere.db', schemaUrl('in_use')], {})
    assert.equal(nowhere.status, 2)
    assert.match(nowhere.err, /does not exist/)
  })

  test('a destination in use is refused', async (t) => {
    const url = schemaUrl('taken')
    const site = await createSite(t, { config: { store: url } })
    await site.start()
    const { status, err } = sluice(['move', from(), url], {})
    assert.equal(status, 2)
    assert.match(err, /Another gateway .+ serves/)
  })

  test('a kill in the middle leaves the source as it was and the destination empty', async () => {
    const url = schemaUrl('killed')
    const files = filesOf(folder)
    for (const rows of [1, 600]) {
      const child = spawn(process.execPath, [...product.args, 'move', from(), url], { stdio: 'ignore' })
      const gone = new Promise((resolve) => child.on('exit', resolve))
      // Rows of a transaction under way are seen by nobody but the server's own figures.
      for (let written = 0; written < rows && child.exitCode === null; ) {
        await sleep(2)
        const figures = await ask(
          url,
          `SELECT coalesce(sum(pg_relation_size(oid)), 0)::bigint AS bytes FROM pg_class
            WHERE relname = 'notification' AND relnamespace = current_schema()::regnamespace`,
        ).catch(() => [])
        written = Number(figures[0]?.bytes ?? 0) / 2_000
      }
      assert.equal(child.exitCode, null, 'killed before its end')
      child.kill('SIGKILL')
      await gone
      assert.deepEqual(await ask(url, 'SELECT count(*)::int AS n FROM notification'), [{ n: 0 }])
    }
    assert.deepEqual(filesOf(folder), files)
    const { status, err } = sluice(['move', from(), url], {})
    assert.equal(status, 0, err)
  })

  test('a byte that changed on the disk of the source ends the move, and nothing is kept', async (t) => {
    const copy = copied(t)
    const db = new DatabaseSync(copy.from.slice('sqlite:'.length))
    db.exec(
      `UPDATE states SET timeline = replace(timeline, 'delivered', 'deliverex') WHERE seq = (SELECT max(seq) FROM states)`,
    )
    db.exec('UPDATE states SET attempts = attempts + 1 WHERE seq = 100')
    db.close()
    const url = schemaUrl('damaged')
    const { status, err } = sluice(['move', copy.from, url], {})
    assert.equal(status, 1)
    assert.match(err, /the check sum of the state of notification \w+ is wrong/)
    assert.deepEqual(await ask(url, 'SELECT count(*)::int AS n FROM notification'), [{ n: 0 }])
  })

  test('a destination that holds something else than the source keeps nothing', async () => {
    const url = schemaUrl('other')
    assert.equal(sluice(['migrate'], { SLUICE_STORE: url }).status, 0)
    await ask(
      url,
      `CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN IF NEW.seq % 500 = 0 THEN NEW.body := replace(NEW.body::text, 'default', 'defauld')::json; END IF; RETURN NEW; END $$;
        CREATE TRIGGER spoil BEFORE INSERT ON notification FOR EACH ROW EXECUTE FUNCTION spoil()`,
    )
    const { status, err } = sluice(['move', from(), url], {})
    assert.equal(status, 1)
    assert.match(err, /The move was not kept: of notification \d+ were read and \d+ found .+ other content/)
    assert.deepEqual(await ask(url, 'SELECT count(*)::int AS n FROM notification'), [{ n: 0 }])
  })

  test('a table of somebody else that is locked in the same database fails no move that is done', async (t) => {
    const holder = await connect(addressOf(schemaUrl('holder')))
    t.after(() => holder.close())
    const { schema } = addressOf(schemaUrl('holder'))
    await holder.query(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.theirs (id int)`)
    await holder.query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0; LOCK ${schema}.theirs`)
    const url = schemaUrl('beside')
    const { status, err } = sluice(['move', from(), url], {})
    assert.equal(status, 0, err)
    const [row] = await ask(url, 'SELECT count(*)::int AS n FROM notification')
    assert.ok(row!.n > 1_200)
  })

  test('the address of the destination may stand in a file, and no password is shown', async (t) => {
    const file = join(temporaryFolder(t), 'address')
    const url = new URL(schemaUrl('secret'))
    url.password = 'canary'
    writeFileSync(file, `${url.href}\n`)
    const { status, out, err } = sluice(['move', from(), `file:${file}`, '--json'], {})
    assert.equal(status, 0, err)
    const again = sluice(['move', from(), `file:${file}`], {})
    assert.equal(again.status, 2)
    const wrong = sluice(['move', from(), 'mysql://root:canary@db/sluice'], {})
    assert.equal(wrong.status, 2)
    assert.match(wrong.err, /expected sqlite:<path> or postgres:/)
    assert.ok(!`${out}${err}${again.err}${wrong.err}`.includes('canary'))
  })
})
