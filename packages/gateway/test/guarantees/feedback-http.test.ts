/** Feedback over sockets from its report to what it changes: the complaint guard, the timeline, the advice. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { recordedObservations, weekMs } from '../../src/advice/record.ts'
import { loadConfig } from '../../src/config/load.ts'
import { createGateway, trafficOf } from '../../src/gateway.ts'
import type { Notification } from '../../src/model.ts'
import { createHttpSink } from '../sinks/http.ts'
import { policyOf, small } from './complaints.ts'

type Body = Readonly<Record<string, unknown>>

interface Shown extends Pick<Notification, 'status' | 'decision'> {
  readonly notificationId: string
  readonly sendAt: string
  readonly timeline: readonly { readonly status: string; readonly reason?: string }[]
}

const publicUrl = 'https://notify.example.com'

/** A gateway with its HTTP server, an account that delivers at once, and one who hears its alerts. */
async function serve(t: TestContext, complaints: object) {
  const sink = await createHttpSink()
  t.after(() => sink.close())
  const cwd = mkdtempSync(join(tmpdir(), 'sluice-feedback-'))
  const path = join(cwd, 'sluice.yaml')
  writeFileSync(join(cwd, 'policy.yaml'), JSON.stringify(policyOf(complaints)))
  const settings = {
    store: 'sqlite:./feedback.db',
    policy: './policy.yaml',
    http: { port: 0, publicUrl },
    network: { allowPrivate: true },
    alerts: { url: `${sink.url}/alerts` },
    pools: { email: { provider: 'sandbox', accounts: [{ id: 'main', rate: 'unlimited' }] } },
    log: { level: 'error' },
  }
  writeFileSync(path, JSON.stringify(settings))
  const config = loadConfig({ path, cwd, env: {} })
  const gateway = await createGateway(config)
  const { url } = await gateway.start()
  t.after(async () => {
    await gateway.stop()
    rmSync(cwd, { recursive: true, force: true })
  })
  async function call(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; text: string }> {
    const answer = await fetch(`${url}${path}`, {
      method,
      ...(body === undefined
        ? {}
        : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    })
    return { status: answer.status, text: await answer.text() }
  }
  const api = async <T>(method: string, path: string, body?: unknown): Promise<T> =>
    JSON.parse((await call(method, `/api/v1${path}`, body)).text) as T
  let recipients = 0
  return {
    gateway,
    call,
    api,
    alerts: () => sink.requests.map(({ body }) => JSON.parse(body) as Body),
    post: (more: Body = {}) => {
      recipients += 1
      const id = `r${recipients}`
      return api<Shown>('POST', '/notifications', {
        recipient: { id, email: `${id}@example.com` },
        channel: 'email',
        category: 'marketing',
        content: { subject: 'Hello', text: `number ${recipients}` },
        ...more,
      })
    },
    read: (id: string) => api<Shown>('GET', `/notifications/${id}`),
  }
}

async function until(is: () => boolean | Promise<boolean>, what: string, ms = 60_000): Promise<void> {
  for (const end = performance.now() + ms; !(await is()); await sleep(50))
    assert.ok(performance.now() < end, what)
}

test('complaints that are posted pause the category, and the pause is told by the notification, the overview, metrics and alerts until it ends', async (t) => {
  const { api, call, post, read, alerts } = await serve(t, { ...small, window: '12s', minimumDelivered: 20 })
  // The window is longer than a loaded machine takes from the first delivery to the overview.
  const sent = await Promise.all(Array.from({ length: 40 }, () => post()))
  for (const { notificationId } of sent)
    await until(async () => (await read(notificationId)).status === 'delivered', notificationId)
  const events = sent.slice(0, 20).map(({ notificationId }) => ({
    ...{ type: 'complaint', notificationId, at: new Date().toISOString() },
  }))
  assert.deepEqual(await api('POST', '/feedback', events), { accepted: 20 })
  const waits = await post()
  assert.deepEqual([waits.status, waits.decision.reason], ['scheduled', 'complaint_guard'])
  const overview = await api<{ complaints: readonly Body[]; problems: readonly Body[] }>('GET', '/overview')
  const [paused] = overview.complaints
  assert.deepEqual(
    [paused?.stage, paused?.delivered, paused?.complained, paused?.until],
    ['paused', 40, 20, waits.sendAt],
  )
  assert.ok(overview.problems.some(({ code }) => code === 'CATEGORY_PAUSED'))
  const shown = await read(waits.notificationId)
  assert.deepEqual([shown.decision.reason, shown.sendAt], ['complaint_guard', waits.sendAt])
  const metrics = (await call('GET', '/metrics')).text
  assert.match(metrics, /^sluice_complaint_throttle_ratio\{category="marketing"\} 0$/m)
  assert.match(metrics, /^sluice_feedback_events_total\{type="complaint"\} 20$/m)
  assert.equal((await post({ category: 'security' })).status, 'queued')
  await until(() => alerts().some(({ type }) => type === 'complaints.paused'), 'alert of the pause')
  await until(async () => (await read(waits.notificationId)).status === 'delivered', 'the end of the pause')
  assert.ok(Date.now() >= new Date(waits.sendAt).getTime())
  await until(() => alerts().some(({ type }) => type === 'complaints.resumed'), 'alert of the end')
  await until(
    async () => (await api<{ complaints: readonly Body[] }>('GET', '/overview')).complaints.length === 0,
    'no category is slowed',
  )
})

test('a click on the link of a mail is an unsubscribe of that mail, once, in its timeline and in the advice', async (t) => {
  const { gateway, call, post, read } = await serve(t, small)
  const [clicked, other] = [await post(), await post()]
  await until(() => gateway.sandbox.received().length === 2, 'both mails')
  const mail = gateway.sandbox.received().find(({ message }) => message.id === clicked.notificationId)
  const path = mail!.message.unsubscribeUrl!.slice(publicUrl.length)
  for (let clicks = 0; clicks < 2; clicks += 1) assert.equal((await call('POST', path)).status, 200)
  const reasonsOf = async (id: string) => (await read(id)).timeline.flatMap(({ reason }) => reason ?? [])
  assert.deepEqual(await reasonsOf(clicked.notificationId), ['unsubscribe'])
  assert.deepEqual(await reasonsOf(other.notificationId), [])
  const to = Date.now() + 1_000
  const source = trafficOf(gateway.store)
  const found = await recordedObservations({ source, from: to - weekMs, to, category: 'marketing' })
  assert.ok('observations' in found)
  assert.deepEqual(
    found.observations.map(({ frequency, people, churned }) => [frequency, people, churned]),
    [[1, 2, 1]],
  )
  // No report is left waiting for its mail.
  assert.equal(gateway.feedback.counts().unknown + gateway.feedback.counts().waiting, 0)
})
