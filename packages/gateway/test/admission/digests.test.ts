import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, day, hour, minute, type Sent, second } from '../harness.ts'

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

test('the window opens with the first item and closes with one notification that tells how many there are', async () => {
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

test('below minItems each item leaves on its own, and never enters a digest again', async () => {
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

test('while a limit does not admit it the digest stays open and goes on collecting', async () => {
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

test('items of an author at the cap stay behind, the rest leaves', async () => {
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

test('what waits for its sendAt joins the digest then, and not before', async () => {
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

test('a digesting item can be cancelled, and is then in no digest', async () => {
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
