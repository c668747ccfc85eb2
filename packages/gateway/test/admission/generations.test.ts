/**
 * Limiter state that is lost and filled again between a decision and its commit: the store refuses the change, because
 * the fill could not read it, and the gate decides again in the newest generation.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Draft } from '../../src/model.ts'
import type { ThrottleRequest } from '../../src/ports/tenants.ts'
import type { TenantGeneration } from '../../src/ports.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createHarness, minute, second } from '../harness.ts'

const tenant = 'default'
const caller = { tenant, module: 'default' }

/**
 * A gateway whose throttle queues and room bear generations. `loseAfter` names the questions behind which a value is lost
 * and filled again: `pass 1` is the first `pass`.
 */
async function gatewayThatLoses(
  loseAfter: Readonly<Record<string, TenantGeneration['state']>>,
  rate = '100/min',
) {
  const record = createMemoryRecord(250)
  const newest = { throttle: 1, room: 1 }
  for (const value of ['throttle', 'room'] as const) record.nextGeneration(tenant, value)
  const asked = new Map<string, number>()
  async function lose(question: string): Promise<void> {
    const times = (asked.get(question) ?? 0) + 1
    asked.set(question, times)
    const of = loseAfter[`${question} ${times}`]
    if (of !== undefined) newest[of] = record.nextGeneration(tenant, of)
  }
  const harness = await createHarness({
    config: { tenants: { default: { rate, modules: 'unlimited', queue: 50 } } },
    parts: {
      store: record.open('a'),
      wrapThrottle: (state) => ({
        ...state,
        async pass(of, requests: readonly ThrottleRequest[]) {
          const generation = newest.throttle
          const passed = await state.pass(of, requests)
          await lose('pass')
          return passed && { ...passed, places: passed.places.map((place) => ({ ...place, generation })) }
        },
        async turn(of, requests) {
          const generation = newest.throttle
          const turns = await state.turn(of, requests)
          await lose('turn')
          return turns.map((turn) => ({ ...turn, generation }))
        },
      }),
      wrapRoom: (state) => ({
        ...state,
        async take(of, room, bounds) {
          const generation = newest.room
          const taken = await state.take(of, room, bounds)
          await lose('take')
          return 'full' in taken ? taken : { ...taken, generation }
        },
      }),
    },
  })
  return { harness, asked }
}

for (const [lost, of] of [
  ['pass 1', 'throttle'],
  ['take 1', 'room'],
] as const)
  test(`an acceptance whose ${of} was lost before its commit is decided again, and counts once`, async () => {
    const { harness, asked } = await gatewayThatLoses({ [lost]: of }, '2/min')
    const { status } = await harness.post()
    assert.equal(status, 'queued')
    assert.deepEqual([asked.get('pass'), asked.get('take')], [2, 2])
    assert.equal(
      (await harness.post({ recipient: 'bob' })).status,
      'queued',
      'the refused try does not count',
    )
    assert.equal((await harness.post({ recipient: 'eve' })).decision.reason, 'tenant_limit')
    await harness.runFor(second)
    assert.equal(harness.sent().length, 2)
    assert.equal(harness.gateway.ledger.occupancy(tenant).queue, 1, 'the one that waits')
    await harness.check()
    await harness.stop()
  })

test('a turn whose throttle queue was lost before its commit is taken again, and nothing leaves before that', async () => {
  const { harness, asked } = await gatewayThatLoses({ 'turn 1': 'throttle' }, '1/min')
  await harness.post()
  const other = await harness.post({ recipient: 'bob' })
  assert.equal(other.decision.reason, 'tenant_limit')
  await harness.runFor(minute + 5 * second)
  assert.equal(asked.get('turn'), 2)
  assert.deepEqual(
    harness.sent().map(({ recipient }) => recipient),
    ['ada', 'bob'],
  )
  await harness.check()
  await harness.stop()
})

test('a job whose room was lost before its commit is opened in the newest room', async () => {
  const { harness, asked } = await gatewayThatLoses({ 'take 1': 'room' })
  const message: Omit<Draft, 'to'> = {
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: { subject: 'Hello', text: 'Hello' },
  }
  const recipients = ['ada', 'bob'].map((id) => ({ id, email: `${id}@example.com` }))
  const job = await harness.done(
    harness.gateway.jobs.open({ caller, work: { message, recipients }, refused: [] }),
  )
  assert.equal(asked.get('take')! >= 2, true)
  await harness.runFor(5 * second)
  assert.equal(job.total, 2)
  assert.equal(harness.sent().length, 2)
  await harness.stop()
})

test('a state that is lost before each commit is answered with an error, and nothing is accepted', async () => {
  const always = Object.fromEntries(
    Array.from({ length: 20 }, (_, n) => [`pass ${n + 1}`, 'throttle' as const]),
  )
  const { harness } = await gatewayThatLoses(always)
  await assert.rejects(harness.post(), { code: 'STORE_UNAVAILABLE' })
  assert.equal(harness.gateway.ledger.occupancy(tenant).queue, 0)
  await harness.stop()
})
