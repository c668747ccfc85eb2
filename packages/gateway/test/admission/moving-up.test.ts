/**
 * A slot that becomes free earlier than a waiting notification was promised goes to the earliest accepted one, at once
 * and before any new one; `dueAt`, which clients read as `sendAt`, shows it.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { type Mortal, mortal } from '../guarantees/mortal.ts'
import { createHarness, type Harness, hour, minute, second } from '../harness.ts'

const step = hour + 20
const hourly = { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }] }

function databaseIn(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-moving-up-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'sluice.db')
}

/** Returns the due time of each, ms after the start. */
async function instants(harness: Harness, of: readonly { readonly id: string }[]): Promise<number[]> {
  return Promise.all(of.map(async ({ id }) => (await harness.notification(id)).dueAt - harness.start))
}

test('notifications behind a cancelled one move up one slot each within a second, before a new one', async () => {
  const harness = await createHarness({ policy: hourly })
  await harness.post()
  const line = [await harness.post(), await harness.post(), await harness.post()] as const
  assert.deepEqual(await instants(harness, line), [step, 2 * step, 3 * step])
  // Not awaited, so that the new notification arrives while they move.
  const cancelled = harness.gateway.gate.cancel('default', line[0].id)
  const newcomer = await harness.post()
  await harness.done(cancelled)
  await harness.runFor(second)
  assert.deepEqual(await instants(harness, [line[1], line[2], newcomer]), [step, 2 * step, 3 * step])
  const moved = await harness.notification(line[1].id)
  assert.equal(moved.decision.at, moved.dueAt)
  assert.equal(moved.timeline.at(-1)?.detail, 'moved up')
  await harness.runFor(4 * hour)
  assert.deepEqual(
    harness.sent().map(({ id, at }) => [id, at - harness.start]),
    [
      [harness.sent()[0]!.id, 0],
      [line[1].id, step],
      [line[2].id, 2 * step],
      [newcomer.id, 3 * step],
    ],
  )
  await harness.check()
  await harness.stop()
})

const stubborn = { provider: 'sandbox', accounts: [{ id: 'a' }], shedAfter: '1d' }

test('the slot of an expired notification goes to waiting ones', async () => {
  // Nothing is sent after the first, so that the next one expires in the queue.
  let calls = 0
  const { provider } = createScripted(() => (calls++ === 0 ? throttled('86400') : delivered))
  const harness = await createHarness({
    policy: hourly,
    parts: { providers: [provider] },
    config: { pools: { email: stubborn, websocket: stubborn } },
  })
  await harness.post({ recipient: 'bob' })
  await harness.runFor(second)
  const dying = await harness.post({ expiresAt: harness.start + 10 * minute })
  const line = [await harness.post(), await harness.post()] as const
  assert.deepEqual(await instants(harness, [dying, ...line]), [second, second + step, second + 2 * step])
  await harness.runFor(10 * minute)
  assert.equal((await harness.notification(dying.id)).status, 'expired')
  assert.deepEqual(await instants(harness, line), [10 * minute, 10 * minute + step])
  await harness.stop()
})

test('an opt-out frees the slots of suppressed notifications at once', async () => {
  const harness = await createHarness({ policy: hourly })
  await harness.post()
  const rare = await harness.post({ category: 'rare' })
  const usual = await harness.post()
  assert.deepEqual(await instants(harness, [usual]), [2 * step])
  const saved = harness.gateway.gate.saveRecipient({
    tenant: 'default',
    id: 'ada',
    optOuts: [{ category: 'rare' }],
  })
  const newcomer = await harness.post()
  await harness.done(saved)
  assert.equal((await harness.notification(rare.id)).status, 'suppressed')
  await harness.runFor(second)
  assert.deepEqual(await instants(harness, [usual, newcomer]), [step, 2 * step])
  await harness.stop()
})

const nightly = {
  ...hourly,
  quietHours: {
    default: { from: '10:00', to: '18:00', channels: ['email'] },
    unknownTimeZone: 'UTC',
    spread: '1ms',
  },
}

test('a recipient with shorter quiet hours gets waiting notifications earlier, in order and before new ones', async () => {
  const harness = await createHarness({ policy: nightly })
  const line = [await harness.post(), await harness.post()] as const
  assert.deepEqual(await instants(harness, line), [6 * hour, 6 * hour + step])
  const quietHours = { default: { from: '02:00', to: '03:00' } }
  const saved = harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'ada', quietHours })
  const newcomer = await harness.post()
  await harness.done(saved)
  await harness.runFor(second)
  assert.deepEqual(await instants(harness, [...line, newcomer]), [0, step, 2 * step])
  assert.equal((await harness.notification(line[0].id)).status, 'delivered')
  await harness.stop()
})

test('a new time zone moves waiting notifications to its hours, earlier or later', async () => {
  const harness = await createHarness({ policy: nightly })
  const waiting = await harness.post()
  const move = (timeZone: string) =>
    harness.done(harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'ada', timeZone }))
  // 12:00 UTC is 18:00 in Almaty's summer of old; in November 2026 it is 17:00 there.
  await move('Asia/Almaty')
  assert.deepEqual(await instants(harness, [waiting]), [hour])
  await move('Europe/Lisbon')
  assert.deepEqual(await instants(harness, [waiting]), [6 * hour])
  await move('Asia/Tokyo')
  assert.equal((await harness.notification(waiting.id)).status, 'delivered')
  await harness.stop()
})

test('a free slot of a limit over all recipients goes to the longest waiting of them', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'tenant', for: 'any', per: ['tenant'], max: ['1/h'], over: 'delay' }],
    },
  })
  await harness.post({ recipient: 'a' })
  const line = [await harness.post({ recipient: 'b' }), await harness.post({ recipient: 'c' })] as const
  const cancelled = harness.gateway.gate.cancel('default', line[0].id)
  const newcomer = await harness.post({ recipient: 'd' })
  await harness.done(cancelled)
  await harness.runFor(second)
  assert.deepEqual(await instants(harness, [line[1], newcomer]), [step, 2 * step])
  await harness.stop()
})

test('a wider policy at a restart moves up waiting notifications within a second, before new ones', async (t) => {
  const file = databaseIn(t)
  const first = await createHarness({ file, policy: hourly })
  const all = []
  for (let index = 0; index < 4; index += 1) all.push(await first.post())
  for (let index = 0; index < 2; index += 1) all.push(await first.post({ recipient: 'bob' }))
  await first.runFor(minute)
  await first.stop()
  const wider = { ...hourly, limits: [{ ...hourly.limits[0], max: ['3/h'] }] }
  const again = await createHarness({ file, policy: wider, start: first.start + minute })
  const newcomer = await again.post()
  await again.runFor(second)
  const [, ada1, ada2, ada3, , bob1] = await Promise.all(all.map(({ id }) => again.notification(id)))
  assert.deepEqual([ada1!.status, ada2!.status], ['delivered', 'delivered'])
  assert.equal(ada3!.dueAt - first.start, step)
  assert.equal(newcomer.dueAt - again.start, hour + 20)
  assert.equal(bob1!.status, 'delivered', 'also of whom nothing new comes')
  await again.stop()
})

test('a notification that would expire before its slot gets one that becomes free in time, before a new one', async () => {
  const harness = await createHarness({ policy: hourly })
  await harness.post()
  const line = [await harness.post(), await harness.post()] as const
  const doomed = await harness.post({ expiresAt: harness.start + 2.5 * hour })
  const hopeless = await harness.post({ expiresAt: harness.start + 30 * minute })
  assert.deepEqual(await instants(harness, [doomed, hopeless]), [2.5 * hour, 30 * minute])
  const cancelled = harness.gateway.gate.cancel('default', line[0].id)
  const newcomer = await harness.post()
  await harness.done(cancelled)
  await harness.runFor(second)
  assert.deepEqual(await instants(harness, [line[1], doomed, newcomer]), [step, 2 * step, 3 * step])
  const rescued = await harness.notification(doomed.id)
  assert.equal(rescued.undecided ?? false, false)
  assert.equal(rescued.timeline.at(-1)?.detail, 'moved up')
  await harness.runFor(4 * hour)
  assert.equal((await harness.notification(doomed.id)).status, 'delivered')
  assert.equal((await harness.notification(hopeless.id)).status, 'expired')
  await harness.check()
  await harness.stop()
})

test('a notification that would expire before its slot gets a freed one also after a restart, and by a wider policy', async (t) => {
  const file = databaseIn(t)
  const first = await createHarness({ file, policy: hourly })
  await first.post()
  const line = [await first.post(), await first.post()] as const
  const doomed = await first.post({ expiresAt: first.start + 2.5 * hour })
  const other = await first.post({ expiresAt: first.start + 2.6 * hour })
  await first.stop()
  const again = await createHarness({ file, policy: hourly, start: first.start + minute })
  await again.done(again.gateway.gate.cancel('default', line[0].id))
  await again.runFor(second)
  assert.equal((await again.notification(doomed.id)).dueAt - first.start, 2 * step)
  await again.stop()
  const wider = { ...hourly, limits: [{ ...hourly.limits[0], max: ['2/h'] }] }
  const third = await createHarness({ file, policy: wider, start: first.start + 2 * minute })
  const newcomer = await third.post()
  await third.runFor(second)
  assert.equal((await third.notification(line[1].id)).status, 'delivered')
  assert.equal((await third.notification(doomed.id)).dueAt - first.start, step)
  assert.ok((await third.notification(other.id)).dueAt - first.start < 2 * hour)
  assert.ok((await third.notification(newcomer.id)).dueAt > (await third.notification(other.id)).dueAt)
  await third.stop()
})

test('a wider limit over all recipients moves up waiting notifications at a restart', async (t) => {
  const file = databaseIn(t)
  const over = (max: string) => ({
    version: 1,
    limits: [{ name: 'tenant', for: 'any', per: ['tenant'], max: [max], over: 'delay' }],
  })
  const first = await createHarness({ file, policy: over('1/h') })
  await first.post({ recipient: 'a' })
  const line = [await first.post({ recipient: 'b' }), await first.post({ recipient: 'c' })] as const
  await first.stop()
  const again = await createHarness({ file, policy: over('2/h'), start: first.start + minute })
  await again.runFor(second)
  assert.equal((await again.notification(line[0].id)).status, 'delivered')
  assert.equal((await again.notification(line[1].id)).dueAt - first.start, step)
  await again.stop()
})

const news = { name: 'news', for: { template: 'new-comment' }, window: '10min', template: 'activity-digest' }
const collecting = { ...hourly, digests: [{ ...news, minItems: 2 }] }
const comment = (index: number) => ({ template: 'new-comment', data: { index }, actor: `author-${index}` })

async function digestOf(harness: Harness): Promise<number> {
  const open = await harness.gateway.store.openDigest({
    tenant: 'default',
    recipient: 'ada',
    channel: 'email',
    category: 'product',
    name: 'news',
  })
  assert.ok(open !== undefined)
  return open.closesAt - harness.start
}

test('a digest over its limit closes when a slot becomes free, before a new notification', async () => {
  const harness = await createHarness({ policy: collecting })
  const items = [await harness.post(comment(0)), await harness.post(comment(1))]
  const line = [await harness.post({ sendAt: harness.start + 9 * minute }), await harness.post()] as const
  await harness.runFor(11 * minute)
  const held = await digestOf(harness)
  assert.ok(held > hour, `it waits for its limit until ${held}`)
  const newcomer = await harness.post()
  assert.ok(newcomer.dueAt - harness.start > held, 'a newcomer stands behind it')
  const [waiting] = (await Promise.all(line.map(({ id }) => harness.notification(id)))).filter(
    ({ status }) => status === 'scheduled',
  )
  const freed = waiting!.dueAt - harness.start
  assert.ok(freed < held)
  const cancelled = harness.gateway.gate.cancel('default', waiting!.id)
  const late = await harness.post()
  await harness.done(cancelled)
  await harness.runFor(second)
  assert.equal(await digestOf(harness), freed, 'it has the place that became free')
  const [before, after] = await instants(harness, [newcomer, late])
  assert.equal(before, held, 'and the next its own')
  assert.ok(after! > held)
  await harness.runFor(2 * hour)
  for (const { id } of items) assert.equal((await harness.notification(id)).status, 'merged')
  await harness.runFor(4 * hour)
  await harness.check()
  await harness.stop()
})

test('a digest over its limit closes at once under a wider policy, before a new notification', async (t) => {
  const file = databaseIn(t)
  const first = await createHarness({ file, policy: collecting })
  await first.post()
  const items = [await first.post(comment(0)), await first.post(comment(1))]
  await first.runFor(11 * minute)
  assert.ok((await digestOf(first)) > 11 * minute)
  await first.stop()
  const wider = { ...collecting, limits: [{ ...hourly.limits[0], max: ['2/h'] }] }
  const again = await createHarness({ file, policy: wider, start: first.start + 12 * minute })
  const newcomer = await again.post()
  await again.runFor(second)
  for (const { id } of items) assert.equal((await again.notification(id)).status, 'merged')
  assert.ok(newcomer.dueAt > again.start + 10 * minute)
  await again.stop()
})

test('a notification delayed by its own quiet hours gives its slot to waiting ones', async () => {
  const harness = await createHarness({
    policy: {
      ...hourly,
      quietHours: {
        default: { from: '12:30', to: '18:00', channels: ['email'] },
        unknownTimeZone: 'UTC',
        spread: '1ms',
      },
    },
    parts: { providers: [createScripted(() => delivered).provider] },
    config: {
      pools: {
        email: { ...stubborn, accounts: [{ id: 'a', rate: '1/10min' }] },
        push: stubborn,
        websocket: stubborn,
      },
    },
  })
  // The account is busy until the quiet hours of the second begin.
  await harness.post({ recipient: 'bob' })
  for (let index = 0; index < 3; index += 1) await harness.post({ recipient: `b${index}` })
  const late = await harness.post()
  const waiting = await harness.post({ channel: 'push' })
  assert.deepEqual(await instants(harness, [waiting]), [step])
  await harness.runFor(40 * minute + second)
  const rebooked = await harness.notification(late.id)
  assert.equal(rebooked.dueAt - harness.start, 6 * hour)
  assert.equal((await harness.notification(waiting.id)).status, 'delivered')
  await harness.stop()
})

/** Runs two gateways over one store: the first is killed at the commit that `act` causes, as soon as it is on disk. */
async function killedAfter(
  t: TestContext,
  policy: object,
  prepare: (harness: Harness) => Promise<readonly { readonly id: string }[]>,
  act: (harness: Harness, ids: readonly string[]) => Promise<unknown>,
) {
  const file = databaseIn(t)
  const copy = `${file}.copy`
  let life: Mortal | undefined
  const first = await createHarness({
    file,
    policy,
    wrap: (store) => {
      life = mortal(store, file, copy)
      return life.store
    },
  })
  const ids = (await prepare(first)).map(({ id }) => id)
  life!.arm(1, 'after', () => {})
  void act(first, ids).catch(() => {})
  for (let turn = 0; turn < 100 && !life!.dead; turn += 1) await first.clock.settle()
  assert.ok(life!.dead)
  const again = await createHarness({ file: copy, policy, start: first.start + second })
  return { again, ids, sinceStart: async (id: string) => (await again.notification(id)).dueAt - first.start }
}

test('a slot freed just before a kill goes to the first waiting notification, before a new one', async (t) => {
  const { again, ids, sinceStart } = await killedAfter(
    t,
    hourly,
    async (harness) => {
      await harness.post()
      return [await harness.post(), await harness.post(), await harness.post()]
    },
    (harness, [first]) => harness.gateway.gate.cancel('default', first!),
  )
  const newcomer = await again.post()
  await again.runFor(second)
  assert.equal((await again.notification(ids[0]!)).status, 'cancelled')
  assert.deepEqual(
    [await sinceStart(ids[1]!), await sinceStart(ids[2]!), await sinceStart(newcomer.id)],
    [step, 2 * step, 3 * step],
  )
  await again.stop()
})

test('preferences saved just before a kill hold for waiting notifications, also of recipients without new ones', async (t) => {
  const { again, ids, sinceStart } = await killedAfter(
    t,
    nightly,
    async (harness) => {
      const news = await harness.post({ category: 'news' })
      return [news, await harness.post(), await harness.post({ channel: 'push' })]
    },
    (harness) =>
      harness.gateway.gate.saveRecipient({
        tenant: 'default',
        id: 'ada',
        timeZone: 'UTC',
        optOuts: [{ category: 'news' }],
        quietHours: { email: { from: '10:00', to: '16:00' } },
      }),
  )
  await again.runFor(second)
  assert.equal((await again.notification(ids[0]!)).status, 'suppressed')
  assert.equal(await sinceStart(ids[1]!), 4 * hour)
  await again.check()
  await again.stop()
})
