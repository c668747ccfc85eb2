/** A reload announces its policy to the other gateways before the policy comes into force, in virtual time. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createOneMember } from '../../src/adapters/one-process.ts'
import { createHarness, type Harness } from '../harness.ts'

const before = { version: 1, limits: [] }
const after = {
  version: 1,
  limits: [{ name: 'mail', for: { channel: 'email' }, max: ['1/min'], over: 'drop' }],
}

const alone = createOneMember({ id: () => 'a' }, { now: () => 0 })

/** The version of the policy by which a notification is decided now. */
const versionInForce = async (harness: Harness): Promise<string> =>
  (await harness.post()).decision.policyVersion

test('a reload announces its policy before it is in force, and one that changes no policy announces none', async () => {
  const seen: { readonly announced: string; readonly inForce: string }[] = []
  const announcePolicy = async (announced: string): Promise<void> => {
    seen.push({ announced, inForce: await versionInForce(harness) })
  }
  const harness = await createHarness({ policy: before, parts: { members: { ...alone, announcePolicy } } })
  const first = await versionInForce(harness)
  await harness.done(harness.reload(before))
  await harness.done(harness.reload(after))
  assert.deepEqual(seen, [{ announced: await versionInForce(harness), inForce: first }])
  assert.notEqual(seen[0]!.announced, first)
  await harness.stop()
})

test('reloads at the same time come into force one after the other, each announced before', async () => {
  const seen: { readonly announced: string; readonly inForce: string }[] = []
  const announcePolicy = async (announced: string): Promise<void> => {
    seen.push({ announced, inForce: await versionInForce(harness) })
  }
  const harness = await createHarness({ policy: before, parts: { members: { ...alone, announcePolicy } } })
  await harness.done(Promise.all([harness.reload(after), harness.reload(before)]))
  const [first, second] = seen
  assert.deepEqual(second, { announced: first!.inForce, inForce: first!.announced })
  assert.equal(await versionInForce(harness), first!.inForce)
  await harness.stop()
})

test('a stop waits for the reload that is under way, and refuses the next one', async () => {
  const released = Promise.withResolvers<void>()
  const announcePolicy = (): Promise<void> => released.promise
  const harness = await createHarness({ policy: before, parts: { members: { ...alone, announcePolicy } } })
  const ended: string[] = []
  const reloaded = harness.reload(after).then(() => ended.push('reload'))
  await harness.clock.settle()
  const stopped = harness.stop().then(() => ended.push('stop'))
  const refused = assert.rejects(harness.reload(before), /stops/)
  await harness.clock.settle()
  assert.deepEqual(ended, [])
  released.resolve()
  await Promise.all([reloaded, stopped, refused])
  assert.deepEqual(ended, ['reload', 'stop'])
})

test('a reload whose policy cannot be announced is refused, and may come again', async () => {
  let isAway = true
  const announcePolicy = async (): Promise<void> => {
    if (isAway) throw new Error('PostgreSQL is away')
  }
  const harness = await createHarness({ policy: before, parts: { members: { ...alone, announcePolicy } } })
  const first = await versionInForce(harness)
  await assert.rejects(harness.done(harness.reload(after)), /is away/)
  assert.equal(await versionInForce(harness), first)
  isAway = false
  await harness.done(harness.reload(after))
  assert.notEqual(await versionInForce(harness), first)
  await harness.stop()
})
