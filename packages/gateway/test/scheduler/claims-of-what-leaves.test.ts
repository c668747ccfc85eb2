/** Whose a notification is on record that leaves at once: its own gateway's, also where that has claimed nothing for long. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { advance } from '../../src/model.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createHarness, second } from '../harness.ts'

/** The gateway `own` over a record that another process has open, too. Its account lets one leave; others wait in its queue. */
async function setUp(more: Parameters<typeof createHarness>[0] = {}) {
  const record = createMemoryRecord(250)
  const pool = { provider: 'sandbox', accounts: [{ id: 'a', rate: '1/min' }] }
  const harness = await createHarness({
    parts: { store: record.open('own') },
    config: { pools: { email: pool, websocket: pool } },
    ...more,
  })
  return { other: record.open('other'), harness }
}

test('nobody else claims what a gateway sends, from its second message after a rest on', async () => {
  const { other, harness } = await setUp()
  // A gateway that believes itself alone, with nothing due, reads the record once a minute.
  await harness.runFor(30 * second)
  await harness.post({ recipient: 'first' })
  await harness.runFor(1)
  const next = await Promise.all(['ada', 'ben', 'cleo'].map((recipient) => harness.post({ recipient })))
  const claimed = await other.claimDue(harness.clock.now(), 10)
  assert.deepEqual(
    claimed.filter(({ id }) => next.some((each) => each.id === id)),
    [],
  )
  await harness.runFor(300 * second)
  for (const { id } of next) assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.stop()
})

test('a claim replaces the copy of a notification that another gateway has moved to an earlier instant', async () => {
  const { other, harness } = await setUp({ config: {}, policy: { version: 1, limits: [] } })
  const start = harness.clock.now()
  const { id } = await harness.post({ recipient: 'ada', sendAt: start + 1_900 })
  // Due behind the lookahead of now: the record is read once more before that.
  await harness.post({ recipient: 'ben', sendAt: start + 2_600 })
  await harness.runFor(100)
  const before = (await other.notification('default', id))!
  const event = { at: harness.clock.now(), status: 'scheduled' as const }
  const move = advance(before, [event], { dueAt: start + 1_000 })
  assert.deepEqual(await other.commit({ moves: [move] }), { applied: true })
  await harness.runFor(5 * second)
  const { status, timeline } = await harness.notification(id)
  assert.equal(status, 'delivered')
  const released = timeline.find((each) => each.status === 'queued')
  assert.equal(released?.at, start + 1_000, 'it is released at the earlier instant')
  await harness.stop()
})

test('a claim replaces the copy in the queue of a notification that another gateway has put off', async () => {
  const { other, harness } = await setUp({ policy: { version: 1, limits: [] } })
  await harness.post({ recipient: 'first' })
  const { id } = await harness.post({ recipient: 'ada' })
  await harness.runFor(10 * second)
  // As where it is quiet for its recipient from now on: until then it waits for the account.
  const before = (await other.notification('default', id))!
  const event = { at: harness.clock.now(), status: 'scheduled' as const }
  const move = advance(before, [event], { dueAt: harness.start + 40 * second })
  assert.deepEqual(await other.commit({ moves: [move] }), { applied: true })
  await harness.runUntil(harness.start + 61 * second)
  assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.stop()
})
