/**
 * An error behind the commit of an acceptance: the notifications are on record and the client is answered, and everything
 * that they hold in the limits stays held.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Verdict } from '../../src/admission/candidate.ts'
import { createHandover } from '../../src/admission/handover.ts'
import { createScheduleCommitted } from '../../src/admission/schedule-committed.ts'
import type { Digest, Notification } from '../../src/model.ts'
import { createHarness, type Harness, hour, minute } from '../harness.ts'

const policy = {
  version: 1,
  limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }],
  digests: [{ name: 'news', for: { template: 'new-comment' }, window: '10min', template: 'activity-digest' }],
}

/** Makes a method fail, as often as given. */
function failing<T extends object, K extends keyof T>(part: T, method: K, times: number): () => number {
  const works = part[method] as (...args: unknown[]) => unknown
  let failed = 0
  part[method] = ((...args: unknown[]) => {
    if (failed === times) return works.apply(part, args)
    failed += 1
    throw new Error('out of order')
  }) as T[K]
  return () => failed
}

async function delivered(harness: Harness, id: string): Promise<void> {
  assert.equal((await harness.notification(id)).status, 'delivered')
}

test('a scheduler that throws behind the commit leaves the reservation of what was accepted', async () => {
  const harness = await createHarness({ policy })
  const failed = failing(harness.gateway.ledger, 'hold', 1)
  const first = await harness.post({ recipient: 'ada' })
  assert.equal(failed(), 1)
  const second = await harness.post({ recipient: 'ada' })
  assert.equal(second.status, 'scheduled', 'the only place of this hour is taken')
  await harness.runFor(minute)
  await delivered(harness, first.id)
  await harness.runFor(2 * hour)
  await delivered(harness, second.id)
  assert.ok(harness.sent()[1]!.at - harness.sent()[0]!.at >= hour)
  await harness.check()
  await harness.stop()
})

test('a scheduler that throws behind the commit leaves the acceptance counted in the limit of its tenant', async () => {
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '1/min', modules: 'unlimited' } } },
  })
  const failed = failing(harness.gateway.ledger, 'hold', 1)
  const first = await harness.post({ recipient: 'ada' })
  assert.equal(failed(), 1)
  const second = await harness.tryPost({ recipient: 'eve' })
  assert.equal(second.queuedBehind, 'tenant')
  await harness.runFor(5 * minute)
  await delivered(harness, first.id)
  await delivered(harness, second.notification.id)
  await harness.check()
  await harness.stop()
})

test('open digests and contents that throw behind the commit are reported, and everything is scheduled', async () => {
  const placed: string[] = []
  const errors: string[] = []
  const onError = (what: string): void => void errors.push(what)
  const broken = (): never => {
    throw new Error('out of order')
  }
  const noted: number[] = []
  const scheduler = {
    place: (some: readonly Notification[]) => void placed.push(...some.map(({ id }) => id)),
    recover: async () => {},
    noteDigest: (closesAt: number) => void noted.push(closesAt),
  }
  const handover = createHandover({
    schedule: createScheduleCommitted({ scheduler, contents: { keep: broken }, onError }),
    scheduler,
    digests: { opened: broken },
    recipients: { cached: () => null },
    state: { pause: async () => {} },
    movingUp: { freed: async () => {}, enlist: async () => {}, recorded() {} },
    onError,
  })
  const harness = await createHarness({ policy })
  const item = await harness.post({
    recipient: 'eve',
    template: 'new-comment',
    data: { actor: 'bob', post: 'x' },
  })
  const { decision, dueAt } = item
  const digest: Digest = {
    id: item.digestId!,
    tenant: 'default',
    recipient: 'eve',
    channel: 'email',
    category: 'product',
    name: 'news',
    openedAt: harness.start,
    closesAt: dueAt,
  }
  const verdict: Verdict = {
    status: 'digesting',
    dueAt,
    decision,
    digest: { digest, opens: true },
    reserved: false,
  }
  const content = { id: 'content-1', tenant: 'default', bytes: 2, data: {} }
  handover([{ notification: item, recipient: null, verdict }], [item], [content])
  assert.deepEqual(placed, [item.id])
  assert.equal(errors.length, 2, errors.join())
  await harness.stop()
})
