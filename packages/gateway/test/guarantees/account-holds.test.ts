/** Accounts that an operator holds, all of a channel: its notifications wait for them, and none becomes a dead letter. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, hour, minute, second } from '../harness.ts'

const policy = { version: 1, limits: [{ name: 'two', for: 'any', max: ['2/day'], over: 'delay' }] }
const config = {
  pools: { email: { provider: 'sandbox', shedAfter: '5s', accounts: [{ id: 'a' }, { id: 'b' }] } },
}

async function start() {
  const harness = await createHarness({ policy, config })
  const { gateway } = harness
  const hold = (account: string, until: number) =>
    harness.done(
      gateway.holds.put({ name: `email/${account}`, channel: 'email', account, until, reason: 'r' }),
    )
  const stateOf = async (id: string) => {
    const { status, dueAt, timeline } = await harness.notification(id)
    return [status, dueAt, timeline.at(-1)?.reason]
  }
  return { harness, gateway, hold, stateOf, start: harness.start }
}

test('notifications wait as held where an operator holds every account, and leave when the first is back', async () => {
  const { harness, hold, stateOf, start: from } = await start()
  await hold('a', from + 2 * hour)
  await hold('b', from + hour)
  const posted = [await harness.post(), await harness.post(), await harness.post({ recipient: 'bob' })]
  await harness.runFor(minute)
  for (const { id } of posted) assert.deepEqual(await stateOf(id), ['scheduled', from + hour, 'held'])
  assert.deepEqual([harness.counts().dead, harness.sent().length], [0, 0])
  await harness.runUntil(from + hour - 1)
  assert.equal(harness.sent().length, 0)
  await harness.runUntil(from + hour + second)
  assert.deepEqual(
    harness.sent().map(({ id, account }) => [id, account]),
    posted.map(({ id }) => [id, 'b']),
  )
  await harness.check()
  await harness.stop()
})

test('notifications that wait for held accounts leave in order when one is put back before its time', async () => {
  const { harness, gateway, hold, start: from } = await start()
  for (const account of ['a', 'b']) await hold(account, from + 5 * hour)
  const posted = [await harness.post(), await harness.post(), await harness.post({ recipient: 'bob' })]
  await harness.runFor(minute)
  assert.equal(await harness.done(gateway.holds.end('email/a')), true)
  await harness.runFor(second)
  assert.deepEqual(
    harness.sent().map(({ id, account }) => [id, account]),
    posted.map(({ id }) => [id, 'a']),
  )
  await harness.check()
  await harness.stop()
})

test('a hold of the last account that is made shorter brings its notifications forward', async () => {
  const { harness, hold, stateOf, start: from } = await start()
  for (const account of ['a', 'b']) await hold(account, from + 5 * hour)
  const { id } = await harness.post()
  await harness.runFor(minute)
  assert.deepEqual(await stateOf(id), ['scheduled', from + 5 * hour, 'held'])
  await hold('b', from + 10 * minute)
  await harness.runFor(minute)
  assert.deepEqual(await stateOf(id), ['scheduled', from + 10 * minute, 'held'])
  await harness.runUntil(from + 10 * minute + second)
  assert.equal(harness.sent().length, 1)
  await harness.stop()
})

test('one that would expire before a held account is back expires', async () => {
  const { harness, hold, start: from } = await start()
  for (const account of ['a', 'b']) await hold(account, from + 5 * hour)
  const { id } = await harness.post({ expiresAt: from + hour })
  await harness.runFor(2 * hour)
  assert.equal((await harness.notification(id)).status, 'expired')
  await harness.check()
  await harness.stop()
})
