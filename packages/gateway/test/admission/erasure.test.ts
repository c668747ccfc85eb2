/** An erased recipient leaves no personal data behind, and limits and opt-outs hold when the same id returns. */
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { createHarness, day, type Harness, hour, minute } from '../harness.ts'
import { codeOf, open, workFor } from '../http/job-harness.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-erasure-'))
after(() => rmSync(folder, { recursive: true }))

const policy = {
  version: 1,
  limits: [{ name: 'few', for: 'any', max: ['2/day'], over: 'delay' }],
}
const secret = 'the code is 8817263'
const content = { subject: 'For Eve', text: secret }

/** Reads all bytes of the data directory except the key. */
function bytesOf(place: string): string {
  return readdirSync(place)
    .filter((name) => !name.endsWith('.key'))
    .map((name) => readFileSync(join(place, name), 'latin1'))
    .join()
}

const harnessOver = (file: string, wrap?: (store: Store) => Store, start?: number): Promise<Harness> =>
  createHarness({
    policy,
    file,
    ...(wrap === undefined ? {} : { wrap }),
    ...(start === undefined ? {} : { start }),
  })

test('an erasure removes addresses, preferences and content from the files, cancels waiting notifications, and keeps other recipients', async () => {
  const place = mkdtempSync(join(folder, 'gone-'))
  const h = await harnessOver(join(place, 'sluice.db'))
  const { gateway } = h
  await h.done(
    gateway.gate.saveRecipient({ tenant: 'default', id: 'eve', email: 'eve@stored.example', locale: 'it' }),
  )
  const sent = await h.post({ recipient: 'eve', content })
  await h.post({ recipient: 'eve', content: { ...content, subject: 'Again' } })
  await h.runFor(hour)
  const waits = await h.post({ recipient: 'eve', content: { ...content, subject: 'Later' } })
  const bob = await h.post({ recipient: 'bob', content: { subject: 'For Bob', text: 'stays' } })
  await h.runFor(hour)
  assert.equal((await h.notification(waits.id)).status, 'scheduled')
  assert.ok(bytesOf(place).includes(secret))
  await h.done(gateway.erase('default', 'eve'))
  const bytes = bytesOf(place)
  for (const text of ['eve@example.com', 'eve@stored.example', secret, 'push-eve', '"eve"'])
    assert.equal(bytes.includes(text), false, text)
  assert.equal((await h.notification(waits.id)).status, 'cancelled')
  assert.equal((await h.notification(sent.id)).status, 'delivered')
  assert.equal((await h.notification(bob.id)).to.email, 'bob@example.com')
  assert.equal(statSync(join(place, 'erasure.key')).mode & 0o777, 0o600)
  await h.check()
  await h.stop()
})

test('limits and opt-outs hold when an erased recipient returns, also after a restart', async () => {
  const place = mkdtempSync(join(folder, 'back-'))
  const file = join(place, 'sluice.db')
  const h = await harnessOver(file)
  const optOuts = [{ category: 'news' }]
  await h.done(h.gateway.gate.saveRecipient({ tenant: 'default', id: 'eve', optOuts }))
  await h.post({ recipient: 'eve' })
  await h.post({ recipient: 'eve' })
  await h.runFor(hour)
  assert.equal(h.sent().length, 2)
  await h.done(h.gateway.erase('default', 'eve'))
  const third = await h.post({ recipient: 'eve' })
  assert.equal(third.status, 'scheduled', 'two of two are used')
  const news = await h.post({ recipient: 'eve', category: 'news' })
  assert.equal(news.timeline.at(-1)?.reason, 'opted_out')
  const now = h.clock.now()
  await h.stop()

  const restarted = await harnessOver(file, undefined, now + hour)
  const fourth = await restarted.post({ recipient: 'eve' })
  assert.equal(fourth.status, 'scheduled', 'counted from the record, under another name')
  assert.ok(fourth.dueAt - h.start > day, new Date(fourth.dueAt).toISOString())
  const more = await restarted.post({ recipient: 'eve', category: 'news' })
  assert.equal(more.timeline.at(-1)?.reason, 'opted_out')
  await restarted.stop()
})

test('an erasure interrupted by a crash at any step is completed at the next start', async () => {
  const steps = 8
  let cuts = 0
  for (let cut = 0; cut < steps; cut += 1) {
    const place = mkdtempSync(join(folder, 'cut-'))
    const file = join(place, 'sluice.db')
    let left = Number.POSITIVE_INFINITY
    let begun = false
    /** Simulates a kill: no write succeeds from one step on. */
    const mortal = (store: Store): Store =>
      new Proxy(store, {
        get(target, name: keyof Store) {
          const value = Reflect.get(target, name) as (...args: unknown[]) => unknown
          if (!['beginErasure', 'erase', 'commit'].includes(name)) return value
          return async (...args: unknown[]) => {
            if (left <= 0) throw new Error('cut off')
            left -= 1
            const result = await value.apply(target, args)
            if (name === 'beginErasure') begun = true
            return result
          }
        },
      })
    const h = await harnessOver(file, mortal)
    await h.post({ recipient: 'eve', content })
    await h.runFor(hour)
    for (let more = 0; more < 3; more += 1)
      await h.post({ recipient: 'eve', content: { ...content, subject: `${more}` } })
    await h.runFor(hour)
    left = cut
    const isDone = await h.done(h.gateway.erase('default', 'eve')).then(
      () => true,
      () => false,
    )
    left = Number.POSITIVE_INFINITY
    const now = h.clock.now()
    await h.stop()
    const restarted = await harnessOver(file, undefined, now + 60_000)
    await restarted.runFor(60_000)
    const { items } = await restarted.gateway.store.list({ tenant: 'default', recipient: 'eve', limit: 10 })
    // Before the first step is stored there is no erasure; after it no personal data is left.
    assert.equal(items.length, begun ? 0 : 4, `cut after ${cut} steps`)
    assert.equal(bytesOf(place).includes(secret), !begun, `cut after ${cut} steps`)
    if (!isDone) cuts += 1
    await restarted.check()
    await restarted.stop()
  }
  assert.ok(cuts > 2 && cuts < steps, `${cuts} of ${steps} were cut off`)
})

test('an erasure waits for a send attempt in flight and completes when that has ended', async () => {
  const place = mkdtempSync(join(folder, 'sending-'))
  const h = await createHarness({
    policy,
    file: join(place, 'sluice.db'),
    config: { pools: { email: { provider: 'sandbox', accounts: [{ id: 'slow', latency: '3s' }] } } },
  })
  const sent = await h.post({ recipient: 'eve', content })
  await h.runFor(1_000)
  assert.equal(h.gateway.ledger.live(sent.id)?.status, 'sending')
  let erased = false
  const erasing = h.gateway.erase('default', 'eve').then(() => {
    erased = true
  })
  await h.runFor(1_000)
  assert.equal(erased, false)
  await h.runFor(3_000)
  await erasing
  assert.equal((await h.notification(sent.id)).status, 'delivered')
  assert.equal(bytesOf(place).includes(secret), false)
  await h.stop()
})

test('an erasure leaves no content of batches or of pruned rows in free pages of the file', async () => {
  const place = mkdtempSync(join(folder, 'free-'))
  const h = await harnessOver(join(place, 'sluice.db'))
  const work = workFor(300)
  const recipients = work.recipients.map((each) => ({
    ...each,
    data: { own: `${each.id}: ${each.id === 'r180' ? secret : ''} ${'.'.repeat(2_000)}` },
  }))
  await open(h, { ...work, recipients })
  await h.runFor(hour)
  assert.equal(h.gateway.jobs.running(), 0)
  // Long enough to fill pages of its own.
  await h.post({ recipient: 'eve', content: { subject: 'Long', text: `${secret}${'.'.repeat(50_000)}` } })
  await h.runFor(hour)
  await h.done(h.gateway.erase('default', 'r180'))
  await h.done(h.gateway.ledger.prune({ notifications: h.clock.now(), answers: 0 }))
  await h.done(h.gateway.erase('default', 'eve'))
  for (const text of ['r180@example.com', secret, '"eve"', 'eve@example.com'])
    assert.equal(bytesOf(place).includes(text), false, text)
  await h.stop()
})

test('an erasure is not complete while an open read transaction keeps the WAL from being truncated', async () => {
  const place = mkdtempSync(join(folder, 'read-'))
  const file = join(place, 'sluice.db')
  const h = await harnessOver(file)
  await h.post({ recipient: 'eve', content })
  await h.runFor(minute)
  const reader = new DatabaseSync(file)
  reader.exec('BEGIN; SELECT count(*) FROM notifications')
  assert.equal(await codeOf(h.done(h.gateway.erase('default', 'eve'))), 'STORE_UNAVAILABLE')
  assert.ok(bytesOf(place).includes(secret))
  reader.exec('COMMIT')
  reader.close()
  await h.runFor(minute)
  assert.deepEqual(await h.gateway.store.erasures(), [])
  assert.equal(bytesOf(place).includes(secret), false, 'it goes on by itself')
  await h.stop()
})
