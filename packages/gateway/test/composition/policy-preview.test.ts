/**
 * Decisions under another policy: what a preview answers is what the gateway decides after a reload with that policy,
 * and neither the limits nor the record notice it.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PreviewRequest } from '../../src/http/routes/policy-preview.ts'
import type { Decision, Draft, Notification } from '../../src/model.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import { createHarness, day, type Harness, hour, minute, seeded, testSeed } from '../harness.ts'

const caller = { tenant: 'default', module: 'default' }
const wide = {
  version: 1,
  limits: [{ name: 'mail', for: { channel: 'email' }, max: ['2/day'], over: 'delay' }],
}
const narrow = {
  version: 1,
  deduplication: { window: '1h' },
  quietHours: { default: { from: '22:00', to: '08:00' } },
  limits: [
    {
      name: 'mail',
      for: { channel: 'email', category: 'product' },
      max: ['3/day'],
      minGap: '10min',
      over: 'delay',
    },
    { name: 'ads', for: { category: 'marketing' }, max: ['1/day'], over: 'drop' },
    { name: 'site', for: 'any', per: 'tenant', max: ['8/h'], over: 'delay' },
  ],
}

const draftOf = (recipient: string, more: Partial<Draft> = {}): Draft => ({
  to: { id: recipient, email: `${recipient}@example.com` },
  channel: 'email',
  category: 'product',
  priority: 'normal',
  content: { subject: 's', text: 't' },
  ...more,
})

const preview = (harness: Harness, request: Omit<PreviewRequest, 'caller'>) =>
  harness.done(harness.gateway.policyPreview({ caller, ...request }))

test('a preview changes neither the limits nor the record', async () => {
  const harness = await createHarness({ policy: wide })
  for (let count = 0; count < 4; count += 1) await harness.post({ recipient: 'ada' })
  const seen = async () => ({
    usage: await harness.done(harness.gateway.gate.usage('default', 'ada')),
    counts: harness.counts(),
    record: (await harness.gateway.store.list({ tenant: 'default', limit: 50 })).items,
    backlog: harness.gateway.backlog.report({
      by: 'reason',
      now: harness.clock.now(),
      capacityOf: () => undefined,
    }),
    next: await harness.done(harness.gateway.gate.preview(caller, draftOf('ada'))),
  })
  const before = await seen()
  for (const policy of [compilePolicy(narrow), compilePolicy(wide), undefined])
    for (const at of [undefined, harness.clock.now() + day])
      await preview(harness, {
        draft: draftOf('ada'),
        ...(policy === undefined ? {} : { policy }),
        ...(at === undefined ? {} : { at }),
      })
  assert.deepEqual(await seen(), before)
  await harness.check()
  await harness.stop()
})

test('the decision under another policy is the one that the gateway makes after a reload with it', async (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const pick = <T>(of: readonly T[]): T => of[Math.floor(chance() * of.length)]!
  const random = (): Partial<Draft> & { readonly recipient: string } => ({
    recipient: pick(['ada', 'bob', 'eve']),
    category: pick(['product', 'marketing', 'security']),
    priority: pick(['normal', 'normal', 'high', 'critical']),
    channel: pick(['email', 'sms']),
    content: { subject: 's', text: pick(['one', 'two', 'three', 'four', 'five']) },
  })
  for (let round = 0; round < 6; round += 1) {
    // Nobody waits: after a reload those who wait would move up, and a preview leaves them their instants.
    const harness = await createHarness({
      policy: { version: 1, limits: [{ ...wide.limits[0], max: ['99/day'] }] },
    })
    for (let posted = 0; posted < 25; posted += 1) {
      await harness.post(random())
      await harness.runFor(Math.floor(chance() * 20 * minute))
    }
    const drafts = Array.from({ length: 12 }, () => {
      const { recipient, ...draft } = random()
      return draftOf(recipient, draft)
    })
    const answers: Decision[] = []
    for (const draft of drafts) {
      const { now, then } = await preview(harness, { draft, policy: compilePolicy(narrow) })
      const { decision } = await harness.done(harness.gateway.gate.preview(caller, draft))
      assert.deepEqual(now.decision, decision, 'the decision now is that of a dry run')
      answers.push(then.decision)
    }
    await harness.reload(narrow)
    for (const [index, draft] of drafts.entries()) {
      const after = await harness.done(harness.gateway.gate.preview(caller, draft))
      assert.deepEqual(answers[index], after.decision, `round ${round}, ${JSON.stringify(draft)}`)
    }
    await harness.stop()
  }
})

test('at a later instant the places that are free by then admit the notification', async () => {
  const harness = await createHarness({ policy: wide })
  for (let count = 0; count < 2; count += 1) await harness.post({ recipient: 'ada' })
  await harness.runFor(hour)
  const at = harness.start + day + minute
  const { now, then } = await preview(harness, { draft: draftOf('ada'), at })
  assert.deepEqual([now.decision.outcome, now.decision.limit], ['delay', 'mail'])
  assert.deepEqual([then.decision.outcome, then.decision.at], ['send', at])
  await harness.stop()
})

test('a notification on record is decided as if it were sent again, and does not count itself', async () => {
  // One a day: counted itself, it would leave a day later.
  const limits = [{ ...wide.limits[0], max: ['1/day'] }]
  const harness = await createHarness({ policy: { version: 1, limits, deduplication: { window: '1h' } } })
  const posted: Notification[] = []
  for (let count = 0; count < 2; count += 1) posted.push(await harness.post({ recipient: 'ada' }))
  const second = await harness.notification(posted[1]!.id)
  assert.equal(second.status, 'scheduled')
  const { now, then } = await preview(harness, {
    notification: second,
    policy: compilePolicy({ version: 1, limits: [{ ...wide.limits[0], max: ['5/day'] }] }),
  })
  assert.deepEqual([now.decision.outcome, now.decision.at], ['delay', second.dueAt])
  assert.equal(then.decision.outcome, 'send')
  await harness.stop()
})

test('a turn in the queue of the tenant delays a notification unless it comes before the instant', async () => {
  const harness = await createHarness({
    policy: wide,
    config: { tenants: { default: { rate: '1/min', modules: 'unlimited' } } },
  })
  for (let count = 0; count < 3; count += 1) await harness.post({ recipient: `r${count}` })
  const soon = await preview(harness, { draft: draftOf('ada'), policy: compilePolicy(narrow) })
  assert.deepEqual([soon.now.decision.reason, soon.then.decision.reason], ['tenant_limit', 'tenant_limit'])
  assert.equal(soon.then.decision.policyVersion, compilePolicy(narrow).version)
  const late = await preview(harness, { draft: draftOf('ada'), at: harness.clock.now() + hour })
  assert.equal(late.then.decision.outcome, 'send')
  await harness.stop()
})

test('limits that count over more than 50 pages of the record are not previewed', async () => {
  let endless = false
  let pages = 0
  const harness = await createHarness({
    policy: wide,
    wrap: (store) => ({
      ...store,
      mayHave: store.mayHave,
      async counted(query) {
        if (!endless) return store.counted(query)
        pages += 1
        return { items: [], nextCursor: 'more' }
      },
    }),
  })
  await harness.post({ recipient: 'ada' })
  endless = true
  await assert.rejects(preview(harness, { draft: draftOf('ada') }), /more than 50,000 others/)
  assert.ok(pages <= 50, `${pages} pages`)
  endless = false
  assert.equal((await preview(harness, { draft: draftOf('ada') })).now.decision.outcome, 'send')
  await harness.stop()
})

test('one preview is made at a time', async () => {
  const harness = await createHarness({ policy: wide })
  const first = harness.gateway.policyPreview({ caller, draft: draftOf('ada') })
  await assert.rejects(preview(harness, { draft: draftOf('ada') }), /One is made at a time/)
  await harness.done(first)
  await harness.stop()
})
