/**
 * The log at its most talkative and all metrics, over every flow of the gateway: none of them holds a secret, an
 * address or a part of a message. Everything that must not appear has `canary` in it, and phone numbers a number.
 */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, startSink } from '../child.ts'
import { audience, createSigner, issuer, tokenFor } from '../tokens.ts'

const signer = createSigner('HS256', 'canary')
const headers = { authorization: `Bearer ${tokenFor(signer, { scope: 'sluice:admin', sub: 'operator' })}` }
const phone = '+393339876543'
const recipient = {
  id: 'canary-user',
  email: 'canary@canary.example',
  phone,
  pushToken: 'canary-push-token',
  telegramChatId: '3339876543210',
  webhookUrl: 'http://127.0.0.1:9/canary-hook?token=canary',
}
const secrets = /canary|3339876543|333 ?987|Bearer/i
/** A JSON Web Token begins so, in this case of letters: identifiers in capitals may hold the same by chance. */
const jsonWebToken = /eyJ[A-Za-z0-9]{8}/
const isForbidden = (line: string): boolean => secrets.test(line) || jsonWebToken.test(line)

/** A service that fails, and repeats in its answer all that it was sent. */
async function startEcho(t: TestContext): Promise<number> {
  let turn = -1
  const server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (part: string) => {
      body += part
    })
    request.on('end', () => {
      response.writeHead(body.includes('reject') ? 410 : 500)
      // Each answer repeats another part, in words and as JSON.
      turn += 1
      const { content } = JSON.parse(body) as { content: { text: string } }
      const parts = [content.text, request.url, JSON.stringify(request.headers), body]
      response.end(`cannot take ${parts[turn % parts.length]}`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as { port: number }).port
}

test('neither the log nor a metric has a secret, an address or a content, whatever happens', async (t) => {
  const echo = await startEcho(t)
  const mail = await startSink(t, 'smtp')
  await mail.rules([{ at: 'rcpt', do: '550 5.1.1 <canary@canary.example> user unknown' }])
  const once = { attempts: 1 }
  const site = await createSite(t, {
    policy: {
      version: 1,
      limits: [{ name: 'two', for: { category: 'marketing' }, max: ['2/day'], over: 'drop' }],
      digests: [
        { name: 'activity', for: { category: 'activity' }, window: '1s', template: 'activity-digest' },
      ],
      deduplication: { window: '1h' },
    },
    config: {
      auth: { jwt: { secretFile: './jwt.secret', issuer, audience } },
      templates: './templates',
      network: { allowPrivate: true },
      http: { publicUrl: 'https://notify.example.com' },
      unsubscribe: { secret: 'canary-unsubscribe-secret' },
      metrics: { accounts: true, tenants: { top: 5 } },
      tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 40 } },
      pools: {
        email: {
          provider: 'smtp',
          retry: once,
          accounts: [
            {
              id: 'mail',
              url: `smtp://127.0.0.1:${mail.port}`,
              from: 'a@b.example',
            },
          ],
        },
        webhook: {
          provider: 'webhook',
          retry: once,
          accounts: [
            {
              id: 'hook',
              url: `http://canary-login:canary-pass@127.0.0.1:${echo}/canary-path`,
              secret: `whsec_${Buffer.from('canary-webhook-secret').toString('base64')}`,
            },
          ],
        },
        sms: { provider: 'sandbox', retry: once, accounts: [{ id: 'sms', odds: { fail: 1 } }] },
        push: { provider: 'sandbox', accounts: [{ id: 'push' }] },
      },
      log: { level: 'debug', requests: 'all' },
    },
  })
  writeFileSync(join(site.folder, 'jwt.secret'), signer.publicKey)
  mkdirSync(join(site.folder, 'templates/broken'), { recursive: true })
  writeFileSync(join(site.folder, 'templates/broken/text.liquid'), '{{ data.x | date }}')
  await site.start()
  const call = (method: string, path: string, body?: unknown, more: Readonly<Record<string, string>> = {}) =>
    site.call(method, `/api/v1${path}`, body, { ...headers, ...more })
  const ids: string[] = []
  async function post(channel: string, more: object = {}): Promise<void> {
    const answer = await call('POST', '/notifications', {
      recipient,
      channel,
      category: 'security',
      content: { subject: 'canary-subject', text: 'canary-text' },
      data: { canary: 'canary-data' },
      actor: 'canary-actor',
      ...more,
    })
    ids.push(answer.json<{ notificationId?: string }>().notificationId ?? '')
  }
  // Accepted, refused for good, failing, duplicate, over a limit, collected, delayed, expiring.
  for (const channel of ['email', 'webhook', 'sms', 'push']) await post(channel)
  await post('push')
  for (let count = 0; count < 4; count += 1)
    await post('webhook', { content: { text: `canary reject ${count}` } })
  for (let count = 0; count < 4; count += 1)
    await post('push', { category: 'marketing', content: { text: `canary-${count}` } })
  for (let count = 0; count < 3; count += 1)
    await post('push', { category: 'activity', content: { text: `canary-${count}` } })
  const soon = (ms: number) => new Date(Date.now() + ms).toISOString()
  await post('push', { sendAt: soon(3_600_000), content: { text: 'canary-later' } })
  await call('DELETE', `/notifications/${ids.at(-1)}`)
  await post('push', { sendAt: soon(3_600_000), expiresAt: soon(500), content: { text: 'canary-expires' } })
  await post('push', { template: 'broken', content: undefined })
  // Batches, jobs, dry runs, keys of idempotency.
  const recipients = Array.from({ length: 120 }, (_, index) => ({
    id: `canary-${index}`,
    pushToken: `canary-${index}`,
  }))
  const message = { channel: 'push', category: 'security', content: { text: 'canary-batch' } }
  await call('POST', '/notifications/batch', { recipients: recipients.slice(0, 3), ...message })
  await call('POST', '/notifications/batch', { recipients, ...message })
  await call('POST', '/decisions', { recipient, ...message })
  for (const text of ['canary', 'canary-other'])
    await call(
      'POST',
      '/notifications',
      { recipient, ...message, content: { text } },
      { 'idempotency-key': 'canary-key' },
    )
  // Requests that are refused.
  await call('POST', '/notifications', { recipient, channel: 'canary', content: 'canary' })
  await call('GET', '/canary-path/canary@canary.example?token=canary')
  await call('GET', `/notifications?recipient=${encodeURIComponent('canary@canary.example')}&status=canary`)
  await site.call('GET', '/u/canary-token')
  await site.call('POST', '/u/canary-token')
  await site.call('GET', '/api/v1/pools', undefined, { authorization: 'Bearer canary.canary.canary' })
  await fetch(`${site.url}/api/v1/notifications`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: '{"canary":',
  })
  await call('POST', '/policy/validate', { version: 1, limits: [{ name: 'canary' }] })
  // Recipients, dead letters, erasure, and reading all of it.
  await call('PUT', '/recipients/canary-user', { email: 'canary2@canary.example', timeZone: 'Europe/Rome' })
  await call(
    'PATCH',
    '/recipients/canary-user',
    { phone: '+393339876544' },
    { 'content-type': 'application/merge-patch+json' },
  )
  await call('GET', '/recipients/canary-user')
  await call('GET', '/recipients/canary-user/timeline')
  await sleep(2_500)
  await call('POST', '/dead-letters/redrive', { ids })
  await call('POST', '/dead-letters/redrive', { all: true })
  await call('GET', `/notifications/${ids[0]}?explain=true`)
  await sleep(500)
  await call('DELETE', '/recipients/canary-user')
  process.kill(site.pid!, 'SIGHUP')
  await sleep(500)
  const metrics = await Promise.all(
    ['/metrics', '/metrics/accounts', '/metrics/tenants'].map(async (path) => {
      const { status, text } = await site.call('GET', path, undefined, headers)
      assert.equal(status, 200, path)
      return text
    }),
  )
  await site.terminate()
  const log = site.log()
  for (const text of [...metrics, log]) {
    const line = text.split('\n').find(isForbidden)
    assert.equal(line, undefined)
  }
  // The flows did happen: else a silent gateway would pass.
  for (const event of [
    'http.request',
    'http.refused',
    'notification.delivered',
    'notification.suppressed',
    'notification.delayed',
    'notification.failed',
    'notification.dead',
    'audit',
    'config.reloaded',
  ])
    assert.ok(log.includes(`"event":"${event}"`), `${event} is missing`)
})
