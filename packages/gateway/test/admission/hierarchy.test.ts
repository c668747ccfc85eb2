import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, second } from '../harness.ts'

const policy = (over: string) => ({
  version: 1,
  limits: [
    { name: 'category', for: { category: 'product' }, max: ['3/60s'], over },
    { name: 'global', for: 'any', max: ['10/60s'], over },
  ],
})

test('a category limit of 3 within a limit of 10 sends 3 of ten and refuses 7, which consume nothing of the other limit', async () => {
  const harness = await createHarness({ policy: policy('drop') })
  const statuses: string[] = []
  for (let attempt = 0; attempt < 10; attempt += 1) statuses.push((await harness.post()).status)
  assert.deepEqual(statuses, [...Array(3).fill('queued'), ...Array(7).fill('suppressed')])
  await harness.runFor(second)
  assert.equal(harness.sent().length, 3)
  const usage = await harness.done(harness.gateway.gate.usage('default', 'ada'))
  assert.deepEqual(
    usage.map(({ limit, used, remaining }) => ({ limit, used, remaining })),
    [
      { limit: 'category', used: 3, remaining: 0 },
      { limit: 'global', used: 3, remaining: 7 },
    ],
  )
  await harness.check()
  await harness.stop()
})

test('the same limits with a delay send all notifications, at most 3 in any minute', async () => {
  const harness = await createHarness({ policy: policy('delay') })
  for (let attempt = 0; attempt < 10; attempt += 1) await harness.post()
  await harness.runFor(181 * second)
  const instants = harness.sent().map((message) => message.at - harness.start)
  assert.deepEqual(instants, [0, 0, 0, 60_020, 60_020, 60_020, 120_040, 120_040, 120_040, 180_060])
  await harness.check()
  await harness.stop()
})
