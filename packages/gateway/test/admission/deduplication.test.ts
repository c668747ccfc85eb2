import assert from 'node:assert/strict'
import { copyFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { GatewayParts } from '../../src/composition/runtime-context.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Draft } from '../../src/model.ts'
import { createHarness, hour, minute, second } from '../harness.ts'

const content = { subject: 'same', text: 'same' }
const policy = (more: object = {}) => ({
  version: 1,
  limits: [],
  deduplication: { window: '1h' },
  ...more,
})

/** Refuses to hold fingerprints while the limits are away. */
const refusingFingerprints = (isAway: () => boolean): Pick<GatewayParts, 'wrapState'> => ({
  wrapState: (state) => ({
    ...state,
    holdFingerprints: (prints) =>
      isAway()
        ? Promise.reject(new SluiceError('STATE_UNAVAILABLE', 'Away.'))
        : state.holdFingerprints(prints),
  }),
})

test('a duplicate within the window is suppressed and does not prolong the window', async () => {
  const harness = await createHarness({ policy: policy() })
  await harness.post({ content })
  await harness.runFor(hour - 1)
  const duplicate = await harness.post({ content })
  assert.equal(duplicate.status, 'suppressed')
  assert.equal(duplicate.decision.reason, 'duplicate')
  await harness.runFor(1)
  assert.equal((await harness.post({ content })).status, 'queued')
  await harness.check()
  await harness.stop()
})

test('the fingerprint ignores key order, and depends on nested data, channel and recipient', async () => {
  const harness = await createHarness({ policy: policy() })
  const say = async (data: Draft['data'], more: object = {}) =>
    (await harness.post({ template: 'new-comment', data: data!, ...more })).decision.reason
  assert.equal(await say({ a: 1, b: { c: [1, 2], d: 'x' } }), undefined)
  assert.equal(await say({ b: { d: 'x', c: [1, 2] }, a: 1 }), 'duplicate')
  assert.equal(await say({ a: 1, b: { c: [2, 1], d: 'x' } }), undefined)
  assert.equal(await say({ a: 1, b: { c: [1, 2], d: 'x' } }, { channel: 'push' }), undefined)
  assert.equal(await say({ a: 1, b: { c: [1, 2], d: 'x' } }, { recipient: 'bob' }), undefined)
  assert.equal(await say({ a: 1, b: { c: [1, 2], d: 'x' } }, { actor: 'eve' }), 'duplicate')
  await harness.stop()
})

test('the same id under another tenant is another recipient', async () => {
  const harness = await createHarness({ policy: policy() })
  await harness.post({ content })
  assert.equal((await harness.post({ content }, { tenant: 'other', module: 'm' })).status, 'queued')
  assert.equal(
    (await harness.post({ content }, { tenant: 'other', module: 'n' })).decision.reason,
    'duplicate',
  )
  await harness.stop()
})

test('a cancelled or suppressed notification does not make later ones duplicates', async () => {
  const harness = await createHarness({
    policy: policy({ limits: [{ name: 'one', for: 'any', max: ['1/min'], over: 'drop' }] }),
  })
  const { id } = await harness.post({ content, sendAt: harness.start + hour })
  await harness.done(harness.gateway.gate.cancel('default', id))
  assert.equal((await harness.post({ content })).status, 'queued')
  const other = { subject: 'other', text: 'other' }
  assert.equal((await harness.post({ content: other })).decision.reason, 'over_limit')
  await harness.runFor(minute + second)
  assert.equal((await harness.post({ content: other })).status, 'queued')
  await harness.check()
  await harness.stop()
})

test('a critical notification is never a duplicate and makes none, also after a restart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-dedup-'))
  const options = { file: join(folder, 'sluice.db'), policy: policy() }
  const harness = await createHarness(options)
  await harness.post({ content })
  assert.equal((await harness.post({ content, priority: 'critical' })).status, 'queued')
  assert.equal((await harness.post({ content, priority: 'critical', recipient: 'bob' })).status, 'queued')
  await harness.runFor(second)
  await harness.stop()
  const restarted = await createHarness({ ...options, start: harness.start + minute })
  assert.equal((await restarted.post({ content, recipient: 'bob' })).status, 'queued')
  await restarted.stop()
  rmSync(folder, { recursive: true })
})

test('duplicates are known after a restart also where every limit window is shorter', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-dedup-'))
  const options = {
    file: join(folder, 'sluice.db'),
    policy: policy({ limits: [{ name: 'all', for: 'any', max: ['5/min'], over: 'delay' }] }),
  }
  const harness = await createHarness(options)
  await harness.post({ content })
  await harness.runFor(second)
  await harness.stop()
  const restarted = await createHarness({ ...options, start: harness.start + 10 * minute })
  assert.equal((await restarted.post({ content })).decision.reason, 'duplicate')
  await restarted.stop()
  rmSync(folder, { recursive: true })
})

test('a notification in the throttle queue makes later ones duplicates, which do not wait in the queue', async () => {
  const harness = await createHarness({
    policy: policy(),
    config: { tenants: { default: { rate: '2/min', modules: 'unlimited' } } },
  })
  await harness.post()
  await harness.post()
  const first = await harness.post({ content })
  assert.equal(first.decision.reason, 'tenant_limit')
  for (let index = 0; index < 4; index += 1) {
    const { notification, queuedBehind } = await harness.tryPost({ content })
    assert.equal(notification.decision.reason, 'duplicate')
    assert.equal(queuedBehind, undefined)
  }
  assert.equal((await harness.post()).dueAt, first.dueAt, 'the second place of the next minute is free')
  await harness.runFor(10 * minute)
  assert.equal(harness.sent().length, 4)
  await harness.check()
  await harness.stop()
})

test('one that was accepted undecided takes no fingerprint from one that was decided before it, also after a kill', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-dedup-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const options = {
    file: join(folder, 'sluice.db'),
    policy: policy({ onStateLost: { security: 'refuse' } }),
  }
  let isAway = true
  const harness = await createHarness({
    ...options,
    parts: refusingFingerprints(() => isAway),
    // It is killed before the undecided one is written as a duplicate.
    wrap: (store) => ({
      ...store,
      commit: (change) => (change.moves === undefined ? store.commit(change) : new Promise(() => {})),
    }),
  })
  const older = await harness.post({ content })
  assert.equal(older.decision.reason, 'state_unavailable')
  isAway = false
  const sendAt = harness.clock.now() + minute
  const newer = await harness.post({ content, category: 'security', sendAt })
  assert.equal(newer.status, 'scheduled')
  await harness.runFor(second)
  const file = join(folder, 'killed.db')
  for (const end of ['', '-wal'])
    if (existsSync(options.file + end)) copyFileSync(options.file + end, file + end)
  const again = await createHarness({ ...options, file, start: harness.clock.now() })
  await again.runFor(2 * minute)
  assert.deepEqual(
    again.sent().map(({ id }) => id),
    [newer.id],
  )
  assert.equal((await again.notification(older.id)).decision.reason, 'duplicate')
  await again.stop()
})

test('one that was accepted undecided and is dropped by a limit makes later ones no duplicates', async () => {
  let isAway = false
  const harness = await createHarness({
    policy: policy({ limits: [{ name: 'one', for: 'any', max: ['1/min'], over: 'drop' }] }),
    parts: refusingFingerprints(() => isAway),
  })
  await harness.post()
  isAway = true
  const { id } = await harness.post({ content })
  isAway = false
  await harness.runFor(second)
  assert.equal((await harness.notification(id)).decision.reason, 'over_limit')
  await harness.runFor(2 * minute)
  assert.equal((await harness.post({ content })).status, 'queued')
  await harness.check()
  await harness.stop()
})

test('a dry run never takes a fingerprint, not even while it runs', async () => {
  const harness = await createHarness({ policy: policy() })
  await harness.post()
  const { gate } = harness.gateway
  const caller = { tenant: 'default', module: 'default' }
  const to = { id: 'ada', email: 'ada@example.com' }
  const draft = { to, channel: 'email', category: 'product', priority: 'normal', content } as const
  const previewed = gate.preview(caller, draft)
  const [[admitted]] = await harness.done(Promise.all([gate.admit({ caller, drafts: [draft] }), previewed]))
  assert.equal(admitted?.notification.status, 'queued')
  const { decision } = await harness.done(gate.preview(caller, draft))
  assert.equal(decision.reason, 'duplicate')
  await harness.stop()
})

test('what a killed gateway had begun takes no place of the limits from its repetition', async () => {
  let isKilled = true
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }],
      deduplication: { window: '1h' },
    },
    // Limits that several gateways share keep what one has taken that is killed.
    parts: { wrapState: (state) => ({ ...state, mayKeepHolds: true }) },
    wrap: (store) => ({
      ...store,
      commit: (change) =>
        isKilled && (change.accept?.length ?? 0) > 0 ? new Promise(() => {}) : store.commit(change),
    }),
  })
  const content = { subject: 'News', text: 'News' }
  void harness.tryPost({ content })
  await harness.runFor(second)
  isKilled = false
  const repeated = harness.tryPost({ content })
  await harness.runFor(20 * second)
  const answer = await repeated
  assert.equal(answer.notification.status, 'queued', 'its place is free')
  assert.equal(harness.sent().length, 1)
  await harness.stop()
})
