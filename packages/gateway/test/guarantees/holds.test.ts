/** Notifications that an operator stopped: none leaves before the end, and then all do, in order and within the limits. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createHarness, day, hour, minute, second } from '../harness.ts'

const unlimited = { version: 1, limits: [] }
const twoADay = { version: 1, limits: [{ name: 'two', for: 'any', max: ['2/day'], over: 'delay' }] }

test('a notification of a held category waits for the end of the hold, others leave at once', async () => {
  const harness = await createHarness({ policy: unlimited })
  const { gateway, start } = harness
  const until = start + hour
  await harness.done(gateway.holds.put({ name: 'quiet', category: 'marketing', until, reason: 'r' }))
  const held = await harness.post({ category: 'marketing', priority: 'critical' })
  const other = await harness.post({ category: 'product' })
  assert.deepEqual(
    [held.status, held.decision.outcome, held.decision.reason, held.decision.at],
    ['scheduled', 'delay', 'held', until],
  )
  assert.equal(other.decision.outcome, 'send')
  await harness.runUntil(until - 1)
  assert.deepEqual(
    harness.sent().map(({ id }) => id),
    [other.id],
  )
  await harness.runUntil(until + second)
  assert.deepEqual(
    harness
      .sent()
      .map(({ id, at }) => [id, at >= until])
      .at(-1),
    [held.id, true],
  )
  await harness.check()
  await harness.stop()
})

test('a hold selects by tenant, channel and category together', async () => {
  const harness = await createHarness({ policy: unlimited })
  const { gateway, start } = harness
  const until = start + hour
  const hold = {
    name: 'h',
    tenant: 'acme',
    channel: 'sms',
    category: 'marketing',
    until,
    reason: 'r',
  } as const
  await harness.done(gateway.holds.put(hold))
  const acme = { tenant: 'acme', module: 'm' }
  const reasons = [
    await harness.post({ channel: 'sms', category: 'marketing' }, acme),
    await harness.post({ channel: 'sms', category: 'marketing' }),
    await harness.post({ channel: 'email', category: 'marketing' }, acme),
    await harness.post({ channel: 'sms', category: 'product' }, acme),
  ].map(({ decision }) => decision.reason)
  assert.deepEqual(reasons, ['held', undefined, undefined, undefined])
  await harness.stop()
})

test('what waited before a hold is stopped by it, and leaves after it in the order of acceptance', async () => {
  const harness = await createHarness({ policy: twoADay })
  const { gateway, start } = harness
  // Booked within the hold: at once, and a day later.
  const first = await harness.post({ sendAt: start + 10 * minute })
  const second2 = await harness.post({ sendAt: start + 20 * minute })
  const until = start + 2 * hour
  await harness.done(gateway.holds.put({ name: 'all', until, reason: 'r' }))
  await harness.runFor(second)
  const third = await harness.post()
  const moved = await harness.notification(first.id)
  assert.deepEqual([moved.status, moved.dueAt, moved.timeline.at(-1)?.reason], ['scheduled', until, 'held'])
  await harness.runUntil(until - 1)
  assert.deepEqual(harness.sent(), [])
  await harness.runUntil(until + minute)
  assert.deepEqual(
    harness.sent().map(({ id }) => id),
    [first.id, second2.id],
  )
  await harness.runUntil(until + day + minute)
  assert.deepEqual(
    harness.sent().map(({ id }) => id),
    [first.id, second2.id, third.id],
  )
  await harness.check()
  await harness.stop()
})

test('a newcomer is decided behind those whom the walk of a hold has not reached yet', async () => {
  for (const ahead of ['one', 'many'] as const) {
    // The walk cannot read the record before the newcomer has been decided.
    const { promise: read, resolve: letRead } = Promise.withResolvers<void>()
    let isHeldUp = false
    const harness = await createHarness({
      policy: { version: 1, limits: [{ name: 'one', for: 'any', max: ['1/day'], over: 'delay' }] },
      wrap: (store) => ({
        ...store,
        mayHave: store.mayHave,
        async scan(query) {
          if (isHeldUp) await read
          return store.scan(query)
        },
      }),
    })
    const { gateway, start } = harness
    const waiting = [await harness.post({ sendAt: start + 10 * minute })]
    if (ahead === 'many')
      for (let count = 0; count < 3; count += 1) waiting.push(await harness.post({ sendAt: start + hour }))
    const until = start + 2 * hour
    isHeldUp = true
    await harness.done(gateway.holds.put({ name: 'all', category: 'product', until, reason: 'r' }))
    const newcomer = await harness.post()
    const other = await harness.post({ category: 'billing' })
    assert.equal((await harness.notification(waiting[0]!.id)).timeline.at(-1)?.reason, 'held')
    letRead()
    await harness.runFor(minute)
    const dues = []
    for (const { id } of [...waiting, newcomer, other]) dues.push((await harness.notification(id)).dueAt)
    if (ahead === 'one') assert.equal(dues[0], until)
    assert.deepEqual(
      dues,
      dues.toSorted((a, b) => a - b),
      ahead,
    )
    await harness.runFor(7 * day)
    assert.deepEqual(
      harness.sent().map(({ id }) => id),
      [...waiting, newcomer, other].map(({ id }) => id),
    )
    await harness.check()
    await harness.stop()
  }
})

test('a hold that ends early lets the earliest accepted go first, within the limit', async () => {
  for (const policy of [twoADay, unlimited]) {
    const harness = await createHarness({ policy })
    const { gateway, start } = harness
    await harness.done(gateway.holds.put({ name: 'all', until: start + 5 * hour, reason: 'r' }))
    const posted = []
    for (let count = 0; count < 4; count += 1) posted.push((await harness.post()).id)
    await harness.runFor(hour)
    assert.equal(await harness.done(gateway.holds.end('all')), true)
    await harness.runFor(second)
    const atOnce = policy === twoADay ? 2 : 4
    assert.deepEqual(
      harness.sent().map(({ id }) => id),
      posted.slice(0, atOnce),
    )
    await harness.runFor(day)
    assert.deepEqual(
      harness.sent().map(({ id }) => id),
      posted,
    )
    await harness.check()
    await harness.stop()
  }
})

test('a shorter or narrower hold lets go what it stops no more', async () => {
  const harness = await createHarness({ policy: unlimited })
  const { gateway, start } = harness
  const hold = { name: 'all', until: start + 5 * hour, reason: 'r' }
  await harness.done(gateway.holds.put(hold))
  const product = await harness.post({ category: 'product' })
  const marketing = await harness.post({ category: 'marketing' })
  await harness.done(gateway.holds.put({ ...hold, category: 'marketing' }))
  await harness.runFor(second)
  assert.deepEqual(
    harness.sent().map(({ id }) => id),
    [product.id],
  )
  await harness.done(gateway.holds.put({ ...hold, category: 'marketing', until: start + hour }))
  await harness.runFor(second)
  assert.equal((await harness.notification(marketing.id)).dueAt, start + hour)
  await harness.runUntil(start + hour + second)
  assert.deepEqual(
    harness.sent().map(({ id }) => id),
    [product.id, marketing.id],
  )
  await harness.stop()
})

test('one that expires within a hold expires, unless the hold ends early', async () => {
  const harness = await createHarness({ policy: twoADay })
  const { gateway, start } = harness
  await harness.done(gateway.holds.put({ name: 'all', until: start + 5 * hour, reason: 'r' }))
  const gone = await harness.post({ expiresAt: start + hour })
  const saved = await harness.post({ recipient: 'bob', expiresAt: start + 3 * hour })
  assert.deepEqual([gone.status, gone.decision.reason], ['scheduled', 'held'])
  await harness.runUntil(start + 2 * hour)
  assert.equal((await harness.notification(gone.id)).status, 'expired')
  await harness.done(gateway.holds.end('all'))
  await harness.runFor(second)
  assert.equal((await harness.notification(saved.id)).status, 'delivered')
  await harness.stop()
})

test('one that its limits would admit behind a hold after its expiry waits for that', async () => {
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'one', for: 'any', max: ['1/h'], over: 'delay' }] },
  })
  const { gateway, start } = harness
  const until = start + 2 * hour
  await harness.done(gateway.holds.put({ name: 'all', until, reason: 'r' }))
  await harness.post()
  const { dueAt, undecided } = await harness.post({ expiresAt: until + 10 * minute })
  assert.deepEqual([dueAt, undecided], [until + 10 * minute, true])
  await harness.stop()
})

test('a hold longer than the policy lets anything wait suppresses nothing', async () => {
  const harness = await createHarness({ policy: { ...twoADay, maxDelay: '1h' } })
  const { gateway, start } = harness
  await harness.done(gateway.holds.put({ name: 'all', until: start + 5 * hour, reason: 'r' }))
  const { status, dueAt } = await harness.post()
  assert.deepEqual([status, dueAt], ['scheduled', start + 5 * hour])
  await harness.runUntil(start + 5 * hour + second)
  assert.equal(harness.sent().length, 1)
  await harness.stop()
})

test('a hold outlives a restart, and so does its early end', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-holds-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'sluice.db')
  const first = await createHarness({ policy: unlimited, file })
  const until = first.start + 5 * hour
  await first.done(first.gateway.holds.put({ name: 'all', until, reason: 'r' }))
  const { id } = await first.post()
  await first.stop()
  const second2 = await createHarness({ policy: unlimited, file, start: first.start + hour })
  assert.deepEqual(second2.gateway.holds.list(), [{ name: 'all', until, reason: 'r', since: first.start }])
  assert.equal((await second2.post()).decision.reason, 'held')
  await second2.runFor(minute)
  assert.deepEqual(second2.sent(), [])
  await second2.done(second2.gateway.holds.end('all'))
  await second2.runFor(second)
  assert.deepEqual(second2.sent().map((each) => each.id)[0], id)
  assert.equal(second2.sent().length, 2)
  await second2.stop()
  const third = await createHarness({ policy: unlimited, file, start: first.start + 2 * hour })
  assert.deepEqual(third.gateway.holds.list(), [])
  await third.stop()
})

test('a hold that comes between the limits and the call stops that call', async () => {
  let meanwhile = async (): Promise<void> => {}
  const harness = await createHarness({
    policy: twoADay,
    parts: {
      wrapState: (state) => ({
        ...state,
        async fire(requests) {
          const answer = await state.fire(requests)
          await meanwhile()
          return answer
        },
      }),
    },
  })
  const { gateway, start } = harness
  const until = start + hour
  meanwhile = async () => {
    meanwhile = async () => {}
    void gateway.holds.put({ name: 'all', until, reason: 'r' })
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve()
    assert.equal(gateway.holds.list().length, 1)
  }
  const { id } = await harness.post()
  await harness.runFor(second)
  assert.deepEqual(harness.sent(), [])
  const held = await harness.notification(id)
  assert.deepEqual([held.status, held.dueAt, held.timeline.at(-1)?.reason], ['scheduled', until, 'held'])
  await harness.runUntil(until + second)
  assert.equal(harness.sent().length, 1)
  await harness.check()
  await harness.stop()
})
