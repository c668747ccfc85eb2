/**
 * Two tenants who have everything in common but the tenant: the same ids, keys, texts and modules. Whatever the second
 * one does over HTTP, nothing of the first comes back, and nothing of the first changes.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { get } from 'node:http'
import { after, before, test } from 'node:test'
import { createSigner, tokenFor } from '../tokens.ts'
import { type AskOptions, type Keyed, type Reply, startKeyed } from './keyed.ts'

const signer = createSigner('ES256')
const tokens = {
  alpha: tokenFor(signer, { tenant: 'alpha', scope: 'sluice:publish' }),
  beta: tokenFor(signer, { tenant: 'beta', scope: 'sluice:publish' }),
  operator: tokenFor(signer, { tenant: 'gamma', scope: 'sluice:admin' }),
}
/** Stands in everything that the first tenant says, and must not come back to the second. */
const mark = 'only-of-alpha'

const base = '/api/v1'
const message = (who: string, more: object = {}) => ({
  recipient: { id: 'user-1', email: `${who}@example.com` },
  channel: 'email',
  category: 'marketing',
  content: { subject: 'The same', text: 'The same' },
  ...more,
})

interface Use {
  readonly used: number
  readonly reserved: number
}
const taken = ({ used, reserved }: Use): number => used + reserved

let keyed: Keyed
const ends: (() => unknown)[] = []
after(async () => {
  for (const end of ends.reverse()) await end()
})
const heard: Record<'alpha' | 'beta' | 'operator', string> = { alpha: '', beta: '', operator: '' }
/** Everything that the second tenant was ever answered. */
const answered: string[] = []

async function asBeta(method: string, path: string, options: AskOptions = {}): Promise<Reply> {
  const reply = await keyed.ask(method, path, { token: tokens.beta, ...options })
  answered.push(`${method} ${path} ${reply.text}`)
  return reply
}
const asAlpha = (method: string, path: string, options: AskOptions = {}): Promise<Reply> =>
  keyed.ask(method, path, { token: tokens.alpha, ...options })

async function listen(who: keyof typeof heard, query = ''): Promise<void> {
  const request = get(`${keyed.url}${base}/events${query}`, {
    headers: { authorization: `Bearer ${tokens[who]}` },
  })
  const [response] = await once(request, 'response')
  response.setEncoding('utf8').on('data', (text: string) => {
    heard[who] += text
  })
  response.on('error', () => {})
  await once(response, 'data')
}

before(async () => {
  keyed = await startKeyed({ after: (end) => void ends.push(end as () => unknown) }, signer, {
    tenants: { default: { rate: '300/min', modules: '200/min' } },
  })
  await listen('alpha')
  await listen('beta', '?tenant=alpha')
  await listen('operator', '?tenant=alpha')
})

test('the same recipient, text and key under two tenants are two of each', async () => {
  const headers = { 'idempotency-key': 'order-1' }
  const first = await asAlpha('POST', `${base}/notifications`, {
    headers,
    body: message(mark, { actor: mark, data: { secret: mark } }),
  })
  assert.equal(first.status, 202)
  const second = await asBeta('POST', `${base}/notifications`, { headers, body: message('beta') })
  assert.equal(second.status, 202, 'neither a repetition nor another body for the same key')
  assert.equal(second.headers.get('idempotency-replayed'), null)
  assert.notEqual(second.body.notificationId, first.body.notificationId)
  assert.notEqual((second.body.decision as { reason?: string }).reason, 'duplicate')
})

test("one tenant's use of a limit does not count for another", async () => {
  for (let count = 0; count < 30; count += 1) {
    const body = message(mark, { content: { subject: mark, text: `${mark} ${count}` } })
    assert.equal((await asAlpha('POST', `${base}/notifications`, { body })).status, 202)
  }
  const usedUp = await asAlpha('GET', `${base}/recipients/user-1/limits`)
  const ofAlpha = usedUp.body.limits as Use[]
  const ofBeta = (await asBeta('GET', `${base}/recipients/user-1/limits`)).body.limits as Use[]
  assert.ok(Math.max(...ofAlpha.map(taken)) >= 2)
  assert.ok(Math.max(...ofBeta.map(taken)) <= 1, 'only its own')
  const dry = await asBeta('POST', `${base}/decisions`, {
    body: message('beta', { content: { subject: 'x', text: 'y' } }),
  })
  const rules = dry.body.rules as { used: number }[]
  assert.ok(rules.every(({ used }) => used <= 1))
  const left = (await asBeta('GET', `${base}/notifications`)).headers
  assert.equal(left.get('x-ratelimit-remaining-tenant'), '299')
  assert.equal(left.get('x-ratelimit-remaining-module'), '199')
})

/** Something of the first tenant behind every `{id}` that the document knows. */
async function idsOfAlpha(): Promise<Readonly<Record<string, string>>> {
  const waiting = await asAlpha('POST', `${base}/notifications`, {
    body: message(mark, { sendAt: new Date(Date.now() + 3_600_000).toISOString(), category: 'product' }),
  })
  await asAlpha('PUT', `${base}/recipients/${mark}-9`, { body: { email: `${mark}@example.com` } })
  const ids: Record<string, string> = {
    [`${base}/notifications/{id}`]: String(waiting.body.notificationId),
    [`${base}/recipients/{id}`]: `${mark}-9`,
    [`${base}/recipients/{id}/limits`]: `${mark}-9`,
    [`${base}/recipients/{id}/timeline`]: `${mark}-9`,
    [`${base}/recipients/{id}/windows`]: `${mark}-9`,
  }
  if (`${base}/jobs/{id}` in keyed.document.paths) {
    const recipients = Array.from({ length: 101 }, (_, index) => ({
      id: `many-${index}`,
      email: `many-${index}@example.com`,
    }))
    const { recipient: _, ...body } = message(mark)
    const batch = await asAlpha('POST', `${base}/notifications/batch`, { body: { ...body, recipients } })
    for (const path of Object.keys(keyed.document.paths))
      if (path.startsWith(`${base}/jobs/{id}`)) ids[path] = String(batch.body.jobId)
  }
  return ids
}

test("another tenant's resource answers exactly like a missing one, on every route", async () => {
  const ids = await idsOfAlpha()
  // Accounts, holds and replays are the operator's and no tenant's: their routes need the operator's scope
  // (tokens.test.ts). Webhooks of providers have no token at all.
  const withId = keyed.routes.filter(
    ({ path, access }) => path.includes('{') && path.startsWith(base) && access === 'caller',
  )
  assert.ok(withId.length >= 7)
  const first = await Promise.all(
    [...new Set(withId.map(({ path }) => path))].map((path) =>
      asAlpha('GET', path.replace('{id}', ids[path]!)),
    ),
  )
  const absent: Readonly<Record<string, string>> = { recipients: 'nobody-9' }
  for (const { method, path } of withId) {
    const id = ids[path]
    assert.ok(id !== undefined, `${path} is new: say above what the first tenant has there`)
    const nobody = absent[path.split('/')[3]!] ?? `${id.slice(0, -4)}ZZZZ`
    const body = ['PUT', 'PATCH'].includes(method) ? { email: 'beta@example.com' } : undefined
    const seen = (reply: Reply, of: string): object => ({
      status: reply.status,
      type: reply.headers.get('content-type'),
      text: reply.text
        .replaceAll(of, '<id>')
        .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<instant>')
        .replaceAll(/"requestId":"[^"]*"/g, '<request>'),
    })
    const foreign = await keyed.ask(method, path.replace('{id}', id), { token: tokens.beta, body })
    const missing = await keyed.ask(method, path.replace('{id}', nobody), { token: tokens.beta, body })
    assert.deepEqual(seen(foreign, id), seen(missing, nobody), `${method} ${path}`)
    if (method === 'GET' && !path.includes('recipients')) assert.equal(foreign.status, 404, path)
    // A recipient under another tenant is another recipient, and to erase nobody is done at once.
    const gone = path.includes('recipients') ? 204 : 404
    if (method === 'DELETE') assert.equal(foreign.status, gone, path)
  }
  const last = await Promise.all(
    [...new Set(withId.map(({ path }) => path))].map((path) =>
      asAlpha('GET', path.replace('{id}', ids[path]!)),
    ),
  )
  // The instants of an empty limit are the present, and a job goes on by itself.
  // A picture of windows begins with the present, and its intervals move with it.
  const state = ({ status, text }: Reply): string =>
    `${status} ${(text.startsWith('{"at"') ? text.replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '') : text).replaceAll(/"freesAt":"[^"]*"|"counts":\{[^}]*\}|"status":"(running|done)"/g, '')}`
  assert.deepEqual(last.map(state), first.map(state), 'nothing of the first has changed')
  const own = (await asAlpha('GET', `${base}/recipients/${mark}-9`)).body
  assert.equal(own.email, `${mark}@example.com`)
})

test("lists, filters and cursors show only the tenant's own data", async () => {
  const own = await asAlpha('GET', `${base}/notifications?limit=5`)
  const cursor = encodeURIComponent(String(own.body.nextCursor))
  for (const query of [
    '',
    '?recipient=user-1',
    '?category=marketing&limit=500',
    `?cursor=${cursor}`,
    '?status=scheduled,delivered,suppressed',
  ]) {
    const reply = await asBeta('GET', `${base}/notifications${query}`)
    if (query.includes('cursor')) {
      assert.equal(reply.status, 400, 'a place in the list of another says nothing here')
      continue
    }
    assert.equal(reply.status, 200, reply.text)
    for (const item of reply.body.items as { tenant: string }[]) assert.equal(item.tenant, 'beta')
  }
  await asBeta('GET', `${base}/recipients/user-1/timeline`)
})

test('no header switches the tenant', async () => {
  const headers = {
    'x-tenant-id': 'alpha',
    'x-module-id': 'other',
    forwarded: 'for=127.0.0.1',
    host: 'localhost',
  }
  const list = await asBeta('GET', `${base}/notifications`, { headers })
  for (const item of list.body.items as { tenant: string }[]) assert.equal(item.tenant, 'beta')
  const posted = await asBeta('POST', `${base}/notifications`, {
    headers,
    body: message('beta', { content: { subject: 'a', text: 'b' } }),
  })
  const { body } = await asBeta('GET', `${base}/notifications/${posted.body.notificationId}`)
  assert.deepEqual([body.tenant, body.module], ['beta', 'shop'])
})

test('events, metrics and all responses reveal nothing of another tenant', async () => {
  const open = ['/metrics', '/openapi.json', '/healthz', '/readyz']
  for (const path of open) answered.push((await keyed.ask('GET', path)).text)
  while (!heard.beta.includes('"tenant":"beta"') || !heard.alpha.includes('"status":"delivered"'))
    await new Promise((resolve) => setTimeout(resolve, 10))
  assert.doesNotMatch(heard.beta, /"tenant":"alpha"/, 'who asks for the events of another gets its own')
  assert.doesNotMatch(heard.alpha, /"tenant":"beta"/)
  assert.match(heard.operator, /"tenant":"alpha"/)
  assert.doesNotMatch(heard.operator, /"tenant":"beta"/)
  const ids = new Set([...heard.alpha.matchAll(/"notificationId":"(\w+)"/g)].map(([, id]) => id!))
  assert.ok(ids.size > 10)
  for (const text of [...answered, heard.beta]) {
    assert.ok(!text.includes(mark), text.slice(0, 200))
    assert.ok(!text.includes('"tenant":"alpha"'), text.slice(0, 200))
    for (const id of ids) assert.ok(!text.includes(id), text.slice(0, 200))
  }
})

test('one tenant cannot fill the queue of another', async (t) => {
  const small = await startKeyed(t, signer, {
    tenants: { default: { rate: 'unlimited', modules: 'unlimited', waiting: 10 } },
  })
  const send = (token: string, index: number): Promise<Reply> =>
    small.ask('POST', `${base}/notifications`, {
      token,
      body: message('x', {
        recipient: { id: `u-${index}`, email: 'a@example.com' },
        sendAt: new Date(Date.now() + 3_600_000).toISOString(),
      }),
    })
  const replies = await Promise.all(Array.from({ length: 12 }, (_, index) => send(tokens.alpha, index)))
  assert.deepEqual([...new Set(replies.map(({ status }) => status))].sort(), [202, 503])
  assert.equal((await send(tokens.beta, 0)).status, 202)
})
