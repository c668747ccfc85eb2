/** A row that is damaged while the gateway is down costs nobody else anything: each test damages one and goes on. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, test } from 'node:test'
import { createSite } from '../child.ts'
import { createHarness, day, type Harness, hour, minute } from '../harness.ts'
import { codeOf, mine, open, stateOf, workFor } from '../http/job-harness.ts'
import { overriding } from '../overriding.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-damage-'))
after(() => rmSync(folder, { recursive: true }))

const policy = { version: 1, limits: [] }
let files = 0

/** A gateway that has done something, is stopped, damaged by some SQL, and started again an hour later. */
async function damagedAfter(
  before: (h: Harness) => Promise<void>,
  sql: string,
  options: { readonly policy?: object } = {},
): Promise<Harness> {
  files += 1
  const file = join(folder, `${files}.db`)
  const first = await createHarness({ policy, ...options, file })
  await before(first)
  await first.stop()
  const db = new DatabaseSync(file)
  db.exec(sql)
  db.close()
  return createHarness({ policy, ...options, file, start: first.clock.now() + hour })
}

/** Kept apart from the notifications that say it. */
const shared = { bytes: 40, content: { subject: 'All', text: 'of you' } }

const outcomeOf = async (h: Harness, id: string) => {
  const { status, timeline } = await h.notification(id)
  return [status, timeline.at(-1)?.reason]
}

test('notifications with damaged shared content become dead letters, and others of the channel are sent', async () => {
  const ids: string[] = []
  const sendAt = Date.UTC(2026, 10, 21, 15)
  const h = await damagedAfter(async (first) => {
    const to = (id: string) => ({ id, email: `${id}@example.com` })
    const said = [{ shared }, { shared }, { content: { text: 'Just you' } }]
    const posted = await first.postMany(['a', 'b', 'c'].map((id, i) => ({ to: to(id), sendAt, ...said[i] })))
    ids.push(...posted.map(({ id }) => id))
  }, "UPDATE contents SET body = replace(body, 'of you', 'of mine')")
  await h.runFor(3 * hour)
  assert.deepEqual(await Promise.all(ids.map((id) => outcomeOf(h, id))), [
    ['dead', 'poison'],
    ['dead', 'poison'],
    ['delivered', undefined],
  ])
  await h.check()
  await h.stop()
})

test('a notification for a recipient with damaged preferences becomes a dead letter, and others are sent', async () => {
  const ids: string[] = []
  const sendAt = Date.UTC(2026, 10, 21, 15)
  const h = await damagedAfter(async (first) => {
    await first.done(
      first.gateway.gate.saveRecipient({ tenant: 'default', id: 'eve', optOuts: [{ category: 'news' }] }),
    )
    for (const recipient of ['eve', 'bob']) ids.push((await first.post({ recipient, sendAt })).id)
  }, "UPDATE recipients SET body = replace(body, 'news', 'nevs')")
  await h.runFor(3 * hour)
  assert.deepEqual(await Promise.all(ids.map((id) => outcomeOf(h, id))), [
    ['dead', 'poison'],
    ['delivered', undefined],
  ])
  await h.check()
  await h.stop()
})

test("a tenant's limits are recovered although one of its recipients is damaged", async () => {
  const byTenant = {
    version: 1,
    limits: [{ name: 'all', for: 'any', per: ['tenant'], max: ['3/week'], over: 'drop' }],
  }
  const h = await damagedAfter(
    async (first) => {
      await first.done(
        first.gateway.gate.saveRecipient({ tenant: 'default', id: 'eve', optOuts: [{ category: 'news' }] }),
      )
      for (const recipient of ['eve', 'bob']) await first.post({ recipient })
      await first.runFor(hour)
    },
    "UPDATE recipients SET body = replace(body, 'news', 'nevs')",
    { policy: byTenant },
  )
  assert.equal((await h.post({ recipient: 'carl' })).status, 'queued')
  assert.equal((await h.post({ recipient: 'dora' })).status, 'suppressed', 'what was sent is counted')
  await h.stop()
})

test('a digest with a damaged item closes, and its other items are sent', async () => {
  const digesting = {
    version: 1,
    limits: [],
    digests: [
      { name: 'few', for: { category: 'activity' }, window: '2h', minItems: 2, template: 'activity-digest' },
    ],
  }
  const ids: string[] = []
  const h = await damagedAfter(
    async (first) => {
      ids.push((await first.post({ category: 'activity', shared })).id)
      for (let more = 0; more < 2; more += 1) ids.push((await first.post({ category: 'activity' })).id)
      assert.equal((await first.notification(ids[0]!)).status, 'digesting')
    },
    "UPDATE contents SET body = replace(body, 'of you', 'of mine')",
    { policy: digesting },
  )
  await h.runFor(day)
  const outcomes = await Promise.all(ids.map((id) => outcomeOf(h, id)))
  assert.deepEqual(outcomes[0], ['dead', 'poison'])
  for (const [status] of outcomes.slice(1)) assert.ok(status === 'delivered' || status === 'merged', status)
  await h.check()
  await h.stop()
})

test('a job with damaged work is cancelled, and the next job is done', async () => {
  const config = { tenants: { default: { rate: 'unlimited', modules: 'unlimited' } } }
  files += 1
  const file = join(folder, `${files}.db`)
  let refusing = true
  const first = await createHarness({
    policy,
    config,
    file,
    wrap: (store) =>
      overriding(store, {
        // No step is taken before the end of the process.
        jobWork: (...asked) => (refusing ? new Promise(() => {}) : store.jobWork(...asked)),
      }),
  })
  const jobs = [await open(first, workFor(120)), await open(first, workFor(110, {}, 's'))]
  refusing = false
  void first.gateway.stop()
  await first.clock.settle()
  await first.gateway.store.close()
  const db = new DatabaseSync(file)
  db.exec(`UPDATE job_work SET body = replace(body, 'r7@', 'r8@') WHERE body LIKE '%r7@%'`)
  db.close()
  const h = await createHarness({ policy, config, file, start: first.clock.now() + hour })
  await h.runFor(minute)
  const states = await Promise.all(jobs.map((job) => stateOf(h, job)))
  assert.deepEqual(
    states.map(({ status, taken }) => [status, taken]),
    [
      ['cancelled', 0],
      ['done', 110],
    ],
  )
  assert.equal(h.gateway.jobs.running(), 0)
  await h.check()
  await h.stop()
})

const answerOf = (key: string, createdAt: number) => ({
  tenant: 'default',
  module: 'default',
  method: 'POST',
  path: '/api/v1/notifications',
  key,
  requestHash: 'h',
  status: 202,
  body: '{"notificationId":"1"}',
  createdAt,
})

test('a stored answer that is no JSON any more blocks neither start, retention nor erasure', async () => {
  const h = await damagedAfter(async (first) => {
    const at = first.clock.now()
    for (const key of ['k1', 'k2'])
      await first.done(first.gateway.store.commit({ answer: answerOf(key, at) }))
    await first.post({ recipient: 'eve' })
    await first.runFor(minute)
  }, "UPDATE answers SET body = substr(body, 2) WHERE body LIKE '%k1%'")
  const { store } = h.gateway
  assert.equal((await h.done(store.answer(answerOf('k2', 0))))?.body, '{"notificationId":"1"}')
  await h.done(h.gateway.erase('default', 'eve'))
  assert.deepEqual((await store.list({ tenant: 'default', recipient: 'eve', limit: 5 })).items, [])
  const { rows } = await h.done(store.prune({ answers: h.clock.now(), notifications: 0 }))
  assert.equal(rows, 2)
  await h.stop()
})

test('a stored answer with a wrong checksum is an error for its key alone', async () => {
  const h = await damagedAfter(async (first) => {
    for (const key of ['k1', 'k2'])
      await first.done(first.gateway.store.commit({ answer: answerOf(key, first.clock.now()) }))
  }, "UPDATE answers SET body = replace(body, '202', '207') WHERE body LIKE '%k1%'")
  const { store } = h.gateway
  assert.equal(await codeOf(h.done(store.answer(answerOf('k1', 0)))), 'STORE_UNAVAILABLE')
  assert.equal((await h.done(store.answer(answerOf('k2', 0))))?.status, 202)
  assert.equal((await h.post({}, mine)).status, 'queued')
  await h.stop()
})

for (const [what, sql] of [
  ['request', "UPDATE notifications SET request = substr(request, 2) WHERE recipient = 'eve'"],
  ['timeline', 'UPDATE states SET timeline = substr(timeline, 2) WHERE seq = 1'],
] as const) {
  test(`somebody with a notification whose ${what} is damaged can be erased`, async () => {
    const h = await damagedAfter(async (first) => {
      await first.post({ recipient: 'eve' })
      await first.post({ recipient: 'bob' })
      await first.runFor(minute)
    }, sql)
    await h.done(h.gateway.erase('default', 'eve'))
    const db = h.gateway.store
    assert.deepEqual((await db.list({ tenant: 'default', recipient: 'eve', limit: 5 })).items, [])
    assert.deepEqual(await h.done(db.erasures()), [])
    assert.equal((await db.list({ tenant: 'default', recipient: 'bob', limit: 5 })).items.length, 1)
    await h.stop()
  })
}

test('damaged rows are counted and logged once each, however often they are read', async (t) => {
  const site = await createSite(t)
  await site.start()
  const ids: string[] = []
  for (const id of ['eve', 'bob']) {
    const body = { recipient: { id, email: `${id}@example.com` }, channel: 'email', content: { text: 'Hi' } }
    const { notificationId } = (await site.call('POST', '/api/v1/notifications', body)).json<{
      notificationId: string
    }>()
    ids.push(notificationId)
    await site.call('PUT', `/api/v1/recipients/${id}`, { locale: 'it' })
  }
  const damaged = async () =>
    (await site.call('GET', '/metrics')).text.match(/^sluice_damaged_rows_total (\d+)$/m)?.[1]
  assert.equal(await damaged(), '0')
  await site.terminate()
  const db = new DatabaseSync(join(site.folder, 'data/sluice.db'))
  db.exec(`UPDATE recipients SET body = replace(body, 'it', 'ie') WHERE id = 'eve';
    UPDATE notifications SET request = replace(request, 'eve@', 'eva@') WHERE recipient = 'eve'`)
  db.close()
  await site.start()
  for (let times = 0; times < 20; times += 1) {
    for (const path of ['/recipients/eve', `/notifications/${ids[0]}`])
      assert.equal((await site.call('GET', `/api/v1${path}`)).status, 503, path)
    assert.equal(
      (await site.call('GET', '/api/v1/notifications')).json<{ items: object[] }>().items.length,
      1,
    )
    assert.equal((await site.call('GET', '/api/v1/recipients/bob')).status, 200)
  }
  assert.equal(await damaged(), '2')
  const told = site.log().match(/[^\n]*damaged[^\n]*/g) ?? []
  assert.equal(told.length, 2, told.join('\n'))
})
