import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SluiceError } from '../../../src/errors.ts'
import type { Digest } from '../../../src/model.ts'
import type { Change, Store } from '../../../src/ports.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { createHarness, day, hour, minute, type Sent, second } from '../../harness.ts'
import { overriding } from '../../overriding.ts'

const digest = {
  name: 'news',
  for: { template: 'new-comment' },
  window: '60min',
  minItems: 3,
  maxItems: 4,
  template: 'activity-digest',
}
const policy = (more: object = {}) => ({ version: 1, limits: [], digests: [digest], ...more })
const countOf = (sent: Sent | undefined) =>
  (sent?.message.data as { totalCount: number } | undefined)?.totalCount
const item = (index: number, more: object = {}) => ({
  template: 'new-comment',
  data: { index },
  actor: 'bob',
  ...more,
})

test('the digest window opens with the first item and closes with one notification that has the total count', async () => {
  const harness = await createHarness({ policy: policy() })
  const ids: string[] = []
  for (let index = 0; index < 6; index += 1) {
    const notification = await harness.post(item(index))
    assert.equal(notification.status, 'digesting')
    assert.equal(notification.decision.at, harness.start + hour)
    ids.push(notification.id)
    await harness.runFor(5 * minute)
  }
  assert.equal(harness.sent().length, 0)
  await harness.runUntil(harness.start + hour + second)
  const [sent, ...more] = harness.sent()
  assert.equal(more.length, 0)
  assert.equal(sent?.at, harness.start + hour)
  const data = sent?.message.data as {
    items: { notificationId: string }[]
    totalCount: number
    hasMore: boolean
  }
  assert.equal(data.totalCount, 6)
  assert.equal(data.hasMore, true)
  assert.deepEqual(
    data.items.map((each) => each.notificationId),
    ids.slice(0, 4),
  )
  for (const id of ids) {
    const merged = await harness.notification(id)
    assert.equal(merged.status, 'merged')
    assert.equal(merged.digestId, sent?.id)
  }
  await harness.check()
  await harness.stop()
})

test('items of a digest below minItems leave one by one and never enter a digest again', async () => {
  const harness = await createHarness({
    policy: policy({ limits: [{ name: 'gap', for: 'any', max: ['1/10min'], over: 'digest:news' }] }),
  })
  const first = await harness.post(item(1))
  const second = await harness.post(item(2))
  await harness.runFor(hour + minute)
  assert.deepEqual(
    harness.sent().map((message) => message.id),
    [first.id],
  )
  await harness.runFor(10 * minute)
  assert.deepEqual(
    harness.sent().map((message) => message.id),
    [first.id, second.id],
  )
  await harness.check()
  await harness.stop()
})

test('a digest over its limit stays open and goes on collecting', async () => {
  const harness = await createHarness({
    policy: policy({ limits: [{ name: 'all', for: 'any', max: ['1/2h'], over: 'delay' }] }),
  })
  await harness.post({ template: undefined as never, content: { subject: 'now', text: 'now' } })
  await harness.runFor(30 * minute)
  for (let index = 0; index < 3; index += 1) await harness.post(item(index))
  await harness.runFor(70 * minute)
  const late = await harness.post(item(3))
  assert.equal(late.status, 'digesting')
  await harness.runUntil(harness.start + 2 * hour + second)
  const [, sent, ...more] = harness.sent()
  assert.equal(more.length, 0)
  assert.equal(sent?.at, harness.start + 2 * hour + 20)
  assert.equal(countOf(sent), 4)
  await harness.check()
  await harness.stop()
})

/** Two calls a second: the last of several that are due leaves late. */
const paced = { pools: { email: { provider: 'sandbox', accounts: [{ id: 'slow', rate: '2/s' }] } } }
const everyTen = { limits: [{ name: 'all', for: 'any', max: ['1/10min'], over: 'delay' }] }
/** A window of ten minutes with its margin, ms. */
const step = 10 * minute + 20

for (const others of [2, 4])
  test(`a digest whose slot comes a moment before its limit admits it keeps its turn before those who wait behind it (${others} at once)`, async () => {
    const harness = await createHarness({
      policy: policy({ ...everyTen, digests: [{ ...digest, window: '5min' }] }),
      config: paced,
    })
    const now = { template: undefined as never, content: { subject: 'now', text: 'now' } }
    await harness.post(now)
    const delayed = await harness.post(now)
    for (let index = 0; index < 3; index += 1) await harness.post(item(index))
    await harness.runFor(6 * minute)
    const behind = await harness.post(now)
    assert.equal(behind.dueAt - harness.start, 3 * step, 'it waits behind the digest')
    // The second one leaves late, and with it the earliest instant of the digest moves.
    for (const recipient of ['x', 'y', 'z', 'v'].slice(0, others))
      await harness.post({ ...now, recipient, sendAt: delayed.dueAt - 1 })
    await harness.runFor(50 * minute)
    const [, late, atClose, last, ...more] = harness.sent({ recipient: 'ada' })
    assert.equal(late?.id, delayed.id)
    const lateMs = late!.at - delayed.dueAt
    assert.ok(lateMs > 0, 'it left late')
    assert.equal(countOf(atClose), 3)
    assert.ok(atClose!.at - late!.at <= step + 1, `the digest left ${atClose!.at - late!.at} ms behind it`)
    assert.equal(last?.id, behind.id)
    assert.ok(last!.at - atClose!.at <= step + 1)
    assert.equal(more.length, 0)
    await harness.check()
    await harness.stop()
  })

test('items of an author at the limit stay in the digest, the others leave', async () => {
  const harness = await createHarness({
    policy: policy({
      limits: [
        { name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/day'], over: 'digest:news' },
      ],
      digests: [{ ...digest, minItems: 2 }],
    }),
  })
  await harness.post({ content: { subject: 'x', text: 'x' }, actor: 'bob' })
  for (let index = 0; index < 3; index += 1) {
    await harness.post(item(index, { actor: 'bob' }))
    await harness.post(item(index, { actor: 'eve', data: { index, by: 'eve' } }))
  }
  await harness.runUntil(harness.start + hour + second)
  const [, atClose] = harness.sent()
  assert.equal(countOf(atClose), 3)
  assert.equal(harness.counts().digesting, 3)
  await harness.runUntil(harness.start + day + minute)
  const [, , rest, ...more] = harness.sent()
  assert.equal(more.length, 0)
  assert.equal(rest?.at, harness.start + day + 20)
  assert.equal(countOf(rest), 3)
  await harness.check()
  await harness.stop()
})

test('a notification with a sendAt joins the digest at that time and not before', async () => {
  const harness = await createHarness({ policy: policy() })
  const sendAt = harness.start + 3 * hour
  const waiting = await harness.post(item(0, { sendAt }))
  assert.equal(waiting.status, 'scheduled')
  assert.equal(waiting.decision.reason, 'send_at')
  await harness.runUntil(sendAt + second)
  assert.equal((await harness.notification(waiting.id)).status, 'digesting')
  await harness.runUntil(sendAt + hour + second)
  assert.equal((await harness.notification(waiting.id)).status, 'delivered')
  await harness.check()
  await harness.stop()
})

test('a digesting item can be cancelled and is then in no digest', async () => {
  const harness = await createHarness({ policy: policy() })
  const items = []
  for (let index = 0; index < 4; index += 1) items.push(await harness.post(item(index)))
  await harness.done(harness.gateway.gate.cancel('default', items[1]!.id))
  await harness.runFor(hour + second)
  assert.equal(countOf(harness.sent()[0]), 3)
  assert.equal((await harness.notification(items[1]!.id)).status, 'cancelled')
  await harness.check()
  await harness.stop()
})

const authors = policy({
  limits: [{ name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/day'], over: 'digest:news' }],
  digests: [{ ...digest, for: { template: 'nothing' }, minItems: 2 }],
})

test('an author at the limit does not delay other authors: their window begins with their first item', async () => {
  const harness = await createHarness({ policy: authors })
  for (const actor of ['bob', 'eve']) await harness.post({ actor, content: { subject: actor, text: actor } })
  await harness.runFor(6 * hour)
  await harness.post({ actor: 'gus', content: { subject: 'gus', text: 'gus' } })
  // The digest of bob and eve can close when their day is over, that of gus six hours later.
  for (let index = 0; index < 2; index += 1)
    for (const actor of ['gus', 'bob', 'eve']) await harness.post(item(index, { actor }))
  await harness.runUntil(harness.start + day + second)
  const [, , , first] = harness.sent()
  assert.equal(first?.at, harness.start + day + 20)
  assert.equal(countOf(first), 4)
  assert.equal(harness.counts().digesting, 2)
  await harness.runUntil(harness.start + day + 6 * hour + second)
  assert.equal(harness.sent().at(-1)?.at, harness.start + day + 6 * hour + 20)
  assert.equal(countOf(harness.sent().at(-1)), 2)
  await harness.check()
  await harness.stop()
})

test('an item that its limits admit does not wait for authors at their limits', async () => {
  const harness = await createHarness({
    policy: policy({
      limits: [{ name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/day'], over: 'delay' }],
      digests: [{ ...digest, minItems: 2 }],
    }),
  })
  await harness.post({ actor: 'bob', content: { subject: 'bob', text: 'bob' } })
  const ofBob = [await harness.post(item(0)), await harness.post(item(1))]
  await harness.runFor(3 * hour)
  assert.equal(harness.sent().length, 1, 'bob is at the cap')
  const ofEve = await harness.post(item(2, { actor: 'eve' }))
  assert.equal(ofEve.decision.at, harness.start + 4 * hour)
  await harness.runFor(20 * minute)
  await harness.post(item(3, { actor: 'eve' }))
  await harness.runUntil(harness.start + 4 * hour + second)
  const [, atClose] = harness.sent()
  assert.equal(atClose?.at, harness.start + 4 * hour)
  assert.equal(countOf(atClose), 2)
  for (const { id } of ofBob) {
    const { status, timeline } = await harness.notification(id)
    assert.equal(status, 'digesting')
    assert.equal(timeline.at(-1)?.detail, 'its author is at the limit')
  }
  await harness.runUntil(harness.start + day + second)
  assert.equal(harness.sent().at(-1)?.at, harness.start + day + 20)
  assert.equal(countOf(harness.sent().at(-1)), 2)
  assert.equal((await harness.notification(ofBob[0]!.id)).timeline.length, 4, 'it says once why it stays')
  await harness.check()
  await harness.stop()
})

test('an item that its limits admit does not wait for authors at their limits where the limits take a millisecond to answer', async () => {
  const clock = createVirtualClock(Date.UTC(2026, 10, 21, 12))
  let answerMs = 0
  const answered = (): Promise<void> =>
    answerMs === 0 ? Promise.resolve() : new Promise((resolve) => clock.at(clock.now() + answerMs, resolve))
  const harness = await createHarness({
    clock,
    policy: policy({
      limits: [{ name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/day'], over: 'delay' }],
      digests: [{ ...digest, minItems: 2 }],
    }),
    parts: {
      wrapState: (state) => ({
        ...state,
        preview: (requests) => answered().then(() => state.preview(requests)),
        reserve: (requests) => answered().then(() => state.reserve(requests)),
      }),
    },
  })
  await harness.post({ actor: 'bob', content: { subject: 'bob', text: 'bob' } })
  for (const actor of ['bob', 'bob', 'eve', 'eve']) await harness.post(item(0, { actor }))
  answerMs = 1
  await harness.runUntil(harness.start + hour + second)
  const [, ofEve] = harness.sent()
  assert.equal(countOf(ofEve), 2, 'those of eve have left')
  assert.ok(ofEve!.at < harness.start + hour + second, `they left at ${ofEve!.at - harness.start} ms`)
  answerMs = 0
  await harness.check()
  await harness.stop()
})

test('a single item of another author leaves on its own while the author at the limit stays in the digest', async () => {
  const harness = await createHarness({
    policy: policy({
      limits: [{ name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['1/day'], over: 'delay' }],
      digests: [{ ...digest, minItems: 2 }],
    }),
  })
  await harness.post({ actor: 'bob', content: { subject: 'bob', text: 'bob' } })
  for (let index = 0; index < 2; index += 1) await harness.post(item(index))
  const other = await harness.post(item(2, { actor: 'eve' }))
  await harness.runUntil(harness.start + hour + second)
  assert.deepEqual(
    harness
      .sent()
      .map(({ id }) => id)
      .slice(1),
    [other.id],
  )
  assert.equal(harness.counts().digesting, 2)
  await harness.check()
  await harness.stop()
})

test('an item that is committed while its digest is being closed is sent with it', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-digest-'))
  t.after(() => rmSync(folder, { recursive: true }))
  let opened: Digest | undefined
  let joined = false
  const wrap = (store: Store): Store => ({
    ...store,
    async commit(change) {
      opened ??= change.digests?.find(({ kind }) => kind === 'open')?.digest
      return store.commit(change)
    },
    async digestItems(of, cursor, limit) {
      const page = await store.digestItems(of, cursor, limit)
      // The item was decided before the closing began, and its commit is written after this read.
      if (!joined) {
        joined = true
        const late = { ...page.items[0]!, id: 'late', fingerprint: 'late' }
        const change: Change = { accept: [late], digests: [{ kind: 'join', digest: opened! }] }
        assert.deepEqual(await store.commit(change), { applied: true })
      }
      return page
    },
  })
  const harness = await createHarness({ policy: policy(), file: join(folder, 'sluice.db'), wrap })
  for (let index = 0; index < 3; index += 1) await harness.post(item(index))
  await harness.runFor(hour + second)
  assert.equal((await harness.notification('late')).status, 'merged')
  assert.deepEqual(harness.sent().map(countOf), [4])
  await harness.stop()
})

test('a digest that is asked to close twice at once closes once, also where an answer of the store is lost', async () => {
  let isClosing = false
  const tried: Change[] = []
  const losing = (store: Store): Store =>
    overriding(store, {
      async commit(change) {
        if (isClosing && change.digests !== undefined) tried.push(change)
        // The second one does not arrive, and its sender cannot know that.
        if (tried.length > 1) throw new SluiceError('STORE_UNAVAILABLE', 'lost', { isUncertain: true })
        return store.commit(change)
      },
    })
  const harness = await createHarness({ policy: policy(), wrap: losing })
  const { id } = await harness.post(item(0))
  const { digestId } = await harness.notification(id)
  await harness.runUntil(harness.start + hour - 1)
  const found = (await harness.gateway.store.digest(digestId!))!
  isClosing = true
  const { closeDigest } = harness.gateway.gate
  await harness.done(Promise.all([closeDigest(found), closeDigest(found)]))
  assert.equal(tried.length, 1)
  await harness.runFor(minute)
  await harness.check()
  await harness.stop()
})

test('concurrent batches that open digests of the same recipients are all accepted', async () => {
  let refused = 0
  const counting = (store: Store): Store =>
    overriding(store, {
      async commit(change) {
        const result = await store.commit(change)
        if (!result.applied) refused += 1
        return result
      },
    })
  const harness = await createHarness({ policy: policy(), wrap: counting })
  const recipients = ['ada', 'bob', 'eve', 'fay']
  const batch = (from: number) =>
    harness.postMany(
      recipients.map((_, index) => {
        const id = recipients[(from + index) % recipients.length]!
        return item(index, { to: { id, email: `${id}@example.com` }, data: { from, index } })
      }),
    )
  const accepted = await Promise.all([0, 1, 2, 3].map(batch))
  assert.equal(refused, 0)
  await harness.runFor(hour + second)
  assert.deepEqual(harness.sent().map(countOf), [4, 4, 4, 4])
  for (const { id } of accepted.flat()) assert.equal((await harness.notification(id)).status, 'merged')
  await harness.check()
  await harness.stop()
})
