/** The windows of a recipient: what counts, when a window is full, and the hours in which nothing is sent. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { instantsMax, streamsMax, windowsOf } from '../../../src/http/recipient-windows.ts'
import { compilePolicy } from '../../../src/policy/compile.ts'
import type { Admission } from '../../../src/ports.ts'
import { temporaryFolder } from '../../config/folder.ts'
import { startKeyed } from '../../guarantees/keyed.ts'
import { createSigner, tokenFor } from '../../tokens.ts'

const day = 86_400_000
const now = Date.UTC(2026, 10, 22, 12)
const document = {
  version: 1,
  limits: [
    { name: 'few', for: { category: 'marketing' }, per: ['recipient'], max: ['2/day'], over: 'delay' },
  ],
}
const policy = compilePolicy(document)

const admission = (id: string, at: number, more: Partial<Admission> = {}): Admission => ({
  id,
  tenant: 't',
  module: 'm',
  to: { id: 'u' },
  channel: 'email',
  category: 'marketing',
  priority: 'normal',
  status: 'delivered',
  dueAt: at,
  createdAt: at,
  firedAt: at,
  fingerprint: 'f',
  policyVersion: 'p',
  ...more,
})

test('a window is full from its last place taken until the first of these leaves it', () => {
  const { firedAt: _, ...booked } = admission('c', now + 21 * 3_600_000, { status: 'scheduled' })
  const met = [admission('a', now - 3 * 3_600_000), admission('b', now), booked]
  const { streams, truncated } = windowsOf({ policy, marginMs: 0 }, null, met, {
    from: now - day,
    to: now + 2 * day,
  })
  assert.equal(truncated, false)
  assert.deepEqual(streams, [
    {
      limit: 'few',
      window: '2/day',
      windowMs: day,
      marginMs: 0,
      max: 2,
      shared: false,
      full: [{ from: now, to: now + day }],
      instants: [
        { at: now - 3 * 3_600_000, notificationId: 'a', state: 'counted' },
        { at: now, notificationId: 'b', state: 'counted' },
        { at: now + 21 * 3_600_000, notificationId: 'c', state: 'booked' },
      ],
    },
  ])
  assert.deepEqual(
    windowsOf({ policy, marginMs: 0 }, null, met, { from: now, to: now + day, channel: 'sms' }).streams,
    [],
  )
})

test('windows say by how much they are kept longer, and which distance their limit keeps', () => {
  const spaced = compilePolicy({
    version: 1,
    limits: [{ name: 'few', for: 'any', max: ['1/day'], minGap: '5min', over: 'delay' }],
  })
  const { streams } = windowsOf({ policy: spaced, marginMs: 20 }, null, [admission('a', now)], {
    from: now - day,
    to: now + 2 * day,
  })
  assert.deepEqual(
    streams.map(({ window, marginMs, minGapMs, full }) => [window, marginMs, minGapMs, full]),
    [
      ['1/day', 20, 300_000, [{ from: now, to: now + day + 20 }]],
      ['1/5min', 20, 300_000, [{ from: now, to: now + 300_020 }]],
    ],
  )
})

test('an answer has at most 12 streams of 500 instants, and says that it is truncated', () => {
  const met = Array.from({ length: 600 }, (_, index) => admission(`n${index}`, now + index))
  const one = windowsOf({ policy, marginMs: 0 }, null, met, { from: now - day, to: now + day })
  assert.deepEqual([one.streams[0]!.instants.length, one.truncated], [instantsMax, true])
  const many = compilePolicy({
    version: 1,
    limits: [{ name: 'author', for: 'any', per: ['recipient', 'actor'], max: ['2/day'], over: 'delay' }],
  })
  const authors = met.map((each, index) => ({ ...each, actor: `a${index}` }))
  const { streams, truncated } = windowsOf({ policy: many, marginMs: 0 }, null, authors, {
    from: now - day,
    to: now + day,
  })
  assert.deepEqual([streams.length, truncated], [streamsMax, true])
})

test('the route shows a tenant its own recipient, with the hours in which nothing is sent', async (t) => {
  const signer = createSigner('ES256')
  const folder = temporaryFolder(t, { 'policy.yaml': JSON.stringify(document) })
  const keyed = await startKeyed(t, signer, { policy: join(folder, 'policy.yaml') })
  const [alpha, beta] = ['alpha', 'beta'].map((tenant) => tokenFor(signer, { tenant, module: 'm' }))
  const base = '/api/v1/recipients/u'
  const quietHours = { default: { from: '22:00', to: '08:00' } }
  await keyed.ask('PUT', base, {
    token: alpha!,
    body: { timeZone: 'Europe/Rome', email: 'a@example.com', quietHours },
  })
  for (const text of ['one', 'two', 'three']) {
    await keyed.ask('POST', '/api/v1/notifications', {
      token: alpha!,
      body: { recipient: 'u', channel: 'email', category: 'marketing', content: { subject: 's', text } },
    })
  }
  const { status, body } = await keyed.ask('GET', `${base}/windows?channel=email`, { token: alpha! })
  assert.equal(status, 200)
  const streams = body.streams as { readonly instants: readonly object[]; readonly full: readonly object[] }[]
  assert.deepEqual([body.timeZone, streams.length, streams[0]!.instants.length], ['Europe/Rome', 1, 3])
  assert.ok(streams[0]!.full.length >= 1)
  const forbidden = body.forbidden as { readonly kind: string; readonly from: string; readonly to: string }[]
  assert.ok(forbidden.length >= 13 && forbidden.every(({ kind }) => kind === 'quiet'))
  const foreign = (await keyed.ask('GET', `${base}/windows`, { token: beta! })).body
  assert.deepEqual([foreign.streams, foreign.timeZone], [[], null])
  const wrong = await keyed.ask('GET', `${base}/windows?from=2026-01-01T00:00:00Z&to=2026-12-01T00:00:00Z`, {
    token: alpha!,
  })
  assert.equal(wrong.status, 400)
})
