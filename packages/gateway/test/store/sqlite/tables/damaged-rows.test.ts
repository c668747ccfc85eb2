/** One row that is damaged concerns nobody else: it is named once, set aside, and nothing of it is sent. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { epoch, someDigest, someNotification, stillClock } from '../../../../src/conformance/store/sample.ts'
import { agree } from '../../../../src/conformance/store/suite.ts'
import { damagedRowOf } from '../../../../src/errors.ts'
import { createSqliteStore, type DamagedRow } from '../../../../src/store/sqlite/sqlite.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-damaged-'))
after(() => rmSync(folder, { recursive: true }))
const clock = stillClock(epoch)

test('a damaged notification becomes a dead letter without content, and the others go on', async () => {
  const path = join(folder, 'one.db')
  const rows = Array.from({ length: 5 }, () =>
    someNotification({ to: { id: 'eve', email: 'eve@example.com' } }),
  )
  const first = createSqliteStore({ path, clock })
  await first.commit({ accept: rows })
  await first.close()
  const db = new DatabaseSync(path)
  db.exec("UPDATE notifications SET request = replace(request, 'eve@', 'eva@') WHERE seq = 3")
  db.close()

  const told: DamagedRow[] = []
  const store = createSqliteStore({ path, clock, onDamagedRow: (row) => void told.push(row) })
  const ids = rows.map(({ id }) => id)
  const listed = await store.list({ tenant: 'acme', limit: 10 })
  assert.deepEqual(
    listed.items.map(({ id }) => id).toSorted(),
    ids.filter((_, index) => index !== 2).toSorted(),
  )
  assert.equal((await store.claimDue(epoch + 1, 10)).length, 4)
  await assert.rejects(store.notification('acme', ids[2]!), {
    code: 'STORE_UNAVAILABLE',
    message: /nobody else/,
  })
  assert.deepEqual(
    told.map(({ what }) => what),
    [`notification ${ids[2]}`],
    'named once',
  )
  await store.ping()
  assert.deepEqual(await store.commit({ accept: [someNotification({ tenant: 'other' })] }), { applied: true })

  assert.deepEqual(await store.commit({ moves: [told[0]!.move!] }), { applied: true })
  const poisoned = (await store.notification('acme', ids[2]!))!
  assert.deepEqual([poisoned.status, poisoned.timeline.at(-1)?.reason], ['dead', 'poison'])
  assert.deepEqual([poisoned.to, poisoned.content, poisoned.data], [{ id: 'eve' }, undefined, undefined])
  const dead = await store.deadLetters({ cause: 'poison', limit: 10 })
  assert.deepEqual(dead.items, [poisoned])
  await agree(store)
  await store.close()
  const again = createSqliteStore({ path, clock, onDamagedRow: () => assert.fail('it is told once') })
  assert.deepEqual(await again.notification('acme', ids[2]!), poisoned)
  await again.close()
})

test('a damaged state becomes a dead letter too, and that of an ended notification is only left out', async () => {
  const path = join(folder, 'state.db')
  const waits = someNotification({ status: 'scheduled', dueAt: epoch + 9_000 })
  const ended = someNotification({ status: 'suppressed' })
  const first = createSqliteStore({ path, clock })
  await first.commit({ accept: [waits, ended] })
  await first.close()
  const db = new DatabaseSync(path)
  db.exec("UPDATE states SET timeline = replace(timeline, 'accepted', 'acceptef')")
  db.close()
  const told: DamagedRow[] = []
  const store = createSqliteStore({ path, clock, onDamagedRow: (row) => void told.push(row) })
  assert.deepEqual((await store.list({ tenant: 'acme', limit: 10 })).items, [])
  assert.deepEqual(
    told.map(({ move }) => move?.after.status),
    [undefined, 'dead'],
  )
  await store.commit({ moves: [told[1]!.move!] })
  assert.equal((await store.notification('acme', waits.id))?.status, 'dead')
  await store.close()
})

test('a damaged digest, job, account or recipient leaves all others readable', async () => {
  const path = join(folder, 'others.db')
  const first = createSqliteStore({ path, clock })
  const digests = [someDigest({ id: 'd1', recipient: 'a' }), someDigest({ id: 'd2', recipient: 'b' })]
  await first.commit({ digests: digests.map((digest) => ({ kind: 'open', digest })) })
  await first.commit({ recipients: ['a', 'b'].map((id) => ({ tenant: 'acme', id, locale: 'it' })) })
  await first.commit({
    accounts: ['x', 'y'].map((account) => ({
      channel: 'email',
      provider: 'smtp',
      account,
      blockedUntil: epoch,
    })),
  })
  await first.close()
  const db = new DatabaseSync(path)
  db.exec("UPDATE digests SET closes_at = closes_at - 1 WHERE id = 'd1'")
  db.exec("UPDATE recipients SET body = replace(body, 'it', 'ie') WHERE id = 'a'")
  db.exec("UPDATE accounts SET sum = sum + 1 WHERE account = 'x'")
  db.close()
  const told: string[] = []
  const store = createSqliteStore({ path, clock, onDamagedRow: ({ what }) => void told.push(what) })
  const due = () => store.dueDigests(Number.MAX_SAFE_INTEGER, 10)
  assert.deepEqual(
    (await due()).map(({ id }) => id),
    ['d2'],
  )
  assert.deepEqual(
    new Set((await due()).map(({ id }) => id)),
    new Set(['d1', 'd2']),
    'its items come to an end',
  )
  assert.deepEqual(
    (await store.accounts()).map(({ account }) => account),
    ['y'],
  )
  await assert.rejects(store.recipient('acme', 'a'), { code: 'STORE_UNAVAILABLE' })
  assert.equal((await store.recipient('acme', 'b'))?.locale, 'it')
  const both = await store.recipients(['b', 'a'].map((recipient) => ({ tenant: 'acme', recipient })))
  assert.deepEqual(both[0], { tenant: 'acme', id: 'b', locale: 'it' }, 'the row beside it is sound')
  assert.equal(damagedRowOf(both[1]), 'recipient a')
  await store.commit({ recipients: [{ tenant: 'acme', id: 'a', locale: 'de' }] })
  assert.equal((await store.recipient('acme', 'a'))?.locale, 'de', 'what is written anew is sound')
  assert.deepEqual(told, ['digest d1', 'account x', 'recipient a'])
  await store.close()
})

test('an item that joins a damaged digest does not make sound what the digest is held as', async () => {
  const path = join(folder, 'held.db')
  const first = createSqliteStore({ path, clock })
  const digest = someDigest()
  const { module, to, priority } = someNotification()
  const held = { ...digest, heldAs: { module, to, priority, actors: ['eve'] } }
  await first.commit({ digests: [{ kind: 'open', digest }] })
  await first.commit({ digests: [{ kind: 'postpone', digest: held }] })
  await first.close()
  const db = new DatabaseSync(path)
  db.exec(`UPDATE digests SET held_as = replace(held_as, '"module"', 'xmodule"')`)
  db.close()
  const store = createSqliteStore({ path, clock })
  const earlier = { ...digest, closesAt: digest.closesAt - 1 }
  const item = someNotification({ status: 'digesting', digestId: digest.id })
  await store.commit({ digests: [{ kind: 'join', digest: earlier }], accept: [item] })
  assert.deepEqual(await store.dueDigests(digest.closesAt, 9), [earlier])
  await store.close()
})
