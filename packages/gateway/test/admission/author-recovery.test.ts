/** Limits of several recipients together know after a restart of notifications that were accepted long before they left. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createHarness, day, hour, minute, second } from '../harness.ts'

const policy = {
  version: 1,
  maxDelay: '1d',
  limits: [{ name: 'author', for: 'any', per: ['actor'], max: ['1/h'], over: 'delay' }],
}

test('a limit of an author counts after a restart what was accepted long before it left, at its sendAt', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const options = { file: join(folder, 'sluice.db'), policy }
  const harness = await createHarness(options)
  const sendAt = harness.start + 10 * day
  const { id } = await harness.post({ recipient: 'bob', actor: 'eve', sendAt })
  await harness.runUntil(sendAt + second)
  assert.deepEqual(
    harness.sent().map(({ id, at }) => [id, at]),
    [[id, sendAt]],
  )
  await harness.stop()
  const restarted = await createHarness({ ...options, start: sendAt + minute })
  const { decision, dueAt } = await restarted.post({ recipient: 'ada', actor: 'eve' })
  assert.deepEqual([decision.reason, dueAt], ['recipient_limit', sendAt + hour + 20])
  await restarted.stop()
})

test('a limit of an author keeps after a restart the instant of what was accepted long before', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const options = { file: join(folder, 'sluice.db'), policy }
  const harness = await createHarness(options)
  const sendAt = harness.start + 10 * day
  await harness.post({ recipient: 'bob', actor: 'eve', sendAt })
  await harness.runUntil(sendAt - hour)
  await harness.stop()
  const restarted = await createHarness({ ...options, start: sendAt - 30 * minute })
  // In the same window: it comes behind the one that was promised its instant ten days ago.
  const { dueAt } = await restarted.post({ recipient: 'ada', actor: 'eve' })
  assert.equal(dueAt, sendAt + hour + 20)
  await restarted.stop()
})
