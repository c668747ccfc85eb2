/** A digest that its limits hold up has its turn among those that wait: it loses none, and takes that of nobody. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { LimitRequest, LimitState } from '../../../src/ports.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'
import { createHarness, second } from '../../harness.ts'

/** The limits answer the question for a digest so much later, ms; others leave with one question of a moment. */
const answerMs = 40

const policy = {
  version: 1,
  limits: [{ name: 'all', for: 'any', max: ['1/10s'], over: 'delay' }],
  digests: [
    {
      name: 'news',
      for: { template: 'new-comment' },
      window: '5s',
      minItems: 2,
      maxItems: 4,
      template: 'activity-digest',
    },
  ],
}

test('a digest that is held up at its instant takes the next one, and does not lose that to whoever was promised it', async () => {
  const clock = createVirtualClock(Date.UTC(2026, 10, 29, 12))
  let state: LimitState | undefined
  let asked: LimitRequest | undefined
  const slowly = (): Promise<void> => new Promise((resolve) => clock.at(clock.now() + answerMs, resolve))
  const harness = await createHarness({
    clock,
    policy,
    parts: {
      wrapState(wrapped) {
        state = wrapped
        return {
          ...wrapped,
          async reserve(requests) {
            asked ??= requests[0]
            if (requests.some(({ inTurn }) => inTurn === true)) await slowly()
            return wrapped.reserve(requests)
          },
        }
      },
    },
  })
  const { start } = harness
  await harness.post()
  for (let index = 0; index < 2; index += 1)
    assert.equal((await harness.post({ template: 'new-comment', data: { index } })).status, 'digesting')
  // The digest holds the instant 10 s behind the first one; five others wait behind it.
  await harness.runUntil(start + 7 * second)
  const others = []
  for (let index = 0; index < 5; index += 1) others.push(await harness.post({ data: { index } }))

  // While the digest is being planned another writer's message counts, so that the next instant is that of the first behind it.
  clock.at(start + 10 * second + 45, () => void state!.force([{ ...asked!, id: 'of another writer' }]))
  await harness.runUntil(start + 25 * second)
  const counts = harness.sent().map(({ message }) => (message.data as { totalCount?: number })?.totalCount)
  assert.deepEqual(counts, [undefined, 2], 'the digest is the second message')
  await harness.runUntil(start + 80 * second)
  for (const { id } of others) assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.stop()
})

test('an item that joins a digest that is held up does not bring it before those who wait in front of it', async () => {
  const harness = await createHarness({ policy })
  const { start } = harness
  const join = (index: number) => harness.post({ template: 'new-comment', data: { index } })
  await harness.post()
  for (let index = 1; index <= 3; index += 1) await harness.post({ data: { index } })
  for (let index = 0; index < 2; index += 1) assert.equal((await join(index)).status, 'digesting')
  // The digest holds the instant 40 s behind the first message.
  await harness.runUntil(start + 7 * second)
  await join(2)
  await harness.runUntil(start + 60 * second)
  const sent = harness.sent().map(({ message, at }) => ({
    count: (message.data as { totalCount?: number })?.totalCount,
    ms: at - start,
  }))
  assert.deepEqual(
    sent.map(({ count }) => count),
    [undefined, undefined, undefined, undefined, 3],
  )
  for (const [index, { ms }] of sent.entries())
    assert.ok(ms >= index * 10 * second && ms < index * 10 * second + 200, `${index} left at ${ms} ms`)
  await harness.stop()
})

test('what a digest became keeps its place where the digest is closed again as it was read before', async () => {
  let isStuck = false
  const account = { id: 'one', concurrency: 1 }
  const harness = await createHarness({
    policy,
    config: { pools: { email: { provider: 'sandbox', accounts: [account], shedAfter: '1d' } } },
    parts: {
      providers: (['email', 'websocket'] as const).map((channel) => ({
        name: channel === 'email' ? 'sandbox' : channel,
        idempotent: true,
        channels: [channel],
        send: () => (isStuck ? new Promise(() => {}) : Promise.resolve({ outcome: 'delivered' })),
        close: async () => {},
      })),
    },
  })
  const { start, gateway } = harness
  await harness.post()
  for (let index = 0; index < 2; index += 1) await harness.post({ template: 'new-comment', data: { index } })
  await harness.runUntil(start + 7 * second)
  const [digest] = await gateway.store.dueDigests(start + 60 * second, 10)
  const behind = await harness.post({ data: { index: 1 } })
  // The only call that the account may have under way does not end.
  isStuck = true
  await harness.post({ recipient: 'zoe' })
  await harness.runUntil(digest!.closesAt + 100)
  assert.equal((await harness.notification(digest!.id)).status, 'queued')
  // One of a page of due digests, which a turn of its recipient has closed meanwhile.
  await harness.done(gateway.gate.closeDigest(digest!))
  await harness.runFor(second)
  assert.equal((await harness.notification(behind.id)).dueAt, behind.dueAt)
})
