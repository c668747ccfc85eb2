/**
 * Two gateways over one record in memory, in virtual time, of which the first lacks a template of the second: what is to be
 * rendered with it is the other's, and fails only when no gateway has had it for ten minutes.
 */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createHarness, type Harness, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'
import { during, type TwoProcessesOptions, twoProcesses } from './two-processes.ts'

const policy = { version: 1, limits: [] }
const shipped = { template: 'shipped', data: { n: 1 } }
const shippedParts = ['shipped/subject', 'shipped/text']
const slow = { pools: { email: { provider: 'sandbox', accounts: [{ id: 'main', rate: '2/s' }] } } }

/** A folder of templates; each name is that of a part with its template. */
function folderOf(t: TestContext, ...parts: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-templates-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  for (const part of parts) add(folder, part)
  return folder
}

function add(folder: string, part: string): void {
  const [template = ''] = part.split('/')
  mkdirSync(join(folder, template), { recursive: true })
  writeFileSync(join(folder, `${part}.liquid`), `${template} {{ data.n }}`)
}

/** Two processes, of which the second has the template `shipped` besides; a third one is like the second. */
async function rollout(t: TestContext, options: TwoProcessesOptions = {}) {
  const folder = folderOf(t)
  const newer = folderOf(t, ...shippedParts)
  /** How often the first process has claimed something, and has given something back. */
  const counts = { claimed: 0, released: 0 }
  const turn = { ofOthers: 0 }
  const processes = await twoProcesses({
    policy,
    config: { templates: newer },
    configOfFirst: { templates: folder },
    wrapStore: (store, id) =>
      overriding(store, {
        async claimDue(until, limit, without, ...passed) {
          // The others claim when the first one has had its turn.
          if (id !== 'a' && (counts.claimed + counts.released === 0 || until < turn.ofOthers))
            return store.claimDue(until, limit, ['default'], ...passed)
          const claimed = await store.claimDue(until, limit, without, ...passed)
          if (id === 'a') counts.claimed += claimed.length
          return claimed
        },
        async releaseDue(given) {
          if (id === 'a') counts.released += given.length
          return store.releaseDue(given)
        },
      }),
    ...options,
  })
  return { ...processes, folder, newer, counts, turn }
}

const read = async ({ gateway }: Harness, { id }: { readonly id: string }) =>
  (await gateway.store.notification('default', id))!
const statusOf = async (harness: Harness, of: { readonly id: string }) => (await read(harness, of)).status

/** Asserts that a notification has failed for want of its template, and returns when. */
async function failedAt(harness: Harness, of: { readonly id: string }): Promise<number> {
  const { status, timeline } = await read(harness, of)
  assert.equal(status, 'failed')
  assert.equal(timeline.at(-1)!.detail, 'there is no template "shipped"')
  return timeline.at(-1)!.at
}

/** Seconds since the start at which a gateway has sent to recipients of these names. */
const secondsOf = (harness: Harness, recipients: string): readonly number[] =>
  harness
    .sent()
    .filter(({ recipient }) => recipient.startsWith(recipients))
    .map(({ at }) => Math.floor((at - harness.start) / second))

test('a scheduled notification is left to the gateway that has its template, and leaves in time', async (t) => {
  const { clock, a, b, counts } = await rollout(t)
  const { start } = b
  const named = []
  for (let n = 0; n < 40; n += 1)
    named.push(await b.post({ ...shipped, recipient: `r${n}`, sendAt: start + (10 + n) * second }))
  await clock.runUntil(start + minute)
  for (const each of named) assert.equal(await statusOf(b, each), 'delivered')
  assert.deepEqual(
    secondsOf(b, 'r'),
    named.map((_, n) => 10 + n),
  )
  // The first one has told which template is missing.
  assert.ok(counts.claimed > 0 && counts.claimed <= 2, JSON.stringify(counts))
  await during(a, a.stop())
  await during(b, b.stop())
})

test('what is due at once is claimed in vain once, while the gateway that has the template is late', async (t) => {
  const { clock, a, b, counts, turn } = await rollout(t)
  const { start } = b
  turn.ofOthers = start + 5 * minute
  const drafts = Array.from({ length: 100 }, (_, n) => ({
    ...shipped,
    recipient: `r${n}`,
    sendAt: start + 10 * second,
  }))
  const named = await b.postMany(drafts)
  await clock.runUntil(start + 5 * minute + second)
  for (const each of named) assert.equal(await statusOf(b, each), 'delivered')
  assert.equal(b.sent().length, 100)
  assert.ok(counts.claimed > 0 && counts.claimed <= 100, JSON.stringify(counts))
  await during(a, a.stop())
  await during(b, b.stop())
})

test('it keeps the instant that the limits gave it', async (t) => {
  const limits = [{ name: 'all', for: 'any', max: ['1/min'], over: 'delay' }]
  const { clock, a, b, counts } = await rollout(t, { sharesLimits: true, policy: { version: 1, limits } })
  const { start } = b
  for (let n = 0; n < 5; n += 1) await b.post({ ...shipped, data: { n } })
  await clock.runUntil(start + 5 * minute)
  assert.deepEqual(secondsOf(b, 'ada'), [0, 60, 120, 180, 240])
  assert.ok(counts.released > 0)
  await during(a, a.stop())
  await during(b, b.stop())
})

test('what leaves a digest is sent by a gateway that has its template, whoever closes the digest or takes it over', async (t) => {
  const digest = { window: '1min', minItems: 2, maxItems: 9, template: 'activity-digest' }
  const single = { ...digest, name: 'single', for: { category: 'single' } }
  const whole = { ...digest, name: 'whole', for: { category: 'whole' }, template: 'shipped' }
  const { clock, a, b, join, declareDead } = await rollout(t, {
    config: { ...slow, templates: folderOf(t, ...shippedParts) },
    policy: { version: 1, limits: [], digests: [single, whole] },
    policyOfFirst: { version: 1, limits: [], digests: [single] },
  })
  const { start } = b
  // The first process closes this one, of a single item.
  const alone = await b.post({ ...shipped, category: 'single', recipient: 'single' })
  const items = []
  for (let n = 0; n < 2; n += 1)
    items.push(await b.post({ category: 'whole', recipient: 'whole', template: 'new-comment', data: { n } }))
  await clock.runUntil(start + 62 * second)
  assert.deepEqual(secondsOf(b, 'single').length, 1)
  assert.equal(await statusOf(b, alone), 'delivered')
  // The second process closes the other one, and is killed while its message waits for an account.
  for (let n = 0; n < 60; n += 1) await b.post({ recipient: `r${n}` })
  await clock.runUntil(start + 70 * second)
  for (const each of items) assert.equal(await statusOf(b, each), 'merged')
  declareDead('b')
  await clock.runUntil(start + 3 * minute)
  assert.deepEqual([secondsOf(b, 'whole'), secondsOf(a, 'whole')], [[], []])
  assert.ok(secondsOf(a, 'r').length > 20)
  const c = await join('c', 3)
  await clock.runUntil(start + 3 * minute + 2 * second)
  assert.equal(c.sent({ recipient: 'whole' }).length, 1)
  await during(a, a.stop())
  await during(c, c.stop())
})

test('a template without a part for the channel counts as lacked', async (t) => {
  const { clock, a, b, folder, counts } = await rollout(t, {
    config: { templates: folderOf(t, 'shipped/email.text', 'shipped/sms.text') },
  })
  add(folder, 'shipped/email.text')
  await a.done(a.reload(policy))
  const { start } = b
  const sms = await b.post({ ...shipped, channel: 'sms', sendAt: start + 10 * second })
  const mail = await a.post({ ...shipped, channel: 'email' })
  await clock.runUntil(start + minute)
  for (const each of [sms, mail]) assert.equal(await statusOf(b, each), 'delivered')
  assert.deepEqual([a.sent()[0]?.channel, b.sent()[0]?.channel], ['email', 'sms'])
  assert.ok(counts.claimed > 0)
  await during(a, a.stop())
  await during(b, b.stop())
})

for (const how of ['is killed', 'ends'] as const)
  test(`what a gateway ${how} with is kept by one without its template until another one starts that has it`, async (t) => {
    const { clock, a, b, join, declareDead } = await rollout(t, { sharesLimits: true })
    const { start } = b
    const named = []
    for (let n = 0; n < 5; n += 1)
      named.push(await b.post({ ...shipped, recipient: `r${n}`, sendAt: start + 10 * second }))
    const later = await b.post({ ...shipped, sendAt: start + 5 * minute })
    // The second process holds them in memory by then.
    await clock.runUntil(start + 9 * second)
    if (how === 'ends') await during(b, b.stop())
    else declareDead('b')
    await clock.runUntil(start + 9 * minute)
    for (const each of named) assert.equal(await statusOf(a, each), 'scheduled')
    const c = await join('c', 3)
    await clock.runUntil(start + 9 * minute + 2 * second)
    for (const each of [...named, later]) assert.equal(await statusOf(a, each), 'delivered')
    assert.equal(c.sent().length, 6)
    await during(a, a.stop())
    await during(c, c.stop())
  })

for (const how of ['is killed', 'loses it by a reload'] as const)
  test(`a notification fails ten minutes after the last gateway with its template ${how}, for want of it`, async (t) => {
    const { clock, a, b, newer, counts, declareDead } = await rollout(t)
    const { start } = b
    const first = await b.post({ ...shipped, sendAt: start + minute })
    const other = await b.post({ ...shipped, recipient: 'bob', sendAt: start + 5 * minute })
    await clock.runUntil(start + 10 * second)
    if (how === 'is killed') declareDead('b')
    else {
      rmSync(join(newer, 'shipped'), { recursive: true })
      await b.done(b.reload(policy))
    }
    await clock.runUntil(start + 20 * minute)
    for (const each of [first, other]) {
      const at = await failedAt(a, each)
      assert.ok(Math.abs(at - (start + 11 * minute)) < 5 * second, `${at - start} ms`)
    }
    assert.ok(counts.claimed <= 5, JSON.stringify(counts))
    await during(a, a.stop())
    if (how !== 'is killed') await during(b, b.stop())
  })

test('a gateway that has the template and no pool for the channel counts as one without it', async (t) => {
  const pools = { ...slow.pools, sms: slow.pools.email }
  const folder = folderOf(t, ...shippedParts)
  const newer = folderOf(t, ...shippedParts)
  const { clock, a, b } = await rollout(t, {
    config: { ...slow, templates: newer },
    configOfFirst: { pools, templates: folder },
  })
  const named = await a.post({ ...shipped, channel: 'sms', sendAt: a.start + minute })
  rmSync(join(folder, 'shipped'), { recursive: true })
  await a.done(a.reload(policy))
  await clock.runUntil(a.start + 10 * minute)
  assert.equal(await statusOf(b, named), 'scheduled')
  await clock.runUntil(a.start + 12 * minute)
  await failedAt(b, named)
  await during(a, a.stop())
  await during(b, b.stop())
})

test('the ten minutes begin when the last gateway that has the template goes, also one that has it by a reload', async (t) => {
  const newer = folderOf(t)
  const options = { config: { templates: newer } }
  const { clock, a, b, turn, join: joins, declareDead } = await rollout(t, options)
  const { start } = b
  for (const part of shippedParts) add(newer, part)
  await b.done(b.reload(policy))
  turn.ofOthers = start + 15 * minute
  const named = await b.post({ ...shipped, sendAt: start + minute })
  await clock.runUntil(start + 9 * minute)
  declareDead('b')
  await clock.runUntil(start + 15 * minute)
  assert.equal(await statusOf(a, named), 'scheduled')
  const c = await joins('c', 3)
  await clock.runUntil(start + 15 * minute + 2 * second)
  assert.equal(await statusOf(a, named), 'delivered')
  await during(a, a.stop())
  await during(c, c.stop())
})

test('a gateway that has its record for itself fails what it has no template for at once', async (t) => {
  const templates = folderOf(t, ...shippedParts)
  const file = join(folderOf(t), 'sluice.db')
  const before = await createHarness({ policy, file, config: { templates } })
  const named = await before.post({ ...shipped, sendAt: before.start + minute })
  await before.stop()
  const after = await createHarness({ policy, file, start: before.start + second })
  await after.runUntil(before.start + 2 * minute)
  const at = await failedAt(after, named)
  assert.ok(at <= before.start + minute + 100, `${at - before.start} ms`)
  await after.stop()
})

test('a reload that brings the template sends what waits for it', async (t) => {
  const { clock, a, b, folder, declareDead } = await rollout(t)
  const { start } = b
  const named = await b.post({ ...shipped, sendAt: start + minute })
  await clock.runUntil(start + 10 * second)
  declareDead('b')
  await clock.runUntil(start + 5 * minute)
  assert.equal(await statusOf(a, named), 'scheduled')
  for (const part of shippedParts) add(folder, part)
  await a.done(a.reload(policy))
  await clock.runUntil(start + 5 * minute + second)
  assert.equal(await statusOf(a, named), 'delivered')
  await during(a, a.stop())
})

test('what waits in the queue when a reload takes the template away is left to a gateway that has it', async (t) => {
  const folder = folderOf(t, ...shippedParts)
  const { clock, a, b } = await rollout(t, { configOfFirst: { ...slow, templates: folder } })
  const named = []
  for (let n = 0; n < 20; n += 1) named.push(await a.post({ ...shipped, recipient: `r${n}` }))
  await clock.runUntil(a.start + 3 * second)
  rmSync(join(folder, 'shipped'), { recursive: true })
  await a.done(a.reload(policy))
  await clock.runUntil(a.start + minute)
  for (const each of named) assert.equal(await statusOf(b, each), 'delivered')
  assert.ok(a.sent().length < 10 && b.sent().length > 10, `${a.sent().length} and ${b.sent().length}`)
  await during(a, a.stop())
  await during(b, b.stop())
})

test('a text of its own is sent by a gateway that lacks the template beside it', async (t) => {
  const { clock, a, b, declareDead } = await rollout(t)
  const content = { subject: 'own', text: 'own' }
  const named = await b.post({ template: 'shipped', content, sendAt: b.start + 10 * second })
  await clock.runUntil(b.start + second)
  declareDead('b')
  await clock.runUntil(b.start + 11 * second)
  assert.equal(await statusOf(a, named), 'delivered')
  await during(a, a.stop())
})
