/**
 * Two gateways over one record in memory, in virtual time, of which one has no pool for a channel: what waits for it is the
 * other's, and becomes a dead letter only when that one has gone.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Harness, hour, minute, second } from '../harness.ts'
import { during, twoProcesses } from './two-processes.ts'

const pool = { provider: 'sandbox', accounts: [{ id: 'main' }] }
const email = { pools: { email: pool } }
const both = { pools: { email: pool, sms: pool } }

const policy = {
  version: 1,
  limits: [],
  digests: [
    {
      name: 'd',
      for: { template: 'new-comment' },
      window: '1min',
      minItems: 2,
      maxItems: 9,
      template: 'activity-digest',
    },
  ],
}

const statusOf = async ({ gateway }: Harness, { id }: { readonly id: string }) =>
  (await gateway.store.notification('default', id))!.status

test('a gateway without a pool leaves a channel to another one that serves it, also what it holds itself', async () => {
  const { clock, a, b } = await twoProcesses({ policy, config: both, configOfFirst: email })
  const { start } = b
  const sms = { channel: 'sms' } as const
  // The first gateway makes the digests of both: it holds what their closing writes.
  const items = []
  for (const n of [1, 2])
    items.push(await b.post({ ...sms, recipient: 'dan', template: 'new-comment', data: { n } }))
  const later = await b.post({ ...sms, recipient: 'eve', sendAt: start + 2 * hour })
  const soon = []
  for (let n = 0; n < 20; n += 1)
    soon.push(await b.post({ ...sms, recipient: `r${n}`, sendAt: start + 10 * second }))
  const atFirst = await a.post({ ...sms, recipient: 'zoe' })
  await clock.runUntil(start + 5 * minute)
  for (const each of [...soon, atFirst]) assert.equal(await statusOf(b, each), 'delivered')
  for (const each of items) assert.equal(await statusOf(b, each), 'merged')
  assert.equal(await statusOf(b, later), 'scheduled')
  assert.equal(a.sent().length, 0)
  const sent = b.sent()
  assert.equal(sent.length, 22)
  for (const { at } of sent.slice(0, 21)) assert.ok(at <= start + 10 * second + 100, `${at - start} ms`)
  assert.ok(sent[21]!.at <= start + minute + 3 * second, `${sent[21]!.at - start} ms`)
  await clock.runUntil(start + 2 * hour + second)
  assert.equal(await statusOf(b, later), 'delivered')
  await during(a, a.stop())
  await during(b, b.stop())
})

test('a channel is buried once the last gateway that served it has gone for half a minute', async () => {
  const { clock, a, b, declareDead } = await twoProcesses({ config: both, configOfFirst: email })
  const { start } = b
  const later = await b.post({ channel: 'sms', sendAt: start + hour })
  await clock.runUntil(start + minute)
  declareDead('b')
  await clock.runUntil(start + minute + 20 * second)
  assert.equal(await statusOf(a, later), 'scheduled')
  await clock.runUntil(start + minute + 40 * second)
  assert.equal(await statusOf(a, later), 'dead')
  await during(a, a.stop())
})
