/**
 * Tests the throttle queues of tenants and modules through the whole gateway in virtual time. Under arrivals,
 * cancellations, expiries and restarts every delivery is checked against each window and against the promised time.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { SluiceError } from '../../../src/errors.ts'
import type { Notification } from '../../../src/model.ts'
import {
  createHarness,
  densest,
  type Harness,
  hour,
  minute,
  second,
  seeded,
  testSeed,
} from '../../harness.ts'

const policy = { version: 1, limits: [] }
const runs = Number(process.env.SLUICE_RUNS ?? 3)

const tenants = (rate: string | string[], modules: string | string[] = 'unlimited', more = {}) => ({
  tenants: { default: { rate, modules, ...more } },
})

function databaseIn(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-line-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'sluice.db')
}

const recipients = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => ({
    to: { id: `r${from + index}`, email: 'r@example.com' },
  }))

test('a burst of 500 against 100/min sends exactly 100 in any rolling minute, and all at the computed times', async () => {
  const harness = await createHarness({ policy, config: tenants('100/min') })
  for (let batch = 0; batch < 5; batch += 1) await harness.postMany(recipients(100, 100 * batch))
  const lastAt = harness.start + 4 * (minute + 20)
  await harness.runUntil(lastAt - 1)
  assert.equal(harness.counts().delivered, 400)
  await harness.runUntil(lastAt)
  assert.equal(harness.counts().delivered, 500)
  assert.equal(
    densest(
      harness.sent().map((message) => message.at),
      minute,
    ),
    100,
  )
  await harness.check()
  await harness.stop()
})

test('one that would expire in the queue waits there also when its recipient is read from the record meanwhile', async () => {
  const limited = { version: 1, limits: [{ name: 'all', for: 'any', max: ['100/day'], over: 'delay' }] }
  const harness = await createHarness({ policy: limited, config: tenants('1/10s') })
  await harness.postMany(recipients(1))
  await harness.runFor(1)
  const [ada] = recipients(1, 1)
  await harness.postMany([{ ...ada!, expiresAt: harness.clock.now() + 5 * second }])
  await harness.postMany(recipients(1, 2))
  await harness.postMany([{ ...ada!, priority: 'critical' }])
  await harness.runFor(9 * second)
  assert.deepEqual(
    { sent: harness.sent().length, expired: harness.counts().expired },
    { sent: 2, expired: 1 },
  )
  await harness.runFor(11 * second)
  assert.equal(harness.sent().length, 3, 'the one behind it has its place')
  await harness.check()
  await harness.stop()
})

test('a module over its limit does not delay other modules, and order within modules is kept', async () => {
  const harness = await createHarness({ policy, config: tenants('10/min', '2/min') })
  const of = (module: string) => ({ tenant: 'default', module })
  await harness.postMany(recipients(20), of('noisy'))
  const quiet = await harness.post({}, of('quiet'))
  assert.equal(quiet.status, 'queued')
  const waits = await harness.postMany(recipients(3, 50), of('quiet'))
  assert.deepEqual(
    waits.map(({ dueAt }) => dueAt - harness.start),
    [0, minute + 20, minute + 20],
  )
  await harness.runFor(hour)
  assert.equal(harness.counts().delivered, 24)
  await harness.stop()
})

test('notifications behind a cancelled one in the throttle queue move up and leave before their stored dueAt', async () => {
  const harness = await createHarness({ policy, config: tenants('1/min') })
  await harness.post()
  const delayed = [await harness.post(), await harness.post(), await harness.post()] as const
  const step = minute + 20
  assert.deepEqual(
    delayed.map(({ dueAt }) => dueAt - harness.start),
    [step, 2 * step, 3 * step],
  )
  await harness.done(harness.gateway.gate.cancel('default', delayed[0].id))
  const places = delayed.slice(1).map((each) => harness.done(harness.gateway.gate.placeOf(each)))
  assert.deepEqual(await Promise.all(places), [harness.start + step, harness.start + 2 * step])
  await harness.runUntil(harness.start + step)
  assert.equal((await harness.notification(delayed[1].id)).status, 'delivered')
  await harness.runUntil(harness.start + 2 * step)
  const last = await harness.notification(delayed[2].id)
  assert.deepEqual([last.status, last.turnedAt], ['delivered', harness.start + 2 * step])
  await harness.check()
  await harness.stop()
})

test('a dry run predicts the place in the throttle queue and takes none', async () => {
  const harness = await createHarness({ policy, config: tenants('2/min', '1/min') })
  const caller = { tenant: 'default', module: 'a' }
  const draft = {
    to: { id: 'ada', email: 'ada@example.com' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: { subject: 's', text: 't' },
  } as const
  await harness.post({}, caller)
  for (let round = 1; round < 4; round += 1) {
    const { decision } = await harness.done(harness.gateway.gate.preview(caller, draft))
    const { decision: decided } = await harness.post({}, caller)
    assert.deepEqual(decided, decision)
    assert.equal(decision.at, harness.start + round * (minute + 20))
    assert.equal(decision.reason, 'module_limit')
  }
  const { decision } = await harness.done(
    harness.gateway.gate.preview(caller, { ...draft, priority: 'critical' }),
  )
  assert.equal(decision.outcome, 'send')
  await harness.stop()
})

test('a notification counts once in the tenant limit: quiet hours, sendAt and digests do not count it again', async () => {
  const harness = await createHarness({ policy, config: tenants('1/min') })
  await harness.post({ sendAt: harness.start + hour })
  const waits = await harness.post({ sendAt: harness.start + 2 * hour })
  assert.equal(waits.decision.reason, 'tenant_limit')
  await harness.runFor(minute + 20)
  const decided = await harness.notification(waits.id)
  assert.deepEqual([decided.decision.reason, decided.dueAt], ['send_at', harness.start + 2 * hour])
  await harness.runUntil(harness.start + hour)
  assert.equal((await harness.post()).status, 'queued')
  await harness.runFor(2 * hour)
  assert.equal(harness.counts().delivered, 3)
  await harness.stop()
})

test('a full throttle queue refuses with QUEUE_FULL and counts nothing; other tenants go on', async () => {
  const harness = await createHarness({ policy, config: tenants('2/min', 'unlimited', { queue: 5 }) })
  await harness.postMany(recipients(2))
  await harness.runFor(second)
  await harness.postMany(recipients(5))
  for (let tries = 0; tries < 3; tries += 1) {
    const refused = harness.post()
    await assert.rejects(refused, (error) => error instanceof SluiceError && error.code === 'QUEUE_FULL')
  }
  assert.equal((await harness.post({}, { tenant: 'other', module: 'm' })).status, 'queued')
  await harness.runUntil(harness.start + minute + 20)
  const next = await harness.post()
  assert.equal(next.dueAt, harness.start + 3 * (minute + 20))
  await harness.check()
  await harness.stop()
})

test('the throttle queue continues after a restart: passed notifications count and order is kept', async (t) => {
  const options = { file: databaseIn(t), policy, config: tenants('2/min') }
  let harness = await createHarness(options)
  const posted = await harness.postMany(recipients(12))
  const arrived: { id: string; at: number }[] = []
  for (let restarts = 0; restarts < 6; restarts += 1) {
    await harness.runFor(45 * second)
    arrived.push(...harness.sent())
    const now = harness.clock.now()
    await harness.stop()
    harness = await createHarness({ ...options, start: now })
  }
  await harness.runFor(10 * minute)
  arrived.push(...harness.sent())
  assert.deepEqual(
    arrived.map(({ id }) => id),
    posted.map(({ id }) => id),
  )
  assert.deepEqual(
    arrived.map(({ at }) => at),
    posted.map(({ dueAt }) => dueAt),
  )
  await harness.stop()
})

test('acceptances that a slow throttle state lets pass late count at their pass after a restart, not at their request', async (t) => {
  const options = { file: databaseIn(t), policy, config: tenants('2/min') }
  const first: Harness = await createHarness({
    ...options,
    parts: {
      wrapThrottle: (state) => ({
        ...state,
        async pass(tenant, requests) {
          await new Promise<void>((resolve) => first.clock.at(first.clock.now() + 30 * second, resolve))
          return state.pass(tenant, requests)
        },
      }),
    },
  })
  const posting = first.gateway.gate.admit({
    caller: { tenant: 'default', module: 'default' },
    drafts: recipients(2).map((draft) => ({
      ...draft,
      channel: 'email',
      category: 'product',
      priority: 'normal',
      content: { subject: 'Hello', text: 'Hello' },
    })),
  })
  await first.runFor(50 * second)
  await posting
  const now = first.clock.now()
  await first.stop()
  const later = await createHarness({ ...options, start: now })
  await later.runUntil(first.start + 61 * second)
  const next = await later.post()
  assert.equal(next.dueAt, first.start + 90 * second + 20, 'the window began 30 s after the request')
  await later.stop()
})

for (const [rate, went] of [
  ['6/min', 1],
  ['1/min', 10],
  ['unlimited', 0],
] as const)
  test(`a tenant limit of 2/min that is ${rate} after a restart holds for notifications already waiting`, async (t) => {
    const file = databaseIn(t)
    const before = await createHarness({ file, policy, config: tenants('2/min') })
    const posted = await before.postMany(recipients(12))
    await before.stop()
    const harness = await createHarness({ file, policy, config: tenants(rate), start: before.start + second })
    await harness.runFor(hour)
    const arrived = [...before.sent(), ...harness.sent()]
    assert.deepEqual(
      arrived.map(({ id }) => id),
      posted.map(({ id }) => id),
    )
    assert.equal(Math.floor((arrived.at(-1)!.at - before.start) / minute), went)
    await harness.check()
    await harness.stop()
  })

interface Storm {
  harness: Harness
  readonly draw: () => number
  readonly posted: Notification[]
  readonly sent: { readonly id: string; readonly at: number }[]
  readonly restarts: number[]
}

const modules = ['a', 'b', 'c']

async function storm({ harness, draw, posted }: Storm): Promise<void> {
  const below = (n: number): number => Math.floor(draw() * n)
  const what = draw()
  if (what < 0.55) {
    const caller = { tenant: 'default', module: modules[below(modules.length)]! }
    const now = harness.clock.now()
    const drafts = Array.from({ length: 1 + below(6) }, (_, index) => ({
      to: { id: `r${posted.length + index}`, email: 'r@example.com' },
      ...(draw() < 0.08 ? { priority: 'critical' as const } : {}),
      ...(draw() < 0.15 ? { expiresAt: now + 1 + below(3 * minute) } : {}),
    }))
    posted.push(...(await harness.postMany(drafts, caller)))
  } else if (what < 0.7 && posted.length > 0) {
    const { id } = posted[below(posted.length)]!
    await harness.done(harness.gateway.gate.cancel('default', id)).catch((error: unknown) => {
      if (!(error instanceof SluiceError) || error.code !== 'NOT_CANCELLABLE') throw error
    })
  } else if (what < 0.75 && posted.length > 0) {
    const { id } = posted[below(posted.length)]!.to
    await harness.done(
      harness.gateway.gate.saveRecipient({ tenant: 'default', id, optOuts: [{ channel: 'email' }] }),
    )
  } else await harness.runFor(below(20_000))
}

test(`the throttle exceeds no window, is never late and keeps order under random arrivals, cancellations and restarts (seed ${testSeed})`, async (t) => {
  let turns = 0
  for (let run = 0; run < runs; run += 1) {
    const draw = seeded(testSeed * 100 + run)
    const [tenantMax, moduleMax] = [3 + Math.floor(draw() * 6), 1 + Math.floor(draw() * 4)]
    const config = tenants([`${tenantMax}/min`, `${1 + tenantMax}/90s`], `${moduleMax}/30s`)
    const options = { file: databaseIn(t), policy, config }
    const state: Storm = { harness: await createHarness(options), draw, posted: [], sent: [], restarts: [] }
    for (let step = 0; step < 120; step += 1) {
      await storm(state)
      if (draw() > 0.05) continue
      const now = state.harness.clock.now()
      state.sent.push(...state.harness.sent())
      await state.harness.check()
      await state.harness.stop()
      state.restarts.push(now)
      // Another seed: the same one would repeat ids.
      state.harness = await createHarness({ ...options, start: now, seed: testSeed + 1_000 * (step + 1) })
    }
    await state.harness.runFor(12 * hour)
    state.sent.push(...state.harness.sent())
    turns += await judge(state, tenantMax, moduleMax)
    await state.harness.check()
    await state.harness.stop()
  }
  t.diagnostic(`${turns} turns`)
})

async function judge(
  { harness, posted, sent, restarts }: Storm,
  tenantMax: number,
  moduleMax: number,
): Promise<number> {
  const arrivedAt = new Map(sent.map(({ id, at }) => [id, at]))
  assert.equal(arrivedAt.size, sent.length, 'nothing is sent twice')
  const usual: { readonly module: string; readonly at: number }[] = []
  for (const { id, module, priority, createdAt, dueAt, expiresAt } of posted) {
    const { status, decision } = await harness.notification(id)
    const at = arrivedAt.get(id)
    assert.ok(['delivered', 'cancelled', 'expired', 'suppressed'].includes(status), `${id} is ${status}`)
    assert.equal(at !== undefined, status === 'delivered')
    if (at === undefined) continue
    if (priority === 'critical') assert.equal(at, createdAt, 'what is critical leaves at once')
    else usual.push({ module, at })
    // A restart knows the stored places and no later moves: places may differ then.
    const moved = restarts.some((restart) => restart >= createdAt && restart < at)
    assert.ok(
      moved || at <= dueAt,
      `${id} leaves ${at - dueAt} ms later than it was promised (${decision.reason})`,
    )
    assert.ok(expiresAt === undefined || at < expiresAt)
  }
  const instants = usual.map(({ at }) => at)
  assert.ok(densest(instants, minute) <= tenantMax)
  assert.ok(densest(instants, 90 * second) <= 1 + tenantMax)
  for (const module of modules) {
    const own = usual.filter((one) => one.module === module).map(({ at }) => at)
    assert.ok(densest(own, 30 * second) <= moduleMax)
    assert.deepEqual(
      own,
      own.toSorted((a, b) => a - b),
      `first in, first out in module ${module}`,
    )
  }
  return usual.length
}

test('a pass that counts more than 10 ms apart from the acceptance has its instant on record, earlier or later', async () => {
  for (const apartMs of [-30, -10, 10, 30]) {
    const harness = await createHarness({
      policy,
      config: tenants('1/min'),
      parts: {
        wrapThrottle: (state) => ({
          ...state,
          async pass(tenant, requests) {
            const passed = await state.pass(tenant, requests)
            return passed && { places: passed.places.map((place) => ({ ...place, at: place.at + apartMs })) }
          },
        }),
      },
    })
    const { createdAt, turnedAt } = await harness.post()
    assert.equal(turnedAt, Math.abs(apartMs) > 10 ? createdAt + apartMs : undefined)
    await harness.runFor(minute)
    await harness.stop()
  }
})
