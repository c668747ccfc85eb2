/**
 * The four questions of somebody on call, each answered by the first sentence of one command. The sentence is compared
 * with what the sandbox counted, which shares no code with the gateway's counters.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { type Running, runningGateway, sluice } from './session.ts'

const shown = (iso: string): string => iso.replace('T', ' ').replace(/\.000Z$/, 'Z')

async function first(gateway: Running, ...args: string[]): Promise<string> {
  const { code, out, err } = await sluice([...args, '--url', gateway.url])
  assert.equal(code, 0, err)
  return out.split('\n')[0]!
}

const sms = (index: number) => ({
  recipient: { id: `u${index}`, phone: '+391234567890' },
  channel: 'sms',
  category: 'security',
  content: { text: `code ${index}` },
})

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 1_200; tries += 1) {
    if (await isSo()) return
    await delay(25)
  }
  assert.fail('it did not come to that within 30 s')
}

test('why not? explain names the account that refused, and until when it is out', async (t) => {
  const gateway = await runningGateway(
    t,
    'pools: { sms: { provider: sandbox, accounts: [{ id: only, allows: 1/h, retryAfter: "120" }] } }',
  )
  await gateway.post('/notifications', sms(0))
  const { body } = await gateway.post('/notifications', sms(1))
  const { sandbox, pools } = gateway.gateway
  await until(() => sandbox.counters('only').fates.rate_limit === 1)
  await until(() => pools().some(({ accounts }) => accounts.some(({ status }) => status === 'blocked')))
  const refused = sandbox.calls({ account: 'only' }).find(({ fate }) => fate === 'rate_limit')!
  const sentence = await first(gateway, 'explain', String(body.notificationId))
  const [, until1] = /the only account for sms is out: only until (\S+ \S+Z) by a 429/.exec(sentence) ?? []
  assert.ok(until1 !== undefined, sentence)
  const outMs = Date.parse(until1.replace(' ', 'T')) - refused.at
  // Retry-After counts from the answer, which is a few milliseconds after the call.
  assert.ok(outMs >= 120_000 && outMs < 125_000, `${outMs} ms after the sandbox refused it`)
})

test('which account, and until when? pools --out names it as the sandbox refused it', async (t) => {
  const gateway = await runningGateway(
    t,
    'pools: { sms: { provider: sandbox, accounts: [{ id: good }, { id: bad, allows: 1/h, retryAfter: "90" }] } }',
  )
  assert.equal(
    await first(gateway, 'pools', '--out', '--channel', 'sms'),
    'No account is out: all 2 carry their rate.',
  )
  for (let index = 0; index < 12; index += 1) await gateway.post('/notifications', sms(index))
  const { sandbox } = gateway.gateway
  await until(() => sandbox.counters('bad').fates.rate_limit > 0)
  await until(() => sandbox.received({}).length === 12)
  const refused = sandbox.calls({ account: 'bad' }).at(-1)!
  const sentence = await first(gateway, 'pools', '--out', '--channel', 'sms')
  const [, at] =
    /^1 of 2 accounts is out; it is bad of sandbox for sms, out by a 429 until (\S+ \S+Z) \(in [12] min\)\.$/.exec(
      sentence,
    ) ?? []
  assert.ok(at !== undefined, sentence)
  const outMs = Date.parse(at.replace(' ', 'T')) - refused.at
  assert.ok(outMs >= 90_000 && outMs < 95_000, `${outMs} ms after the sandbox refused it`)
})

test('what piles up, and when is it gone? backlog counts what the sandbox has not received, to the second', async (t) => {
  const gateway = await runningGateway(t)
  const soon = Math.ceil(Date.now() / 1_000) * 1_000 + 6_000
  const mail = (index: number, sendAt?: number) => ({
    recipient: { id: `u${index}`, email: 'a@example.com' },
    channel: 'email',
    category: 'billing',
    content: { subject: 's', text: `${index}` },
    ...(sendAt === undefined ? {} : { sendAt: new Date(sendAt).toISOString() }),
  })
  const sent = await Promise.all([
    ...[0, 1, 2].map((index) => gateway.post('/notifications', mail(index))),
    ...[3, 4, 5, 6].map((index) => gateway.post('/notifications', mail(index, soon - (6 - index) * 250))),
  ])
  assert.ok(sent.every(({ status }) => status === 202))
  const { sandbox } = gateway.gateway
  await until(() => sandbox.received({}).length === 3)
  const waiting = sent.length - sandbox.received({}).length
  const at = shown(new Date(soon).toISOString())
  assert.match(
    await first(gateway, 'backlog'),
    new RegExp(`^${waiting} notifications wait for send_at; all are gone at ${at}(?: \\(in \\d+ s\\))?\\.$`),
  )
  await until(() => sandbox.received({}).length === sent.length)
  const last = Math.max(...sandbox.received({}).map((call) => call.at))
  assert.ok(last >= soon && last < soon + 1_000, `the last one left ${last - soon} ms after the told second`)
  await until(async () => (await first(gateway, 'backlog')) === 'Nothing waits.')
})

test('us or them? top blames the provider for the calls that the sandbox failed, and nobody while all goes well', async (t) => {
  const gateway = await runningGateway(
    t,
    'pools: { sms: { provider: sandbox, retry: { attempts: 1 }, breaker: { of: 1000, inARow: 1000 }, accounts: [{ id: a, odds: { fail: 100% } }] }, email: { provider: sandbox } }',
  )
  assert.match(await first(gateway, 'top'), /^Neither: all accounts are in/)
  await Promise.all([0, 1, 2, 3, 4].map((index) => gateway.post('/notifications', sms(index))))
  await until(() => gateway.gateway.ledger.counts().dead === 5)
  const { calls, fates } = gateway.gateway.sandbox.counters('a')
  assert.equal(
    await first(gateway, 'top'),
    `Them: sandbox did not carry ${fates.fail} of ${calls} calls for sms in the last minute.`,
  )
})
