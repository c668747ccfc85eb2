import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createHarness, day, hour, minute, second } from '../harness.ts'

test('several windows hold at once, and a delayed notification leaves at the earliest time that all of them admit', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['3/2s', '6/5s'], minGap: '200ms', over: 'delay' }],
    },
  })
  for (let index = 0; index < 12; index += 1) await harness.post()
  await harness.runFor(20 * second)
  const instants = harness.sent().map((message) => message.at - harness.start)
  assert.deepEqual(instants, [0, 220, 440, 2020, 2240, 2460, 5020, 5240, 5460, 7040, 7260, 7480])
  await harness.check()
  await harness.stop()
})

test('a notification over a fallback limit is sent over the other channel under its limits, once', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [
        { name: 'sms', for: { channel: 'sms' }, max: ['1/h'], over: 'fallback:email' },
        { name: 'email', for: { channel: 'email' }, max: ['1/h'], over: 'fallback:sms' },
      ],
    },
  })
  const content = { text: 'a' }
  assert.equal((await harness.post({ channel: 'sms', content: { text: '1' } })).decision.outcome, 'send')
  const second = await harness.post({ channel: 'sms', content: { text: '2', subject: 's' } })
  assert.equal(second.channel, 'email')
  assert.equal(second.requestedChannel, 'sms')
  assert.equal(second.decision.outcome, 'fallback')
  assert.equal(second.status, 'queued')
  const third = await harness.post({ channel: 'sms', content: { ...content, subject: 's' } })
  assert.equal(third.channel, 'email')
  assert.equal(third.status, 'scheduled')
  await harness.runFor(2 * hour)
  assert.deepEqual(
    harness.sent().map((message) => message.channel),
    ['sms', 'email', 'email'],
  )
  await harness.check()
  await harness.stop()
})

test('a limit of zero refuses everything', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'none', for: { channel: 'sms' }, max: ['0/day'], over: 'delay' }],
    },
  })
  const refused = await harness.post({ channel: 'sms' })
  assert.equal(refused.status, 'suppressed')
  assert.equal(refused.decision.reason, 'over_limit')
  assert.equal(refused.decision.limit, 'none')
  await harness.stop()
})

test('a delay beyond maxDelay is suppressed, one beyond the expiry ends as expired', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      maxDelay: '2h',
      limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }],
    },
  })
  await harness.post()
  assert.equal((await harness.post()).status, 'scheduled')
  const expiring = await harness.post({ expiresAt: harness.start + 90 * minute })
  assert.equal(expiring.status, 'scheduled')
  const third = await harness.post()
  assert.equal(
    third.status,
    'suppressed',
    'the third hour is beyond maxDelay, with the margin of each window',
  )
  await harness.runFor(3 * hour)
  assert.equal((await harness.notification(expiring.id)).status, 'expired')
  assert.equal(harness.sent().length, 2)
  await harness.check()
  await harness.stop()
})

test('cancelling a notification frees its slot', async () => {
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }] },
  })
  await harness.post()
  const second = await harness.post()
  assert.equal(second.dueAt, harness.start + hour + 20)
  await harness.done(harness.gateway.gate.cancel('default', second.id))
  assert.equal((await harness.post()).dueAt, harness.start + hour + 20)
  await harness.done(harness.gateway.gate.cancel('default', second.id))
  await harness.stop()
})

test('limits, reservations, fingerprints and digests are restored after a restart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-restart-'))
  const options = {
    file: join(folder, 'sluice.db'),
    policy: {
      version: 1,
      limits: [{ name: 'all', for: { channel: 'email' }, max: ['2/day'], over: 'delay' }],
      digests: [
        {
          name: 'd',
          for: { template: 'new-comment' },
          window: '1h',
          minItems: 2,
          maxItems: 9,
          template: 'activity-digest',
        },
      ],
      deduplication: { window: '1h' },
    },
  }
  const first = await createHarness(options)
  const content = { subject: 'once', text: 'once' }
  await first.post({ content })
  await first.post()
  const waiting = await first.post()
  assert.equal(waiting.dueAt, first.start + day + 20)
  await first.post({ channel: 'push', template: 'new-comment', data: { index: 1 } })
  await first.runFor(minute)
  await first.stop()

  const restarted = await createHarness({ ...options, start: first.start + 10 * minute })
  assert.equal((await restarted.post({ content })).decision.reason, 'duplicate')
  const next = await restarted.post({ content: { subject: 'after', text: 'after' } })
  assert.equal(next.dueAt, first.start + day + 20, 'the reserved one keeps its slot, this one gets the other')
  await restarted.post({ channel: 'push', template: 'new-comment', data: { index: 2 } })
  await restarted.runUntil(first.start + day + minute)
  assert.deepEqual(
    restarted.sent().map((message) => [message.channel, message.at - first.start]),
    [
      ['push', hour],
      ['email', day + 20],
      ['email', day + 20],
    ],
  )
  assert.equal((restarted.sent()[0]?.message.data as { totalCount: number } | undefined)?.totalCount, 2)
  await restarted.check()
  await restarted.stop()
  rmSync(folder, { recursive: true })
})

test('an opt-out holds at once, also for waiting notifications', async () => {
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }] },
  })
  await harness.post()
  const waiting = await harness.post()
  await harness.done(
    harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'ada', optOuts: [{ category: 'product' }] }),
  )
  assert.equal((await harness.notification(waiting.id)).status, 'suppressed')
  assert.equal((await harness.post()).decision.reason, 'opted_out')
  await harness.runFor(2 * hour)
  assert.equal(harness.sent().length, 1)
  await harness.check()
  await harness.stop()
})

test('quiet hours in the recipient’s time zone delay notifications until their end and spread them after it', async () => {
  const harness = await createHarness({
    start: Date.UTC(2026, 10, 21, 22),
    policy: {
      version: 1,
      limits: [],
      quietHours: { default: { from: '22:00', to: '08:00', channels: ['push'] }, spread: '10min' },
    },
  })
  const instants: number[] = []
  for (let index = 0; index < 20; index += 1) {
    const to = { id: `p${index}`, pushToken: 't', timeZone: 'Europe/Rome' }
    const held = await harness.post({ channel: 'push', to, content: { text: 'x' } })
    assert.equal(held.decision.reason, 'quiet_hours')
    instants.push(held.dueAt)
  }
  const end = Date.UTC(2026, 10, 22, 7)
  assert.ok(instants.every((instant) => instant >= end && instant < end + 10 * minute))
  assert.ok(new Set(instants).size > 10)
  assert.equal(
    (await harness.post({ channel: 'push', to: { id: 'q', pushToken: 't', timeZone: 'America/New_York' } }))
      .status,
    'queued',
  )
  await harness.runUntil(end + 11 * minute)
  const arrived = harness.sent({ channel: 'push' }).filter((message) => message.recipient !== 'q')
  assert.deepEqual(arrived.map((message) => message.at).sort(), [...instants].sort())
  await harness.check()
  await harness.stop()
})

test('notifications over a tenant limit leave in order at the promised times', async () => {
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '5/min', modules: 'unlimited' } } },
  })
  const sent = []
  for (let index = 0; index < 12; index += 1) sent.push(await harness.post())
  assert.deepEqual(
    sent.map((each) => each.status),
    [...Array(5).fill('queued'), ...Array(7).fill('scheduled')],
  )
  assert.equal(sent[5]?.decision.reason, 'tenant_limit')
  await harness.runFor(3 * minute)
  assert.deepEqual(
    harness.sent().map((message) => message.id),
    sent.map((each) => each.id),
  )
  assert.deepEqual(
    harness.sent().map((message) => Math.floor((message.at - harness.start) / minute)),
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2],
  )
  await harness.check()
  await harness.stop()
})

test('a notification that expires before its sendAt is accepted, holds no slot and ends as expired', async () => {
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/day'], over: 'delay' }] },
  })
  const doomed = await harness.post({
    sendAt: harness.start + 2 * hour,
    expiresAt: harness.start + hour,
  })
  assert.equal(doomed.status, 'scheduled')
  assert.equal((await harness.post()).status, 'queued')
  await harness.runFor(3 * hour)
  const ended = await harness.notification(doomed.id)
  assert.equal(ended.status, 'expired')
  assert.equal(ended.timeline.at(-1)?.at, harness.start + hour)
  await harness.check()
  await harness.stop()
})
