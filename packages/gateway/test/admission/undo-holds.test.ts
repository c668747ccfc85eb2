/** An admission or a closing that fails leaves nothing held: the next notification finds the limits as they were. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { Store } from '../../src/ports.ts'
import { createHarness, minute } from '../harness.ts'

const digest = { name: 'news', window: '10min', template: 'activity-digest' }
const comment = { recipient: 'eve', template: 'new-comment', data: { actor: 'bob', post: 'x' } }

/** Puts `method` of the store under control: `before` runs before each call, and may throw. */
function controlled(method: 'openDigest' | 'content', before: () => void): (store: Store) => Store {
  return (store) => {
    const works = store[method].bind(store) as (...args: unknown[]) => Promise<unknown>
    return Object.assign(Object.create(store) as Store, {
      [method]: async (...args: unknown[]) => {
        before()
        return works(...args)
      },
    })
  }
}

test('a batch that fails while one of its items joins a digest releases what the others had reserved', async () => {
  let fails = false
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [
        { name: 'comments', for: { template: 'new-comment' }, max: ['1/h'], over: 'digest:news' },
        { name: 'few', for: { category: 'product' }, max: ['1/h'], over: 'delay' },
      ],
      digests: [{ ...digest, for: { template: 'other' } }],
    },
    wrap: controlled('openDigest', () => {
      if (fails) throw new SluiceError('STORE_UNAVAILABLE', 'Full.', { retryAfterMs: 1_000 })
    }),
  })
  await harness.post({ ...comment, category: 'social' })
  fails = true
  const batch = [
    { ...comment, category: 'social', data: { actor: 'bob', post: 'y' } },
    { recipient: 'ada' },
  ].map(({ recipient, ...draft }) => ({ ...draft, to: { id: recipient, email: `${recipient}@example.com` } }))
  await assert.rejects(harness.postMany(batch), { code: 'STORE_UNAVAILABLE' })
  fails = false
  assert.equal((await harness.post({ recipient: 'ada' })).status, 'queued', 'the place of this hour is free')
  await harness.stop()
})

test('an item that is refused leaves the digest that it would have joined in memory', async () => {
  let reads = 0
  const harness = await createHarness({
    policy: { version: 1, limits: [], digests: [{ ...digest, for: { template: 'new-comment' } }] },
    config: { tenants: { default: { rate: 'unlimited', modules: 'unlimited', waiting: 1 } } },
    wrap: controlled('openDigest', () => {
      reads += 1
    }),
  })
  const first = await harness.post(comment)
  assert.equal(first.status, 'digesting')
  assert.equal(reads, 1)
  for (let times = 0; times < 10; times += 1)
    await assert.rejects(harness.post(comment), { code: 'QUEUE_FULL' })
  assert.equal(reads, 1)
  await harness.stop()
})

test('a closing that fails after its reservation releases it, however often it is tried again', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-undo-'))
  const file = join(folder, 'sluice.db')
  let failures = 0
  const options = {
    policy: {
      version: 1,
      limits: [{ name: 'few', for: 'any', max: ['3/h'], over: 'delay' }],
      digests: [{ ...digest, for: { template: 'new-comment' } }],
    },
    file,
  }
  const before = await createHarness(options)
  // Too large to be stored with its notification: a closing reads it from the store.
  for (let index = 0; index < 12; index += 1)
    await before.post({ ...comment, data: { actor: 'bob', post: `${index} ${'x'.repeat(5_000)}` } })
  await before.stop()
  const harness = await createHarness({
    ...options,
    start: before.clock.now(),
    wrap: controlled('content', () => {
      failures += 1
      if (failures <= 4) throw new Error('unreadable')
    }),
  })
  await harness.runFor(11 * minute)
  assert.ok(failures > 4, `${failures} reads`)
  assert.equal(harness.sent().length, 3, 'the items leave one by one, as many as the limit admits')
  await harness.stop()
  rmSync(folder, { recursive: true })
})
