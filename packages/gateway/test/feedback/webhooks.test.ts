/** Webhooks of providers at a whole gateway over HTTP: what a call changes, and that a refused one changes nothing. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import twilio from 'twilio'
import { stringify } from 'yaml'
import { loadConfig } from '../../src/config/load.ts'
import type { WebhookCall } from '../../src/feedback/forms/form.ts'
import { createGateway } from '../../src/gateway.ts'
import { ec, mailgunBody, sendgridCall } from './signers.ts'

const cwd = mkdtempSync(join(tmpdir(), 'sluice-feedback-'))
const publicUrl = 'https://notify.example.com/sluice'
const publicKey = ec.publicKey.export({ type: 'spki', format: 'der' }).toString('base64')
const sandbox = { provider: 'sandbox' }
writeFileSync(
  join(cwd, 'sluice.yaml'),
  stringify({
    http: { port: 0, publicUrl },
    store: 'sqlite::memory:',
    tenants: { default: { rate: 'unlimited', modules: 'unlimited' } },
    pools: {
      email: [
        { ...sandbox, accounts: [{ id: 'main', feedback: { form: 'sendgrid', publicKey } }] },
        { ...sandbox, accounts: [{ id: 'other', feedback: { form: 'mailgun', signingKey: 'key-1' } }] },
      ],
      sms: { ...sandbox, accounts: [{ id: 'texts', feedback: { form: 'twilio', authToken: 'token' } }] },
      push: sandbox,
    },
    log: { level: 'silent' },
  }),
)
const gateway = await createGateway(loadConfig({ cwd, env: {} }))
const { url } = await gateway.start()
after(async () => {
  await gateway.stop()
  rmSync(cwd, { recursive: true })
})

async function ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const text = Buffer.isBuffer(body) ? body : JSON.stringify(body)
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { ...type, ...headers },
    ...(body === undefined ? {} : { body: text }),
  })
  return { status: answer.status, body: (await answer.json()) as Record<string, never> & { items: never[] } }
}

/** Sends a notification and waits until it is delivered. */
async function sent(draft: object, tenant = 'acme'): Promise<string> {
  const content = { subject: 'Hello', text: `Hello ${Math.random()}` }
  const of = { 'x-tenant-id': tenant }
  const { body } = await ask('POST', '/api/v1/notifications', { content, category: 'news', ...draft }, of)
  const { notificationId: id } = body as unknown as { notificationId: string }
  for (let tries = 0; tries < 2_000; tries += 1) {
    const { body: found } = await ask('GET', `/api/v1/notifications/${id}`, undefined, of)
    if ((found as { status?: string }).status === 'delivered') return id
    await delay(10)
  }
  throw new Error(`${id} was not delivered`)
}

const call = (path: string, { headers, body }: Pick<WebhookCall, 'headers' | 'body'>) =>
  ask('POST', `/api/v1/feedback/${path}`, body, headers as Record<string, string>)
const timelineOf = async (id: string, tenant = 'acme') => {
  const { body } = await ask('GET', `/api/v1/notifications/${id}`, undefined, { 'x-tenant-id': tenant })
  return (body as unknown as { timeline: { status: string; reason?: string; account?: string }[] }).timeline
}
const recipient = (id: string, tenant = 'acme') =>
  ask('GET', `/api/v1/recipients/${id}`, undefined, { 'x-tenant-id': tenant })
const metric = async (name: string) => {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(new RegExp(`^${name.replaceAll(/[{}"]/g, '\\$&')} (\\d+)`, 'm').exec(text)?.[1])
}

const email = { recipient: { id: 'ada', email: 'ada@example.com' }, channel: 'email' }

test('a signed webhook stands in the timeline, applies to the recipient, and counts once', async () => {
  const id = await sent(email)
  const event = { event: 'spamreport', timestamp: Date.now() / 1_000, sg_event_id: 'e1', notification_id: id }
  const signed = sendgridCall([event, { ...event, event: 'open', sg_event_id: 'e2' }], Date.now())
  for (let times = 0; times < 2; times += 1) {
    const { status, body } = await call('email/main', signed)
    assert.deepEqual([status, body], [202, { accepted: 2 }])
  }
  const told = (await timelineOf(id))
    .slice(-2)
    .map(({ status, reason, account }) => [status, reason, account])
  assert.deepEqual(told, [
    ['delivered', 'complaint', 'main'],
    ['delivered', 'open', 'main'],
  ])
  const { body } = await recipient('ada')
  assert.deepEqual((body as unknown as { optOuts: unknown }).optOuts, [
    { category: 'news', channel: 'email' },
  ])
  assert.equal(await metric('sluice_feedback_events_total{type="complaint"}'), 1)
})

test('a call that is not authentic is 401, counted, and leaves nothing', async () => {
  const id = await sent({ ...email, recipient: { id: 'bob', email: 'bob@example.com' } })
  const event = { event: 'spamreport', timestamp: 1, sg_event_id: 'e3', notification_id: id }
  const signed = sendgridCall([event], Date.now())
  const changed = { ...signed, body: Buffer.from(`${signed.body.toString()} `) }
  const { status, body } = await call('email/main', changed)
  assert.deepEqual([status, (body as { code?: string }).code], [401, 'UNAUTHENTICATED'])
  const old = await call('email/main', sendgridCall([event], Date.now() - 3_600_000))
  assert.equal(old.status, 401)
  assert.equal((await timelineOf(id)).at(-1)!.reason, undefined)
  assert.equal((await recipient('bob')).status, 404)
  assert.equal(await metric('sluice_feedback_refused_total{form="sendgrid",reason="signature"}'), 1)
  assert.equal(await metric('sluice_feedback_refused_total{form="sendgrid",reason="stale"}'), 1)
  assert.equal((await call('email/nobody', signed)).status, 404)
  assert.equal((await call('push/sandbox', signed)).status, 404, 'an account without feedback')
  assert.equal((await call('fax/main', signed)).status, 400)
  assert.equal((await call('email/main', sendgridCall('"text"', Date.now()))).status, 400)
})

test('an account says nothing about messages that another account sent', async () => {
  const id = await sent({ ...email, recipient: { id: 'eve', email: 'eve@example.com' } })
  const complaint = {
    ...{ event: 'complained', id: 'g1', timestamp: Date.now() / 1_000 },
    message: { headers: { 'message-id': `${id}@example.com` } },
  }
  const body = Buffer.from(JSON.stringify(mailgunBody(complaint, Date.now(), 'key-1')))
  assert.equal((await call('email/other', { headers: {}, body })).status, 202)
  assert.equal((await recipient('eve')).status, 404)
  assert.equal(await metric('sluice_feedback_waiting'), 1)
  assert.equal((await call('email/other', { headers: {}, body })).status, 401, 'the same token again')
})

test('STOP opts the recipient out of the channel to whom the account last sent at that number', async () => {
  const phone = '+15550100200'
  await sent({ channel: 'sms', category: 'security', recipient: { id: 'first', phone } }, 'one')
  await delay(150)
  await sent({ channel: 'sms', category: 'security', recipient: { id: 'last', phone } }, 'two')
  await delay(150)
  const fields = { MessageSid: 'SM9', From: phone, To: '+15550100100', Body: 'Stop' }
  const address = `${publicUrl}/api/v1/feedback/sms/texts`
  const headers = {
    'content-type': 'application/x-www-form-urlencoded',
    'x-twilio-signature': twilio.getExpectedTwilioSignature('token', address, fields),
  }
  const body = Buffer.from(new URLSearchParams(fields).toString())
  const { status, body: answer } = await call('sms/texts', { headers, body })
  assert.deepEqual([status, answer], [202, { accepted: 1 }])
  const { body: last } = await recipient('last', 'two')
  assert.deepEqual((last as unknown as { optOuts: unknown }).optOuts, [{ channel: 'sms' }])
  assert.equal((await recipient('first', 'one')).status, 404)
})

test('a recipient’s page of notifications shows feedback too', async () => {
  const id = await sent({ ...email, category: 'other', recipient: { id: 'kim', email: 'kim@example.com' } })
  const at = new Date().toISOString()
  const of = { 'x-tenant-id': 'acme' }
  assert.equal(
    (await ask('POST', '/api/v1/feedback', { type: 'click', notificationId: id, at }, of)).status,
    202,
  )
  const { body } = await ask('GET', '/api/v1/recipients/kim/timeline', undefined, of)
  const [first] = body.items as unknown as { timeline: { reason?: string }[] }[]
  assert.equal(first!.timeline.at(-1)!.reason, 'click')
})

test('another signing key is in force after a reload', async () => {
  const yaml = readFileSync(join(cwd, 'sluice.yaml'), 'utf8')
  writeFileSync(join(cwd, 'sluice.yaml'), yaml.replace('key-1', 'key-2'))
  await gateway.reload(loadConfig({ cwd, env: {} }))
  const said = async (key: string) => {
    const body = Buffer.from(JSON.stringify(mailgunBody({ event: 'accepted' }, Date.now(), key, `of ${key}`)))
    return (await call('email/other', { headers: {}, body })).status
  }
  assert.deepEqual([await said('key-1'), await said('key-2')], [401, 202])
})
