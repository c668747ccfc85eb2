/** Notifications that left the queue because no account could carry them, where the answer to that commit comes late. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Status } from '../../src/model.ts'
import type { Store } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createHarness, hour, minute, second } from '../harness.ts'
import { createScripted, delivered, throttled } from './scripted.ts'

const lateMs = 2 * minute

/** A recipient may have one an hour; each move of `ada` to the state is answered two minutes late. */
async function answeringLate(status: Status, answer: Parameters<typeof createScripted>[0]) {
  const clock = createVirtualClock(Date.UTC(2026, 10, 21, 12))
  const wrap = (store: Store): Store =>
    Object.assign(Object.create(store) as Store, {
      async commit(change: Parameters<Store['commit']>[0]) {
        const result = await store.commit(change)
        if (change.moves?.some(({ after }) => after.status === status && after.to.id === 'ada'))
          await new Promise<void>((resolve) => clock.at(clock.now() + lateMs, resolve))
        return result
      },
    })
  const { provider, calls } = createScripted(answer)
  const harness = await createHarness({
    clock,
    policy: { version: 1, limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }] },
    config: {
      pools: {
        email: { provider: 'sandbox', shedAfter: '5s', accounts: [{ id: 'a' }] },
        websocket: { provider: 'sandbox' },
      },
    },
    parts: { providers: [provider] },
    wrap,
  })
  const isKeptToOne = async (): Promise<void> => {
    await harness.runFor(lateMs)
    await harness.post()
    await harness.runFor(minute)
    assert.equal(calls.filter(({ message }) => message.to.id === 'ada').length, 1, 'one an hour')
    await harness.check()
    await harness.stop()
  }
  return { harness, isKeptToOne }
}

test('a dead letter that is redriven before its burial is answered counts in the limits', async () => {
  const once = (number: number) => (number === 1 ? throttled('60') : delivered)
  const { harness, isKeptToOne } = await answeringLate('dead', once)
  await harness.post({ recipient: 'eve' })
  await harness.runFor(second)
  const { id } = await harness.post()
  await harness.runUntil(harness.start + 58 * second)
  assert.equal((await harness.notification(id)).status, 'dead')
  assert.equal((await harness.done(harness.gateway.gate.redrive({ ids: [id] }))).redriven, 1)
  await harness.runFor(4 * second)
  assert.equal((await harness.notification(id)).status, 'delivered')
  await isKeptToOne()
})

test('one that waited for a held account counts in the limits if the hold ends before that is answered', async () => {
  const { harness, isKeptToOne } = await answeringLate('scheduled', () => delivered)
  const { holds } = harness.gateway
  const hold = { name: 'email/a', channel: 'email', account: 'a', reason: 'r' } as const
  await harness.done(holds.put({ ...hold, until: harness.start + hour }))
  const { id } = await harness.post()
  await harness.runFor(minute)
  assert.equal((await harness.notification(id)).status, 'scheduled')
  await harness.done(holds.end(hold.name))
  await harness.runFor(second)
  assert.equal((await harness.notification(id)).status, 'delivered')
  await isKeptToOne()
})
