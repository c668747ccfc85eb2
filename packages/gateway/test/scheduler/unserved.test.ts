/** A channel that no pool serves any more: its notifications become dead letters and return when a pool serves it. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { Notification } from '../../src/model.ts'
import { createUnserved } from '../../src/scheduler/unserved.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { createHarness, type Harness, hour, minute, second } from '../harness.ts'

const policy = {
  version: 1,
  limits: [{ name: 'sms', for: { channel: 'sms' }, max: ['1/h'], over: 'delay' }],
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
}
const pool = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1d' }
const both = { email: pool, sms: pool, websocket: pool }
const { sms: _, ...gone } = both
/** The first account is blocked for a day. */
const back = { ...both, sms: { ...pool, accounts: [{ id: 'b' }] } }

function databaseIn(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-unserved-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'sluice.db')
}

const stateOf = (harness: Harness, of: readonly { readonly id: string }[]) =>
  Promise.all(of.map(async ({ id }) => (await harness.notification(id)).status))

function occupied(harness: Harness) {
  const { queue, waiting, bytes } = harness.gateway.ledger.occupancy('default')
  return { queue, waiting, hasBytes: bytes > 0 }
}

test('notifications for a channel without a pool become dead letters at start in any state, and are redriven with the pool', async (t) => {
  const file = databaseIn(t)
  const tenants = { default: { rate: '8/min', modules: 'unlimited', queue: 50, waiting: 50 } }
  let isOpen = false
  const scripted = createScripted(() => (isOpen ? delivered : throttled('86400')))
  const options = (pools: object) => ({
    file,
    policy,
    config: { tenants, pools },
    parts: { providers: [scripted.provider] },
  })
  const first = await createHarness(options(both))
  const sms = { channel: 'sms' } as const
  const item = { ...sms, template: 'new-comment', data: { n: 1 } }
  const named = {
    stuck: await first.post(sms),
    queued: await first.post({ ...sms, recipient: 'bob' }),
    delayed: await first.post(sms),
    later: await first.post({ ...sms, recipient: 'eve', sendAt: first.start + 3 * hour }),
    ending: await first.post({
      ...sms,
      recipient: 'eve',
      expiresAt: first.start + 2 * hour,
      sendAt: first.start + hour,
    }),
    item: await first.post({ ...item, recipient: 'dan' }),
    other: await first.post({ ...item, data: { n: 2 }, recipient: 'dan' }),
    mail: await first.post({ recipient: 'max', sendAt: first.start + hour }),
    inThrottleQueue: await first.post({ ...sms, recipient: 'zoe' }),
  }
  await first.runFor(second)
  assert.equal((await first.notification(named.inThrottleQueue.id)).decision.reason, 'tenant_limit')
  const waiting = Object.values(named).filter((each) => each !== named.mail)
  await first.stop()

  isOpen = true
  const second_ = await createHarness({ ...options(gone), start: first.start + 2 * second })
  await second_.runFor(second)
  assert.deepEqual(
    await stateOf(second_, waiting),
    waiting.map(() => 'dead'),
  )
  for (const { id } of waiting) {
    const { reason, detail } = (await second_.notification(id)).timeline.at(-1)!
    assert.deepEqual([reason, detail], ['pool_blocked', 'no pool serves its channel'])
  }
  assert.deepEqual(occupied(second_), { queue: 0, waiting: 1, hasBytes: true })
  await second_.check()
  // Dead letters hold no place in the limit of their tenant.
  await second_.runFor(2 * hour)
  assert.equal((await second_.notification(named.ending.id)).status, 'expired')
  assert.equal((await second_.notification(named.mail.id)).status, 'delivered')
  await second_.check()
  await second_.stop()

  const third = await createHarness({ ...options(gone), start: second_.clock.now() })
  assert.deepEqual(occupied(third), { queue: 0, waiting: 0, hasBytes: false }, 'also after a restart')
  await third.stop()

  const fourth = await createHarness({ ...options(back), start: third.clock.now() })
  await fourth.runFor(minute)
  const left = await fourth.notification(named.later.id)
  assert.deepEqual([left.status, left.dueAt], ['scheduled', first.start + 3 * hour], 'not before its sendAt')
  await fourth.runFor(5 * hour)
  const { item: a, other: b, ending: __, ...rest } = named
  assert.deepEqual(await stateOf(fourth, [a, b]), ['merged', 'merged'])
  assert.deepEqual(
    await stateOf(fourth, Object.values(rest)),
    Object.values(rest).map(() => 'delivered'),
  )
  assert.deepEqual(occupied(fourth), { queue: 0, waiting: 0, hasBytes: false })
  await fourth.check()
  await fourth.stop()
})

test('a dead letter that cannot be written delays no other, and all are written when the store recovers', async () => {
  const list = Array.from({ length: 250 }, (_, index) => letter(`n${index}`))
  for (const [fault, again] of [
    [new TypeError('a mistake'), 1],
    // The others of the hundred that were written together are dead letters.
    [new SluiceError('STORE_UNAVAILABLE', 'full'), 151],
  ] as const) {
    const clock = createVirtualClock(start)
    const held = new Map(list.map((each) => [each.id, each]))
    const recovered: string[] = []
    const troubles: string[] = []
    const recover = async ({ id }: Notification): Promise<void> => void recovered.push(id)
    const unserved = createUnserved({
      store: {
        isVersioned: false,
        notification: async (_, id) => held.get(id),
        scan: () => assert.fail(),
        releaseDue: () => assert.fail(),
      },
      ledger: {
        async commit({ moves }) {
          const { id } = moves![0]!.before
          if (id === 'n0') throw fault
          held.delete(id)
          return { applied: true }
        },
        live: (id) =>
          held.has(id) ? { notification: held.get(id)!, status: 'queued', events: [] } : undefined,
        hold: () => assert.fail(),
        release: ({ id }) => held.delete(id),
      },
      served: new Set(),
      members: { othersServe: () => false },
      clock,
      releaseHolds: async () => undefined,
      pauseNewcomers: async () => async () => {},
      onDeadLetters: () => undefined,
      onError: (what) => troubles.push(what),
    })
    const buried = unserved.giveUp(list, recover).catch((error: unknown) => assert.equal(error, fault))
    await clock.runUntil(start + second / 2)
    await buried
    assert.equal(recovered.length, 0, 'the store is given time')
    await clock.runUntil(start + 2 * second)
    assert.ok(recovered.includes('n0'))
    assert.equal(new Set(recovered).size, again)
    assert.deepEqual(troubles, again === 1 ? ['make a dead letter of what no pool serves'] : [])
    assert.equal(held.size, 0)
  }
})

test('what another process serves is given back to the store, and tried again where the store fails', async () => {
  const clock = createVirtualClock(start)
  const held = new Set(['n0', 'n1'])
  const freed: string[] = []
  const recovered: string[] = []
  let fails = true
  const unserved = createUnserved({
    store: {
      isVersioned: true,
      notification: () => assert.fail(),
      scan: () => assert.fail(),
      async releaseDue(list) {
        if (fails) throw new SluiceError('STORE_UNAVAILABLE', 'away')
        freed.push(...list.map(({ id }) => id))
      },
    },
    ledger: {
      commit: () => assert.fail(),
      live: () => undefined,
      hold: () => assert.fail(),
      release: ({ id }) => held.delete(id),
    },
    served: new Set(['email']),
    members: { othersServe: (channel) => channel === 'sms' },
    clock,
    releaseHolds: () => assert.fail(),
    pauseNewcomers: () => assert.fail(),
    onDeadLetters: () => assert.fail(),
    onError: () => assert.fail(),
  })
  assert.deepEqual(unserved.left(), ['sms'])
  const list = [letter('n0'), letter('n1')]
  const recover = async ({ id }: Notification): Promise<void> => void recovered.push(id)
  await assert.rejects(unserved.giveUp(list, recover), { code: 'STORE_UNAVAILABLE' })
  assert.equal(held.size, 0)
  await clock.runUntil(start + 2 * second)
  assert.deepEqual(recovered, ['n0', 'n1'])
  fails = false
  await unserved.giveUp(list, recover)
  assert.deepEqual(freed, ['n0', 'n1'])
})

const start = 1_000_000
const letter = (id: string): Notification =>
  ({
    id,
    tenant: 'acme',
    to: { id },
    channel: 'sms',
    status: 'queued',
    dueAt: start,
    timeline: [],
  }) as unknown as Notification
