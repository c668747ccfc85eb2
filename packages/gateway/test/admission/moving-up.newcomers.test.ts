/** No newcomer takes a place before those who wait for it, whatever the moment at which it asks. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import type { Draft, Notification } from '../../src/model.ts'
import type { Clock, LimitRequest, Store } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createHarness, type Harness, hour } from '../harness.ts'

const rules = [limit('all', '1/s')]
const subject = { key: 'default:ada', tenant: 'default', recipient: 'ada' }
const request = (id: string, waited = false): LimitRequest => ({
  subject,
  id,
  rules,
  ...(waited ? { waited } : {}),
})
const clock = { now: () => 0 } as Clock

test('a place is given back and its subject paused in one step, so that a newcomer at any await stands behind', async () => {
  for (let awaits = 0; awaits < 8; awaits += 1) {
    const state = createMemoryState({
      clock,
      marginMs: 0,
      recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
    })
    for (const id of ['1', '2', '3']) await state.reserve([request(id)])
    const cancelled = state.cancel([request('2')])
    for (let count = 0; count < awaits; count += 1) await Promise.resolve()
    const newcomer = state.reserve([request('4')])
    const freed = await cancelled
    assert.deepEqual(freed, [subject])
    assert.equal((await state.advance([request('3', true)]))?.at, 1_000, `${awaits} awaits later`)
    await state.resume(freed)
    assert.equal((await newcomer)[0]!.at, 2_000, `${awaits} awaits later`)
  }
})

test('after a restart all of 5,500 that wait for one limit hold their places before a newcomer', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-newcomers-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const options = {
    policy: {
      version: 1,
      maxDelay: '30d',
      limits: [{ name: 'all', for: 'any', per: ['tenant'], max: ['1/10s'], over: 'delay' }],
    },
    config: { tenants: { default: { rate: 'unlimited', modules: 'unlimited' } } },
    file: join(folder, 'sluice.db'),
  }
  const before = await createHarness(options)
  const all = await admitMany(before, 5_500)
  await before.stop()
  const after = await createHarness({ ...options, start: before.clock.now() + 1_000 })
  const [newcomer] = await admitMany(after, 1)
  const last = await after.notification(all.at(-1)!)
  assert.ok((await after.notification(newcomer!)).dueAt > last.dueAt, 'the newcomer is the last')
  const second = await after.notification(all[1]!)
  await after.done(after.gateway.gate.cancel('default', all[1]!))
  await after.runFor(1_000)
  assert.equal((await after.notification(all[2]!)).dueAt, second.dueAt, 'the first that waits has the place')
  await after.stop()
})

const caller = { tenant: 'default', module: 'default' }

function draftTo(id: string): Draft {
  const content = { subject: id, text: id }
  return {
    to: { id, email: 'a@example.com' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content,
  }
}

async function admitMany(harness: Harness, count: number): Promise<readonly string[]> {
  const ids: string[] = []
  for (let from = 0; from < count; from += 100) {
    const drafts = Array.from({ length: Math.min(100, count - from) }, (_, index) =>
      draftTo(`${newcomers++}-${index}`),
    )
    for (const result of await harness.done(harness.gateway.gate.admit({ caller, drafts })))
      ids.push(result.notification.id)
  }
  return ids
}
let newcomers = 0

test('a newcomer that asks while the last of a line have not been looked at is booked behind them', async () => {
  const state = createMemoryState({
    clock,
    marginMs: 0,
    recover: () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })
  for (const id of ['1', '2', '3', '4']) await state.reserve([request(id)])
  const freed = await state.cancel([request('2')])
  await state.queueBehind(subject, ['3', '4'])
  await state.resume(freed)
  const [previewed] = await state.preview([request('5')])
  const [newcomer] = await state.reserve([request('5')])
  assert.equal(previewed!.at, 4_000)
  assert.equal(newcomer!.at, 4_000, 'behind the last, though 1,000 is free')
  assert.equal(newcomer!.allowed, false)
  assert.equal(newcomer!.limit, 'all')
  await state.queueBehind(subject, [])
  assert.equal((await state.reserve([request('6')]))[0]!.at, 1_000)
})

const hourly = {
  version: 1,
  maxDelay: '30d',
  limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }],
}

/** Admits a newcomer behind `all`, of whom the second was cancelled: it is answered soon, and stands behind them. */
async function assertNewcomerAnswered(harness: Harness, all: readonly Notification[]): Promise<void> {
  let answeredAt: number | undefined
  const newcomer = harness.gateway.gate.admit({ caller, drafts: [draftTo('ada')] }).then(([admitted]) => {
    answeredAt = harness.clock.now()
    return admitted!.notification.id
  })
  await harness.runFor(10_000)
  assert.ok(answeredAt! <= 500, `answered after ${answeredAt} ms`)
  const dueAt = await Promise.all(all.slice(2).map(async ({ id }) => (await harness.notification(id)).dueAt))
  assert.ok((await harness.notification(await newcomer)).dueAt > dueAt.at(-1)!, 'it stands behind the last')
  assert.equal(dueAt[0], all[1]!.dueAt)
  await harness.stop()
}

test('a newcomer is answered while thirty move up slowly, and stands behind them', async () => {
  const clock = createVirtualClock(0)
  const harness = await createHarness({
    clock,
    policy: hourly,
    parts: {
      wrapState: (state) => ({
        ...state,
        async advance(...asked) {
          await new Promise<void>((resolve) => clock.at(clock.now() + 100, resolve))
          return state.advance(...asked)
        },
      }),
    },
  })
  const all = await harness.postMany(Array.from({ length: 32 }, () => ({})))
  void harness.gateway.gate.cancel('default', all[1]!.id)
  await harness.runFor(50)
  await assertNewcomerAnswered(harness, all)
})

test('a newcomer is answered while the record takes seconds to write the first who move up', async () => {
  const clock = createVirtualClock(0)
  let isSlow = false
  const harness = await createHarness({
    clock,
    policy: hourly,
    wrap: (store) =>
      Object.assign(Object.create(store) as Store, {
        async commit(change: Parameters<Store['commit']>[0]) {
          if (isSlow && change.moves?.some(({ after }) => after.status === 'scheduled') === true)
            await new Promise<void>((resolve) => clock.at(clock.now() + 3_000, resolve))
          return store.commit(change)
        },
      }),
  })
  const all = await harness.postMany(Array.from({ length: 6 }, () => ({})))
  isSlow = true
  void harness.gateway.gate.cancel('default', all[1]!.id)
  await harness.runFor(20)
  await assertNewcomerAnswered(harness, all)
})

for (const before of [0, 1])
  test(`a newcomer takes no place before those who wait for their expiry behind ${before}, however slowly these are looked at`, async () => {
    const clock = createVirtualClock(0)
    const harness = await createHarness({
      clock,
      policy: hourly,
      parts: {
        wrapState: (state) => ({
          ...state,
          async reserve(requests) {
            if (requests.some(({ waited }) => waited === true))
              await new Promise<void>((resolve) => clock.at(clock.now() + 100, resolve))
            return state.reserve(requests)
          },
        }),
      },
    })
    await harness.post()
    for (let count = before; count > 0; count -= 1) await harness.post()
    const booked = await harness.post()
    const doomed = await harness.post({ expiresAt: clock.now() + hour / 2 })
    const rescued = await harness.post({ expiresAt: clock.now() + (before + 1.5) * hour })
    assert.equal((await harness.notification(doomed.id)).undecided, true)
    assert.equal((await harness.notification(rescued.id)).undecided, true)
    void harness.gateway.gate.cancel('default', booked.id)
    await harness.runFor(20)
    const newcomer = harness.gateway.gate.admit({ caller, drafts: [draftTo('ada')] })
    await harness.runFor(2_000)
    assert.equal((await harness.notification(rescued.id)).dueAt, booked.dueAt)
    const [admitted] = await newcomer
    assert.ok((await harness.notification(admitted!.notification.id)).dueAt > booked.dueAt)
    await harness.stop()
  })
