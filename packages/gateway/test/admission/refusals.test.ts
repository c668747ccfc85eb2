/** Limits with `countRefused`: refused attempts count too, also after a restart. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createHarness, hour, minute } from '../harness.ts'

const policyOf = (countRefused: boolean) => ({
  version: 1,
  limits: [
    { name: 'codes', for: { category: 'security' }, max: ['2/h'], over: 'drop', countRefused },
    { name: 'everything', for: 'any', max: ['100/h'] },
  ],
})

for (const countRefused of [false, true]) {
  test(`refused attempts ${countRefused ? 'count with countRefused' : 'do not count without countRefused'}`, async () => {
    const harness = await createHarness({ policy: policyOf(countRefused) })
    const post = async () => (await harness.post({ category: 'security' })).status
    assert.deepEqual([await post(), await post()], ['queued', 'queued'])
    await harness.runFor(50 * minute)
    assert.deepEqual([await post(), await post()], ['suppressed', 'suppressed'])
    // The two that were sent have left the window; the two that were refused ten minutes later have not.
    await harness.runFor(15 * minute)
    assert.equal(await post(), countRefused ? 'suppressed' : 'queued')
    const usage = await harness.done(harness.gateway.gate.usage('default', 'ada'))
    const everything = usage.find(({ limit }) => limit === 'everything')
    assert.equal(everything?.used, countRefused ? 0 : 1, 'other limits count what leaves')
    await harness.check()
    await harness.stop()
  })
}

test('refused attempts count after a restart, and a dry run counts nothing', async () => {
  const file = join(tmpdir(), `refusals-${process.pid}.db`)
  const first = await createHarness({ policy: policyOf(true), file })
  const draft = { category: 'security' }
  for (let count = 0; count < 2; count += 1) assert.equal((await first.post(draft)).status, 'queued')
  await first.runFor(50 * minute)
  for (let count = 0; count < 2; count += 1) assert.equal((await first.post(draft)).status, 'suppressed')
  await first.stop()

  const second = await createHarness({ policy: policyOf(true), file, start: first.start + 65 * minute })
  const used = async () => {
    const usage = await second.done(second.gateway.gate.usage('default', 'ada'))
    return usage.find(({ limit }) => limit === 'codes')?.used
  }
  assert.equal(await used(), 2)
  const refused = await second.post(draft)
  assert.equal(refused.status, 'suppressed')
  assert.equal(await used(), 3)
  const { to, channel, category, content } = refused
  const asked = { to, channel, category, priority: 'normal', content, attempts: 0 } as never
  const caller = { tenant: 'default', module: 'default' } as never
  const { decision } = await second.done(second.gateway.gate.preview(caller, asked))
  assert.equal(decision.outcome, 'suppress')
  assert.equal(await used(), 3, 'a dry run consumes nothing')
  await second.runFor(hour + minute)
  assert.equal(
    (await second.post(draft)).status,
    'queued',
    'a recipient is admitted again after the attempts stop',
  )
  await second.stop()
  rmSync(file, { force: true })
})

test('a refusal whose commit fails is not counted', async () => {
  let fails = false
  const harness = await createHarness({
    policy: policyOf(true),
    wrap: (store) => ({
      ...store,
      commit: (change) => (fails ? Promise.reject(new Error('disk')) : store.commit(change)),
    }),
  })
  const draft = { category: 'security' }
  for (let count = 0; count < 2; count += 1) await harness.post(draft)
  await harness.runFor(50 * minute)
  fails = true
  await assert.rejects(harness.post(draft))
  fails = false
  await harness.runFor(15 * minute)
  assert.equal((await harness.post(draft)).status, 'queued')
  await harness.stop()
})

test('countRefused belongs to a limit that drops, and is true or false', async () => {
  for (const wrong of [
    { over: 'delay', countRefused: true },
    { over: 'drop', countRefused: 'yes' },
  ]) {
    const policy = { version: 1, limits: [{ name: 'codes', for: 'any', max: ['2/h'], ...wrong }] }
    await assert.rejects(createHarness({ policy }), /limits\[0\]\.countRefused/)
  }
})
