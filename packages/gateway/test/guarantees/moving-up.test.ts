/**
 * The contract's "Moving up" as a client sees it: over the real routes and the real clock, within a second, the first
 * who waits has the place that became free, `sendAt` of GET says so, and a newcomer stands behind.
 */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway } from '../../src/gateway.ts'
import { temporaryFolder } from '../config/folder.ts'

// biome-ignore lint/suspicious/noExplicitAny: bodies of every form
type Body = any

interface Client {
  ask(method: string, path: string, body?: object): Promise<{ readonly status: number; readonly body: Body }>
  /** Posts a mail that says something new. */
  post(more?: object): Promise<Body>
  get(id: string): Promise<Body>
  stop(): Promise<void>
}

const hourMs = 3_600_000
/** Windows are kept this much longer than they are written. */
const marginMs = 1_000
const hourly = (max: string): string => `version: 1
limits:
  - { name: all, for: any, max: [${max}], over: delay }
  - { name: author, for: { category: author }, per: [actor], max: [1/h], over: delay }
`

let serial = 0

async function serve(cwd: string): Promise<Client> {
  const env = { SLUICE_HTTP_PORT: '0', SLUICE_LOG_LEVEL: 'silent' }
  const gateway = await createGateway(loadConfig({ cwd, env }))
  const { url } = await gateway.start()
  const ask: Client['ask'] = async (method, path, body) => {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      ...(body === undefined
        ? {}
        : { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
  }
  return {
    ask,
    async post(more = {}) {
      serial += 1
      const recipient = { id: 'ada', email: 'ada@example.com', timeZone: 'UTC' }
      const content = { subject: `Message ${serial}`, text: 'text' }
      const { status, body } = await ask('POST', '/notifications', {
        recipient,
        channel: 'email',
        content,
        ...more,
      })
      assert.equal(status, 202, JSON.stringify(body))
      return body
    },
    get: async (id) => (await ask('GET', `/notifications/${id}`)).body,
    stop: () => gateway.stop(),
  }
}

function folderWith(t: TestContext, policy: string): string {
  return temporaryFolder(t, {
    'sluice.yaml': `store: sqlite:./sluice.db
policy: ./policy.yaml
tenants: { default: { rate: unlimited, modules: unlimited } }
`,
    'policy.yaml': policy,
  })
}

/** Asks again and again, for a second at most. */
async function withinSecond<T>(look: () => Promise<T>, isRight: (seen: T) => boolean): Promise<T> {
  const end = performance.now() + 1_000
  for (;;) {
    const seen = await look()
    if (isRight(seen) || performance.now() > end) return seen
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

const instant = (of: { readonly sendAt: string }): number => Date.parse(of.sendAt)
const near = (actual: number, expected: number): boolean => Math.abs(actual - expected) <= marginMs

test('DELETE gives the place to the first who waits within a second, and a newcomer stands behind', async (t) => {
  const client = await serve(folderWith(t, hourly('1/h')))
  t.after(client.stop)
  await client.post()
  const [first, second, third] = [await client.post(), await client.post(), await client.post()]
  assert.ok(instant(first) < instant(second) && instant(second) < instant(third))
  const [{ status }, newcomer] = await Promise.all([
    client.ask('DELETE', `/notifications/${first.notificationId}`),
    client.post(),
  ])
  assert.equal(status, 204)
  const moved = await withinSecond(
    () => client.get(second.notificationId),
    (seen) => seen.sendAt === first.sendAt,
  )
  assert.equal(moved.sendAt, first.sendAt, 'GET says the earlier instant')
  assert.equal(moved.decision.at, first.sendAt)
  assert.equal(moved.timeline.at(-1).detail, 'moved up')
  const next = await withinSecond(
    () => client.get(third.notificationId),
    (seen) => seen.sendAt === second.sendAt,
  )
  assert.equal(next.sendAt, second.sendAt)
  const last = await client.get(newcomer.notificationId)
  assert.ok(instant(last) >= instant(third), 'the newcomer is behind those who waited')
})

for (const method of ['PUT', 'PATCH']) {
  test(`an opt-out by ${method} gives the places of what it ends to the first who waits within a second`, async (t) => {
    const client = await serve(folderWith(t, hourly('1/h')))
    t.after(client.stop)
    await client.post()
    const unwanted = await client.post({ category: 'news' })
    const waiting = await client.post()
    const [{ status }, newcomer] = await Promise.all([
      client.ask(method, '/recipients/ada', { optOuts: [{ category: 'news' }] }),
      client.post(),
    ])
    assert.equal(status, 200)
    const moved = await withinSecond(
      () => client.get(waiting.notificationId),
      (seen) => seen.sendAt === unwanted.sendAt,
    )
    assert.equal(moved.sendAt, unwanted.sendAt)
    assert.equal((await client.get(unwanted.notificationId)).status, 'suppressed')
    const last = await client.get(newcomer.notificationId)
    assert.ok(instant(last) >= instant(waiting), 'the newcomer is behind those who waited')
  })
}

test('a place in an author’s limit over all recipients goes to another recipient within a second', async (t) => {
  const client = await serve(folderWith(t, hourly('100/h')))
  t.after(client.stop)
  const to = (id: string) => ({
    recipient: { id, email: `${id}@example.com` },
    category: 'author',
    actor: 'bob',
  })
  await client.post(to('a'))
  const [first, second] = [await client.post(to('b')), await client.post(to('c'))]
  const [, newcomer] = await Promise.all([
    client.ask('DELETE', `/notifications/${first.notificationId}`),
    client.post(to('d')),
  ])
  const moved = await withinSecond(
    () => client.get(second.notificationId),
    (seen) => seen.sendAt === first.sendAt,
  )
  assert.equal(moved.sendAt, first.sendAt)
  assert.ok(instant(await client.get(newcomer.notificationId)) >= instant(second))
})

test('a notification that would expire before its slot takes an earlier free one within a second', async (t) => {
  const client = await serve(folderWith(t, hourly('1/h')))
  t.after(client.stop)
  const soon = (ms: number): string => new Date(Date.now() + ms).toISOString()
  await client.post()
  const first = await client.post()
  const doomed = await client.post({ expiresAt: soon(1.5 * hourMs) })
  assert.equal(doomed.decision.outcome, 'delay')
  const [, newcomer] = await Promise.all([
    client.ask('DELETE', `/notifications/${first.notificationId}`),
    client.post(),
  ])
  const rescued = await withinSecond(
    () => client.get(doomed.notificationId),
    (seen) => seen.sendAt === first.sendAt,
  )
  assert.equal(rescued.sendAt, first.sendAt, 'it leaves before its end')
  assert.ok(instant(await client.get(newcomer.notificationId)) > instant(first))
})

test('a wider policy at a restart: those who wait leave within a second, before a newcomer', async (t) => {
  const cwd = folderWith(t, hourly('1/h'))
  const before = await serve(cwd)
  await before.post()
  const waiting = [await before.post(), await before.post(), await before.post()]
  await before.stop()
  writeFileSync(join(cwd, 'policy.yaml'), hourly('3/h'))
  const client = await serve(cwd)
  t.after(client.stop)
  const newcomer = await client.post()
  const delivered = await withinSecond(
    () => Promise.all(waiting.slice(0, 2).map(({ notificationId }) => client.get(notificationId))),
    (seen) => seen.every(({ status }) => status === 'delivered'),
  )
  assert.deepEqual(
    delivered.map(({ status }) => status),
    ['delivered', 'delivered'],
  )
  const third = await withinSecond(
    () => client.get(waiting[2].notificationId),
    (seen) => near(instant(seen), instant(waiting[0])),
  )
  assert.ok(near(instant(third), instant(waiting[0])), 'it has the first place that is free')
  assert.ok(instant(await client.get(newcomer.notificationId)) > instant(third))
})
