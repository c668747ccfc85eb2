import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createForbiddenHours } from '../../src/admission/quiet-hours.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import { createHarness, day, hour, minute } from '../harness.ts'

const push = { channel: 'push', content: { text: 'x' } } as const
const policy = (quietHours: object, more: object = {}) => ({ version: 1, limits: [], quietHours, ...more })
const night = { default: { from: '22:00', to: '08:00', channels: ['push', 'sms'], except: ['security'] } }
const at = (text: string): number => Date.parse(text)
const rome = (id: string) => ({ id, pushToken: 't', phone: '+390612345678', timeZone: 'Europe/Rome' })

/** Returns the local due time of a notification posted at a local time in Rome, under these quiet hours. */
async function dueAt(start: string, from: string, to: string): Promise<string> {
  const harness = await createHarness({
    start: at(start),
    policy: policy({ default: { from, to, channels: ['push'] } }),
  })
  const posted = await harness.post({ ...push, to: rome('ada') })
  await harness.runFor(day)
  assert.equal(harness.sent()[0]?.at, posted.dueAt)
  await harness.check()
  await harness.stop()
  return new Date(posted.dueAt).toISOString()
}

test('quiet hours over midnight hold from their first minute to their last', async () => {
  assert.equal(await dueAt('2026-11-21T20:59:59.999Z', '22:00', '08:00'), '2026-11-21T20:59:59.999Z')
  assert.equal(await dueAt('2026-11-21T21:00:00Z', '22:00', '08:00'), '2026-11-22T07:00:00.000Z')
  assert.equal(await dueAt('2026-11-22T06:59:59.999Z', '22:00', '08:00'), '2026-11-22T07:00:00.000Z')
  assert.equal(await dueAt('2026-11-22T07:00:00Z', '22:00', '08:00'), '2026-11-22T07:00:00.000Z')
})

test('quiet hours that end in a skipped hour end at the daylight saving change; a repeated hour is quiet twice', async () => {
  // 2026-03-29, 02:00 becomes 03:00 in Rome; 2026-10-25, 03:00 becomes 02:00.
  assert.equal(await dueAt('2026-03-29T00:30:00Z', '22:00', '02:30'), '2026-03-29T01:00:00.000Z')
  assert.equal(await dueAt('2026-10-25T00:10:00Z', '02:00', '02:30'), '2026-10-25T00:30:00.000Z')
  assert.equal(await dueAt('2026-10-25T01:10:00Z', '02:00', '02:30'), '2026-10-25T01:30:00.000Z')
})

test('a recipient’s quiet hours for a channel override the policy’s, and an exempt category overrides both', async () => {
  const harness = await createHarness({ start: at('2026-11-21T21:30:00Z'), policy: policy(night) })
  await harness.done(
    harness.gateway.gate.saveRecipient({
      tenant: 'default',
      ...rome('ada'),
      quietHours: { push: { from: '23:00', to: '06:00' }, email: { from: '22:00', to: '09:00' } },
    }),
  )
  const due = async (draft: object) =>
    new Date((await harness.post({ to: rome('ada'), content: { subject: 's', text: 't' }, ...draft })).dueAt)
      .toISOString()
      .slice(8, 16)
  assert.equal(await due({ channel: 'push' }), '21T21:30')
  assert.equal(await due({ channel: 'sms' }), '22T07:00')
  await harness.runUntil(at('2026-11-21T22:00:00Z'))
  assert.equal(await due({ channel: 'push' }), '22T05:00')
  assert.equal(await due({ channel: 'push', category: 'security' }), '21T22:00')
  await harness.check()
  await harness.stop()
})

test('the stricter of quiet and legal hours wins and is the reason', async () => {
  const harness = await createHarness({
    start: at('2026-11-21T20:30:00Z'),
    policy: policy({ ...night, legal: [{ channel: 'sms', category: 'marketing', allowed: '09:00-21:00' }] }),
  })
  const sms = { channel: 'sms', to: rome('ada'), category: 'marketing', content: { text: 'x' } } as const
  const early = await harness.post(sms)
  assert.equal(early.decision.reason, 'legal_hours')
  assert.equal(early.decision.at, at('2026-11-22T08:00:00Z'))
  const sendAt = at('2026-11-21T22:00:00Z')
  const late = await harness.post({ ...sms, sendAt })
  assert.equal(late.decision.at, at('2026-11-22T08:00:00Z'))
  assert.equal(late.decision.reason, 'legal_hours', 'both hold then, and the legal ones for longer')
  const other = await harness.post({ ...sms, category: 'product', sendAt })
  assert.equal(other.decision.reason, 'quiet_hours')
  assert.equal(other.decision.at, at('2026-11-22T07:00:00Z'))
  await harness.stop()
})

test('the reason of overlapping quiet and legal hours is the one that lasts longer', async () => {
  const both = async (quiet: object, allowed: string, expiresAt?: string) => {
    const harness = await createHarness({
      start: at('2026-11-21T22:30:00Z'),
      policy: policy({
        default: { ...quiet, channels: ['sms'] },
        legal: [{ channel: 'sms', category: 'marketing', allowed }],
      }),
    })
    const posted = await harness.post({
      channel: 'sms',
      to: rome('ada'),
      category: 'marketing',
      content: { text: 'x' },
      ...(expiresAt === undefined ? {} : { expiresAt: at(expiresAt) }),
    })
    await harness.stop()
    return posted.decision.reason
  }
  assert.equal(await both({ from: '22:00', to: '08:00' }, '09:00-21:00'), 'legal_hours')
  assert.equal(await both({ from: '22:00', to: '10:00' }, '09:00-21:00'), 'quiet_hours')
  assert.equal(await both({ from: '21:00', to: '09:00' }, '09:00-21:00'), 'quiet_hours')
  // Quiet hours follow legal hours without a break.
  assert.equal(await both({ from: '22:00', to: '02:00' }, '09:00-02:00'), 'legal_hours')
  const expiring = await both({ from: '22:00', to: '02:00' }, '09:00-21:00', '2026-11-22T05:00:00Z')
  assert.equal(expiring, 'legal_hours', 'they keep it until its end')
})

test('a notification that a limit moves into quiet hours leaves at their end, with quiet hours as the reason', async () => {
  const harness = await createHarness({
    start: at('2026-11-21T20:30:00Z'),
    policy: policy(
      { ...night, spread: '10min' },
      { limits: [{ name: 'one', for: { channel: 'push' }, max: ['1/h'], over: 'delay' }] },
    ),
  })
  const to = rome('ada')
  await harness.post({ ...push, to })
  const moved = await harness.post({ ...push, to })
  assert.ok(moved.dueAt >= at('2026-11-22T07:00:00Z') && moved.dueAt < at('2026-11-22T07:10:00Z'))
  assert.deepEqual([moved.decision.reason, moved.decision.limit], ['quiet_hours', undefined])
  assert.equal(moved.decision.rules[0]?.admits, false)
  const next = await harness.post({ ...push, to })
  assert.deepEqual([next.decision.reason, next.decision.limit], ['recipient_limit', 'one'])
  await harness.check()
  await harness.stop()
})

test('a limit that drops or falls back is checked at the first time outside quiet hours', async () => {
  const harness = await createHarness({
    start: at('2026-11-21T20:30:00Z'),
    policy: policy(night, {
      limits: [{ name: 'one', for: { channel: 'push' }, max: ['1/2h'], over: 'drop' }],
    }),
  })
  const to = rome('ada')
  assert.equal((await harness.post({ ...push, to })).status, 'queued')
  await harness.runFor(40 * minute)
  const kept = await harness.post({ channel: 'push', to })
  assert.equal(kept.status, 'scheduled', 'by the morning the window is free')
  const dropped = await harness.post({ channel: 'push', to })
  assert.equal(dropped.decision.reason, 'over_limit', 'in the morning it is not')
  await harness.stop()
})

test('notifications are spread over the whole break where it is shorter than the spread', async () => {
  const harness = await createHarness({
    start: at('2026-11-21T12:00:00Z'),
    policy: policy({
      default: { from: '00:00', to: '23:59', channels: ['push'] },
      spread: '10min',
    }),
  })
  const dues = new Set<number>()
  for (let recipient = 0; recipient < 20; recipient += 1) {
    const posted = await harness.post({ ...push, to: { id: `p${recipient}`, pushToken: 't' } })
    assert.equal(posted.decision.reason, 'quiet_hours')
    assert.ok(posted.dueAt >= at('2026-11-21T23:59:00Z') && posted.dueAt < at('2026-11-22T00:00:00Z'))
    dues.add(posted.dueAt)
  }
  assert.ok(dues.size > 10, 'they do not leave at once')
  await harness.runFor(day)
  assert.equal(harness.sent().length, 20)
  await harness.check()
  await harness.stop()
})

test('a digest that closes in quiet hours goes on collecting and leaves once, after their end', async () => {
  const harness = await createHarness({
    start: at('2026-11-21T21:30:00Z'),
    policy: policy(
      { ...night, spread: '10min' },
      {
        digests: [
          {
            name: 'news',
            for: { template: 'new-comment' },
            window: '1h',
            minItems: 2,
            maxItems: 9,
            template: 'activity-digest',
          },
        ],
      },
    ),
  })
  const item = (index: number) => ({ channel: 'push', template: 'new-comment', data: { index } }) as const
  await harness.post(item(1))
  await harness.post(item(2))
  await harness.runFor(3 * hour)
  await harness.post(item(3))
  await harness.runFor(12 * hour)
  const end = at('2026-11-22T08:00:00Z')
  const [digest, ...more] = harness.sent()
  assert.equal(more.length, 0)
  assert.ok(digest !== undefined && digest.at >= end && digest.at < end + 10 * minute)
  assert.equal((digest.message.data as { totalCount: number }).totalCount, 3)
  await harness.check()
  await harness.stop()
})

test('a new time zone or new quiet hours reschedule waiting notifications', async () => {
  const harness = await createHarness({ start: at('2026-11-21T23:00:00Z'), policy: policy(night) })
  const posted = await harness.post(push)
  assert.equal(posted.decision.reason, 'quiet_hours')
  const save = (more: object) =>
    harness.done(harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'ada', ...more }))
  await save({ quietHours: { push: { from: '22:00', to: '06:00' } } })
  assert.equal((await harness.notification(posted.id)).dueAt, at('2026-11-22T06:00:00Z'))
  await save({ timeZone: 'America/New_York' })
  await harness.runFor(minute)
  assert.equal((await harness.notification(posted.id)).status, 'delivered')
  await harness.check()
  await harness.stop()
})

test('an SMS to a number without a time zone leaves when it is legal in every zone of its country code', async () => {
  // 08:30 in New York is 03:30 in Honolulu, where 08:00 comes at 18:00 UTC.
  const start = at('2026-11-23T13:30:00Z')
  const legal = [{ channel: 'sms', category: 'marketing', allowed: '08:00-21:00' }]
  const harness = await createHarness({ start, policy: policy({ legal }) })
  const text = { channel: 'sms', category: 'marketing', content: { text: 'x' } } as const
  const due = async (to: { readonly id: string; readonly phone?: string; readonly timeZone?: string }) => {
    const { dueAt: instant, decision } = await harness.post({ ...text, to })
    return `${new Date(instant).toISOString().slice(8, 16)} ${decision.reason ?? ''}`.trim()
  }
  assert.equal(await due({ id: 'a', phone: '+12125550123' }), '23T18:00 legal_hours')
  assert.equal(await due({ id: 'b', phone: '+12125550123', timeZone: 'America/New_York' }), '23T13:30')
  assert.equal(await due({ id: 'c', phone: '+390612345678' }), '23T13:30')
  // A stored number counts like one in the request.
  await harness.done(
    harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'd', phone: '+14165550123' }),
  )
  assert.equal(await due({ id: 'd' }), '23T18:00 legal_hours')
  // 21:30 in St. John's is 15:00 in Honolulu: it waits until the next morning in Honolulu.
  await harness.runUntil(at('2026-11-24T01:00:00Z'))
  assert.equal(await due({ id: 'e', phone: '+12125550123' }), '24T18:00 legal_hours')
  await harness.check()
  await harness.stop()
})

test('quiet hours follow the wall clock, also when it was stepped after the start', () => {
  const reservationRequest = {
    id: 'n',
    ...push,
    to: rome('ada'),
    tenant: 't',
    module: 'm',
    category: 'product',
  } as never
  let ahead = 0
  const forbiddenHours = createForbiddenHours(compilePolicy(policy(night)), () => ahead)
  const instant = at('2026-11-21T20:30:00Z')
  const ends = () =>
    forbiddenHours.forbidden(reservationRequest, null, instant)?.find(({ to }) => to > instant)
  assert.equal(forbiddenHours.reasonAt(reservationRequest, null, instant), undefined)
  assert.equal(ends()!.from, at('2026-11-21T21:00:00Z'))
  ahead = hour
  assert.equal(forbiddenHours.reasonAt(reservationRequest, null, instant), 'quiet_hours')
  assert.deepEqual([ends()!.from, ends()!.to], [at('2026-11-21T20:00:00Z'), at('2026-11-22T06:00:00Z')])
})
