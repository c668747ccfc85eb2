/**
 * The guarantees of tenant and module limits, over real sockets against a real process: the figures by which the limits
 * were described, and a client that repeats whatever it does not like.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, createSite, type Site } from '../child.ts'

const policy = { version: 1, limits: [] }
const path = '/api/v1/notifications'
const critical = { priority: 'critical' }

interface Accepted {
  readonly notificationId: string
  readonly status?: string
  readonly sendAt?: string
  readonly detail?: string
  readonly code?: string
}

const bodyOf = (recipient: string, more: object = {}) => ({
  recipient: { id: recipient, email: 'r@example.com' },
  channel: 'email',
  content: { subject: 's', text: recipient },
  ...more,
})

function post(
  site: Site,
  recipient: string,
  headers: Record<string, string> = {},
  more = {},
): Promise<Answer> {
  return site.call('POST', path, bodyOf(recipient, more), headers)
}

async function until(what: () => Promise<boolean>, ms = 60_000): Promise<void> {
  const end = performance.now() + ms
  while (!(await what())) {
    assert.ok(performance.now() < end, 'it takes too long')
    await sleep(50)
  }
}

const statusOf = async (site: Site, id: string): Promise<string> =>
  (await site.call('GET', `${path}/${id}`)).json<{ status: string }>().status

test('50 a minute for a module and 100 for its tenant: 429 says what is queued, and what is critical passes', async (t) => {
  const site = await createSite(t, { policy, config: { tenants: { default: { weight: 1 } } } })
  await site.start()
  const begun = Date.now()
  const from = (module: string) => ({ 'x-module-id': module })
  for (let index = 0; index < 50; index += 1) {
    const { status, headers } = await post(site, `a-${index}`, from('a'))
    assert.deepEqual(
      [status, headers['x-ratelimit-limit-module'], headers['x-ratelimit-remaining-module']],
      [202, '50', String(49 - index)],
    )
    assert.equal(headers['x-ratelimit-remaining-tenant'], String(99 - index))
  }
  const queued: Answer[] = []
  for (let index = 50; index < 60; index += 1) queued.push(await post(site, `a-${index}`, from('a')))
  for (const { status, headers, text } of queued) {
    assert.equal(status, 429)
    assert.match(String(headers['content-type']), /^application\/problem\+json/)
    const seconds = Number(headers['retry-after'])
    assert.ok(seconds > 50 && seconds <= 61, `Retry-After: ${seconds}`)
    const { notificationId, sendAt, detail, code } = JSON.parse(text) as Accepted
    assert.deepEqual(
      [code, detail],
      ['RATE_LIMIT_EXCEEDED', `Module rate limit exceeded. Notification queued with ${seconds}s delay.`],
    )
    const waits = Date.parse(sendAt!) - begun
    assert.ok(waits >= 60_000 && waits < 61_000 + Date.now() - begun)
    assert.equal(await statusOf(site, notificationId), 'scheduled')
    // Notifications queued for later are not counted.
    assert.equal(headers['x-ratelimit-remaining-tenant'], '50')
    const reset = Number(headers['x-ratelimit-reset']) * 1_000 - begun
    assert.ok(reset > 59_000 && reset < 75_000, `X-RateLimit-Reset ${reset} ms from now`)
  }
  for (let index = 0; index < 50; index += 1)
    assert.equal(
      (await post(site, `b-${index}`, from('b'))).status,
      202,
      'another module of the tenant goes on',
    )
  const over = await post(site, 'c', from('c'))
  assert.match(
    over.json<Accepted>().detail!,
    /^Tenant rate limit exceeded\. Notification queued with \d+s delay\.$/,
  )
  assert.equal((await post(site, 'd', { 'x-tenant-id': 'other' })).status, 202, 'another tenant goes on')
  const urgent = await post(site, 'e', from('a'), critical)
  assert.equal(urgent.status, 202)
  const { notificationId } = urgent.json<Accepted>()
  await until(async () => (await statusOf(site, notificationId)) === 'delivered')
})

test('an operator may configure 202 for queued notifications', async (t) => {
  const config = { http: { overLimitStatus: 202 }, tenants: { default: { rate: '1/min' } } }
  const site = await createSite(t, { policy, config })
  await site.start()
  await post(site, 'a')
  const { status, text } = await post(site, 'b')
  const { status: state, sendAt } = JSON.parse(text) as Accepted
  assert.deepEqual([status, state], [202, 'scheduled'])
  assert.ok(Date.parse(sendAt!) - Date.now() > 50_000)
})

test('a client that repeats every 429, 503 and time-out five times with one key causes one message', async (t) => {
  const config = { tenants: { default: { rate: '3/s', modules: 'unlimited', queue: 4 } } }
  const site = await createSite(t, { policy, config })
  await site.start()
  const repeated = { 429: 0, 503: 0, 'time-out': 0 }

  /** Until it is told 202, or has been told the same five times; a full queue it waits for. */
  async function send(name: string): Promise<string> {
    const headers = { 'idempotency-key': name }
    const ids = new Set<string>()
    for (let again = 0; again <= 5; again += 1) {
      // The first answers are not waited for: whether the request arrived nobody knows.
      const timeoutMs = again < 5 && name.endsWith('impatient') ? 1 : 10_000
      const answer = await site.call('POST', path, bodyOf(name), headers, timeoutMs).catch(() => undefined)
      if (answer === undefined) {
        repeated['time-out'] += 1
        continue
      }
      if (answer.status === 503) {
        assert.equal(answer.json<Accepted>().code, 'QUEUE_FULL')
        repeated[503] += 1
        if (again === 5) {
          await sleep(Number(answer.headers['retry-after']) * 100)
          again = -1
        }
        continue
      }
      if (answer.status === 409) {
        await sleep(20)
        again -= 1
        continue
      }
      ids.add(answer.json<Accepted>().notificationId)
      if (answer.status === 202) break
      assert.equal(answer.status, 429)
      repeated[429] += 1
    }
    assert.equal(ids.size, 1, 'every answer names the same notification')
    return [...ids][0]!
  }

  const names = Array.from({ length: 24 }, (_, index) => `r${index}${index % 4 === 0 ? '-impatient' : ''}`)
  const told = await Promise.all(names.map(send))
  assert.ok(repeated[429] >= 5 && repeated[503] >= 5 && repeated['time-out'] >= 5, JSON.stringify(repeated))
  await until(async () => {
    const states = await Promise.all(told.map((id) => statusOf(site, id)))
    return states.every((status) => status === 'delivered')
  }, 20_000)
  const { items } = (await site.call('GET', `${path}?limit=100`)).json<{ items: { recipient: string }[] }>()
  assert.deepEqual(items.map(({ recipient }) => recipient).toSorted(), names.toSorted())
  t.diagnostic(`repeated: ${JSON.stringify(repeated)}`)
})
