/** Blame for a mail server's replies, over a real socket; every reply by itself is in smtp-reply.test.ts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { runningGateway } from '../cli/session.ts'
import { createSmtpSink } from '../sinks/smtp.ts'
import { connected } from './smtp-rig.ts'

test('a greylisted recipient is retried after minutes, and no other recipient is delayed', async (t) => {
  const { sink, send } = await connected(t)
  for (const reply of [
    '450 4.2.0 <ada@example.com>: Recipient address rejected: Greylisted',
    '451 4.7.1 Greylisting in action, please come back later',
    '452 4.2.2 mailbox full',
    '450 try again later',
  ]) {
    sink.rules = [{ at: 'rcpt', match: 'ada', do: reply }]
    assert.deepEqual(await send(), {
      outcome: 'failed',
      detail: reply,
      recipientFault: true,
      retry: 'greylisting',
    })
    assert.equal((await send({ to: { id: 'u', email: 'bob@example.com' } })).outcome, 'delivered')
  }
})

const accountsFaults: readonly (readonly ['rcpt' | 'body', string])[] = [
  ['rcpt', '554 5.7.1 <notifications@localhost>: Sender address rejected: Access denied'],
  ['rcpt', '554 5.7.1 <ada@example.com>: Relay access denied'],
  ['rcpt', '550 5.1.0 <notifications@localhost>'],
  ['rcpt', '553 5.7.1 <notifications@localhost>: not owned by user ada'],
  ['rcpt', '554 5.2.252 SendAsDenied; notifications@localhost'],
  ['rcpt', '450 4.1.8 <notifications@localhost>: Sender address rejected: Domain not found'],
  ['body', '554 5.2.252 SendAsDenied; notifications@localhost'],
  [
    'body',
    '554 Message rejected: Email address is not verified. The following identities failed the check in region EU-CENTRAL-1: notifications@localhost',
  ],
]
for (const [at, reply] of accountsFaults) {
  test(`“${reply.slice(0, 70)}” to ${at} is the account’s fault, and another account may carry the mail`, async (t) => {
    const { sink, send } = await connected(t)
    sink.rules = [{ at, do: reply }]
    assert.deepEqual(await send(), { outcome: 'failed', detail: reply.slice(0, 200) })
  })
}

test('an account whose daily quota is used up backs off longer and longer', async (t) => {
  let now = 0
  const { sink, send } = await connected(t, { provider: { clock: { now: () => now } } })
  sink.rules = [{ at: 'body', do: '454 Throttling failure: Daily message quota exceeded.' }]
  const refused = async (): Promise<number> => {
    const result = await send()
    return result.outcome === 'rate_limited' ? Number(result.retryAfter) : -1
  }
  // Calls that were under way at the same time count once.
  assert.deepEqual(await Promise.all([refused(), refused(), refused()]), [60, 60, 60])
  const waits: number[] = []
  for (let trial = 0; trial < 8; trial += 1) {
    now += (waits.at(-1) ?? 60) * 1_000
    waits.push(await refused())
  }
  assert.deepEqual(waits, [120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600])
  sink.rules = []
  now += 3_600_000
  assert.equal((await send()).outcome, 'delivered')
  sink.rules = [{ at: 'body', do: '550 5.4.5 Daily user sending limit exceeded' }]
  assert.equal(await refused(), 60)
})

test('an unreachable server counts as an outage, and an untrusted certificate does not', async (t) => {
  const { sink, send } = await connected(t)
  sink.rules = [{ at: 'connect', do: '421 4.3.2 not now' }]
  const refused = await send()
  assert.equal(refused.outcome === 'failed' && refused.retry, 'outage')
  await sink.close()
  const gone = await send()
  assert.equal(gone.outcome === 'failed' && gone.retry, 'outage')
  const strict = await connected(t, { sink: { tls: 'at-once' }, account: { tls: 'required' } })
  const untrusted = await strict.send()
  assert.equal(untrusted.outcome === 'failed' && untrusted.retry, undefined)
})

test('a mail that one relay refuses is carried by the next account, and its timeline names the refusal', async (t) => {
  const [refusing, taking] = await Promise.all([createSmtpSink(), createSmtpSink()])
  t.after(() => Promise.all([refusing.close(), taking.close()]))
  refusing.rules = [{ at: 'rcpt', do: '554 5.7.1 <ada@example.com>: Relay access denied' }]
  const { url, post } = await runningGateway(
    t,
    `pools: { email: { provider: smtp, accounts: [{ id: a, url: "${refusing.url}" }, { id: b, url: "${taking.url}" }] } }`,
  )
  const ids: string[] = []
  for (let index = 0; index < 4; index += 1) {
    const { body } = await post('/notifications', {
      recipient: { id: `user-${index}`, email: `ada-${index}@example.com` },
      channel: 'email',
      category: 'security',
      content: { subject: 's', text: 't' },
    })
    ids.push(String(body.notificationId))
  }
  const read = async (id: string) =>
    (await (await fetch(`${url}/api/v1/notifications/${id}`)).json()) as { status: string }
  for (const end = performance.now() + 30_000; taking.mails.length < 4 && performance.now() < end; )
    await wait(20)
  await wait(200)
  for (const id of ids) assert.equal((await read(id)).status, 'delivered')
  assert.equal(taking.mails.length, 4)
  assert.ok(refusing.commands.some((line) => line.startsWith('RCPT')))
})

test('twelve greylisting recipients leave the account healthy, and are retried in minutes', async (t) => {
  const sink = await createSmtpSink()
  t.after(() => sink.close())
  sink.rules = [{ at: 'rcpt', match: '^grey', do: '450 4.7.1 Greylisted, please come back later' }]
  const { url, post } = await runningGateway(
    t,
    `pools: { email: { provider: smtp, accounts: [{ id: a, url: "${sink.url}" }] } }`,
  )
  const accept = async (email: string): Promise<string> => {
    const content = { subject: 's', text: 't' }
    const message = { recipient: { id: email, email }, channel: 'email', category: 'security', content }
    return String((await post('/notifications', message)).body.notificationId)
  }
  const get = async (path: string) => (await fetch(`${url}/api/v1${path}`)).json()
  const grey = await Promise.all(
    Array.from({ length: 12 }, (_, index) => accept(`grey-${index}@example.com`)),
  )
  const asked = (): number => sink.commands.filter((line) => line.startsWith('RCPT TO:<grey')).length
  for (const end = performance.now() + 30_000; asked() < 12 && performance.now() < end; ) await wait(20)
  await wait(300)
  const { pools } = (await get('/pools')) as { pools: { channel: string; accounts: { status: string }[] }[] }
  assert.equal(pools.find(({ channel }) => channel === 'email')!.accounts[0]!.status, 'healthy')
  for (const id of grey) {
    const { status, sendAt } = (await get(`/notifications/${id}`)) as { status: string; sendAt: string }
    assert.equal(status, 'scheduled')
    assert.ok(Date.parse(sendAt) - Date.now() > 30_000, sendAt)
  }
  const other = await accept('ada@example.com')
  for (const end = performance.now() + 30_000; sink.mails.length < 1 && performance.now() < end; )
    await wait(20)
  await wait(200)
  assert.equal(((await get(`/notifications/${other}`)) as { status: string }).status, 'delivered')
})
