/**
 * The record of the version whose schema had twelve steps, on a real PostgreSQL: what it wrote is read behind the later
 * steps, and a process of it that still runs goes on writing beside processes of this version.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { advance } from '../../../src/model.ts'
import type { Change } from '../../../src/ports.ts'
import { encodeChange } from '../../../src/store/postgres/codec.ts'
import { addressOf, ask, dropSchemas, openAt, schemaUrl } from './database.ts'

const steps = 12
const folder = new URL('../../../src/store/postgres/migrations/', import.meta.url)

/** Makes the schema of the earlier version, with one member that writes. */
async function makeEarlier(url: string): Promise<void> {
  const { schema } = addressOf(url)
  await ask(url, `CREATE SCHEMA ${schema}; CREATE TABLE ${schema}.migration (version int PRIMARY KEY)`)
  const files = readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .toSorted()
    .slice(0, steps)
  await ask(url, files.map((name) => readFileSync(new URL(name, folder), 'utf8')).join('\n'))
  await ask(
    url,
    `INSERT INTO migration SELECT generate_series(1, ${steps});
      INSERT INTO member (id, name, version, epoch) VALUES (7, 'earlier', 'earlier', 1)`,
  )
}

/** Writes a change as a process of the earlier version: all values stand in the rows, and columns of later steps nowhere. */
async function writeEarlier(url: string, change: Change): Promise<void> {
  const { accept, moves, ids, versions } = encodeChange(change)
  const numbered = (row: object, more: object = {}) => ({
    c: 0,
    ...row,
    ...more,
    waits: undefined,
    policy: undefined,
  })
  const group = {
    accept: accept.map(({ row, texts }) =>
      numbered(row, { body: JSON.parse(texts[0]!), first: JSON.parse(texts[1]!) }),
    ),
    ids: ids.map((row) => numbered(row)),
    moves: moves.map(({ row, texts }) => numbered(row, { state: JSON.parse(texts[0]!) })),
    versions: versions.map((row) => numbered(row)),
  }
  const present = Object.fromEntries(Object.entries(group).filter(([, rows]) => rows.length > 0))
  const [row] = await ask(
    url,
    `SELECT to_json(commit_group(7, 1, ${epoch}, $g$${JSON.stringify(present)}$g$)) AS conflicts`,
  )
  assert.deepEqual(row!.conflicts, [])
}

describe('the record of an earlier version of PostgreSQL’s schema', needs('postgres'), () => {
  after(dropSchemas)

  test('what it wrote is whole behind the later steps, and its processes go on writing beside those of this version', async (t) => {
    const url = schemaUrl('earlier')
    await makeEarlier(url)
    const kept = someNotification({ status: 'scheduled', dueAt: epoch + 60_000 })
    const ending = someNotification({ status: 'queued' })
    await writeEarlier(url, { accept: [kept, ending] })

    const store = await openAt(url, stillClock(epoch), '8')
    t.after(() => store.close())
    assert.deepEqual(await store.notification(kept.tenant, kept.id), kept)

    // This version accepts, and the earlier one delays: what was read into columns then is no longer so.
    const { decision } = someNotification()
    const moved = someNotification({
      status: 'scheduled',
      dueAt: epoch + 60_000,
      decision: { ...decision, policyVersion: 'new' },
    })
    await store.commit({ accept: [moved] })
    const delayed = advance(moved, [{ at: epoch, status: 'scheduled', reason: 'quiet_hours' }], {
      dueAt: epoch + 120_000,
      decision,
    })
    const ended = advance(
      ending,
      [
        { at: epoch, status: 'sending' },
        { at: epoch, status: 'delivered' },
      ],
      { firedAt: epoch },
    )
    await writeEarlier(url, { moves: [delayed, ended] })
    assert.deepEqual(await store.notification(moved.tenant, moved.id), delayed.after)
    assert.deepEqual(await store.notification(ending.tenant, ending.id), ended.after)
    const { items } = await store.scan({ statuses: ['scheduled'], notPolicy: 'new', limit: 10 })
    assert.deepEqual(
      items.map(({ id }) => id),
      [kept.id, moved.id],
    )
  })
})
