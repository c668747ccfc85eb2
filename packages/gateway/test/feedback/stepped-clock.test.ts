/** The same event again at a gateway whose wall clock has another offset: behind a step, or beside another gateway. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch, someNotification } from '../../src/conformance/store/sample.ts'
import { createCorrelation } from '../../src/feedback/correlation.ts'
import { createFeedback } from '../../src/feedback/feedback.ts'
import { createPostmarkForm } from '../../src/feedback/forms/postmark.ts'
import { createSentKeys } from '../../src/feedback/sent-keys.ts'
import { createWebhooks } from '../../src/feedback/webhooks.ts'
import { type FeedbackRoutesOptions, feedbackRoutes } from '../../src/http/routes/feedback.ts'
import { advance } from '../../src/model.ts'
import type { FeedbackRecord } from '../../src/ports/feedback.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'

/** A gateway whose wall clock is ahead of its time by what the test says. */
async function open() {
  const virtual = createVirtualClock(epoch)
  const wall = { aheadMs: 0 }
  const clock = { ...virtual, aheadMs: () => wall.aheadMs }
  const store = createMemoryStore()
  const sent = someNotification({ to: { id: 'ada', email: 'ada@example.com' }, category: 'marketing' })
  await store.commit({ accept: [sent] })
  const events = [
    { at: epoch, status: 'sending', account: 'main' },
    { at: epoch, status: 'delivered', account: 'main' },
  ] as const
  await store.commit({ moves: [advance(sent, events, { firedAt: epoch, attempts: 1, dueAt: epoch })] })
  const record: FeedbackRecord = store.feedback
  const feedback = createFeedback({
    record,
    correlate: createCorrelation({ record, keys: createSentKeys(() => Buffer.from('key')), clock }),
    edit: async (_tenant, _id, change) => change(undefined),
    clock,
    tries: () => true,
    isShared: false,
    onUnknown: () => {},
    onError: (what, error) => assert.fail(`${what}: ${String(error)}`),
  })
  const account = { channel: 'email', account: 'main', form: 'postmark' } as const
  const accounts = [{ ...account, read: createPostmarkForm('user', 'password') }]
  const webhooks = createWebhooks({ accounts, feedback, clock, onRefused: () => {} })
  const [route] = feedbackRoutes({
    ...{ feedback, webhooks, clock, publicUrl: undefined },
    idempotency: { once: (_: unknown, act: (keep: undefined) => unknown) => act(undefined) },
    ledger: {},
  } as unknown as FeedbackRoutesOptions)
  const reply = { code: () => reply, header: () => reply }
  const post = (body: object) =>
    route!.handle({ caller: { tenant: sent.tenant }, body } as never, reply as never)
  const take = (body: object) =>
    webhooks.take('email', 'main', {
      headers: { authorization: `Basic ${Buffer.from('user:password').toString('base64')}` },
      body: Buffer.from(JSON.stringify(body)),
      url: 'https://notify.example.com/',
    })
  const kept = async () => (await record.of(sent.tenant, [sent.id])).map(({ type, at }) => [type, at - epoch])
  return { id: sent.id, wall, post, take, kept }
}

const at = new Date(epoch - 1_000).toISOString()

test('a caller reports the same complaint behind a step of the wall clock: it counts once', async () => {
  const { id, wall, post, kept } = await open()
  for (const aheadMs of [0, 5_000, 5_001]) {
    wall.aheadMs = aheadMs
    await post({ type: 'complaint', notificationId: id, at })
  }
  assert.deepEqual(await kept(), [['complaint', -1_000]])
})

test('a provider reports the same opening at gateways whose offsets differ by a millisecond: it counts once', async () => {
  const { id, wall, take, kept } = await open()
  for (const aheadMs of [5_000, 5_001]) {
    wall.aheadMs = aheadMs
    await take({ RecordType: 'Open', Metadata: { notification_id: id }, ReceivedAt: at })
  }
  assert.deepEqual(await kept(), [['open', -6_000]])
})
