/** Limits of several recipients together know after a restart of notifications that were accepted long before they left. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createHarness, day, type Harness, hour, minute, second } from '../harness.ts'

const policy = {
  version: 1,
  maxDelay: '1d',
  limits: [{ name: 'author', for: 'any', per: ['actor'], max: ['1/h'], over: 'delay' }],
}

/** A gateway that has accepted a message of an author, further ahead than `maxDelay` and the window. */
async function scheduleFarAhead(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const options = { file: join(folder, 'sluice.db'), policy }
  const harness = await createHarness(options)
  const sendAt = harness.start + 2 * day
  const { id } = await harness.post({ recipient: 'bob', actor: 'eve', sendAt })
  const restart = async (start: number): Promise<Harness> => {
    await harness.stop()
    return createHarness({ ...options, start })
  }
  return { harness, id, sendAt, restart }
}

test('a limit of an author counts after a restart what was accepted long before it left, at its sendAt', async (t) => {
  const { harness, id, sendAt, restart } = await scheduleFarAhead(t)
  await harness.runUntil(sendAt + second)
  assert.deepEqual(
    harness.sent().map((sent) => [sent.id, sent.at]),
    [[id, sendAt]],
  )
  const restarted = await restart(sendAt + minute)
  const { decision, dueAt } = await restarted.post({ recipient: 'ada', actor: 'eve' })
  assert.deepEqual([decision.reason, dueAt], ['recipient_limit', sendAt + hour + 20])
  await restarted.stop()
})

test('a limit of an author keeps after a restart the instant of what was accepted long before', async (t) => {
  const { harness, sendAt, restart } = await scheduleFarAhead(t)
  await harness.runUntil(sendAt - hour)
  const restarted = await restart(sendAt - 30 * minute)
  // In the same window: it comes behind the one that was promised its instant two days ago.
  const { dueAt } = await restarted.post({ recipient: 'ada', actor: 'eve' })
  assert.equal(dueAt, sendAt + hour + 20)
  await restarted.stop()
})
