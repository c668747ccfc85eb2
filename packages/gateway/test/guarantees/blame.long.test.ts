/**
 * Who is blamed, over real sockets: what happens at one recipient's own endpoint is that endpoint's matter, and a
 * shared account goes on for everybody else. A whole gateway as a process, and one server for each endpoint.
 */
import assert from 'node:assert/strict'
import { createECDH, generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import https from 'node:https'
import { type AddressInfo, connect, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSandboxServer } from '../../src/sandbox/server.ts'
import { createSite, type Site } from '../child.ts'
import { certificate, certificateKey } from '../sinks/certificate.ts'
import { createHttpSink, type HttpRule, type HttpSink } from '../sinks/http.ts'

interface Shown {
  readonly status: string
  readonly notificationId: string
  readonly timeline: readonly {
    readonly status: string
    readonly reason?: string
    readonly attempt?: number
  }[]
}
interface Account {
  readonly id: string
  readonly status: string
}

async function sinkOf(t: TestContext, rules: readonly HttpRule[] = []): Promise<HttpSink> {
  const sink = await createHttpSink({ rules })
  t.after(() => sink.close())
  return sink
}

async function siteOf(t: Pick<TestContext, 'after'>, pools: object): Promise<Site> {
  const config = { log: { level: 'warn' }, network: { allowPrivate: true }, pools }
  const site = await createSite(t, { policy: { version: 1, limits: [] }, config })
  await site.start()
  return site
}

async function post(site: Site, body: object): Promise<string> {
  const answer = await site.call('POST', '/api/v1/notifications', {
    content: { title: 't', text: 'x' },
    ...body,
  })
  assert.equal(answer.status, 202, answer.text)
  return answer.json<Shown>().notificationId
}

const show = async (site: Site, id: string): Promise<Shown> =>
  (await site.call('GET', `/api/v1/notifications/${id}`)).json<Shown>()

const accounts = async (site: Site): Promise<readonly string[]> =>
  (await site.call('GET', '/api/v1/pools'))
    .json<{ pools: { accounts: Account[] }[] }>()
    .pools.flatMap((pool) => pool.accounts.map(({ status }) => status))

async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let tries = 0; tries < 1_200; tries += 1) {
    if (await holds()) return
    await sleep(50)
  }
  assert.fail(what)
}

const hook = (id: string, webhookUrl: string): object => ({
  channel: 'webhook',
  recipient: { id, webhookUrl },
})
const vapid = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' })

/** One gateway whose accounts are shared by all recipients of these tests: each leaves them healthy. */
let site: Site
const ends: (() => unknown)[] = []
after(async () => {
  for (const end of ends) await end()
})
before(async () => {
  const webhook = { provider: 'webhook', accounts: [{ id: 'shared', concurrency: 40 }], timeout: '20s' }
  const key = { id: 'v', secret: vapid.d, subject: 'mailto:ops@example.com', services: ['127.0.0.1'] }
  const later = { after: (end: () => unknown) => void ends.push(end) } as Pick<TestContext, 'after'>
  site = await siteOf(later, { webhook, push: { provider: 'webpush', accounts: [key] } })
})

const faults: readonly (readonly [string, HttpRule, number])[] = [
  ['answers 429 with a day of Retry-After', { status: 429, headers: { 'retry-after': '86400' } }, 2],
  ['answers 503 with an hour of Retry-After', { status: 503, headers: { 'retry-after': '3600' } }, 2],
  ['answers 500 twelve times', { status: 500 }, 16],
  ['resets twelve connections', { do: 'reset' }, 16],
]
for (const [what, rule, callsMax] of faults) {
  test(`a recipient’s webhook that ${what} blocks nobody else, and its account stays healthy`, async (t) => {
    const [bad, good] = [await sinkOf(t, [rule]), await sinkOf(t)]
    const theirs = await post(site, hook('bad', bad.url))
    await until(() => bad.requests.length > 0, 'it was never called')
    const waiting: string[] = []
    for (let index = 0; index < 20; index += 1) waiting.push(await post(site, hook('bad', bad.url)))
    await sleep(1_500)
    const called = bad.requests.length
    for (let index = 0; index < 20; index += 1) await post(site, hook(`p${index}`, `${good.url}/${index}`))
    await until(() => good.requests.length === 20, `only ${good.requests.length} of 20 others arrived`)
    assert.deepEqual([...new Set(await accounts(site))], ['healthy'])
    assert.ok(called <= callsMax, `${called} calls`)
    const states = await Promise.all([theirs, ...waiting].map(async (id) => (await show(site, id)).status))
    assert.deepEqual([...new Set(states)], ['scheduled'])
    const last = await show(site, waiting.at(-1)!)
    assert.equal(last.timeline.at(-1)!.reason, 'provider_capacity')
    assert.equal(last.timeline.at(-1)!.attempt, undefined, 'waiting is no attempt')
  })
}

test('recipients’ webhooks that hang leave room for the others', async (t) => {
  const hanging = await Promise.all(Array.from({ length: 10 }, () => sinkOf(t, [{ do: 'hang' }])))
  const good = await sinkOf(t)
  for (let round = 0; round < 6; round += 1)
    for (const [index, { url }] of hanging.entries()) await post(site, hook(`bad${index}`, url))
  await until(() => hanging.some(({ requests }) => requests.length > 0), 'none was called')
  for (let index = 0; index < 30; index += 1) await post(site, hook(`p${index}`, `${good.url}/${index}`))
  await until(() => good.requests.length === 30, `only ${good.requests.length} of 30 others arrived`)
})

test('a webhook that answers 408, 423 or 425 is called again', async (t) => {
  const statuses = [408, 423, 425]
  const sink = await sinkOf(
    t,
    statuses.map((status) => ({ match: `/${status}$`, status, times: 1 })),
  )
  for (const status of statuses) {
    const id = await post(site, hook(`p${status}`, `${sink.url}/${status}`))
    await until(async () => (await show(site, id)).status === 'delivered', 'it was not delivered')
  }
  assert.equal(sink.requests.length, 6)
})

test('a 503 with Retry-After is called again when it says', async (t) => {
  const sink = await sinkOf(t, [{ status: 503, headers: { 'retry-after': '3' }, times: 1 }])
  const id = await post(site, hook('ada', sink.url))
  await until(async () => (await show(site, id)).status === 'delivered', 'it was not delivered')
  const [first, second] = sink.requests.map(({ at }) => at)
  assert.ok(second! - first! >= 2_990, `${second! - first!} ms`)
})

test('a push service that answers 429 is blocked by itself: other services go on over the same account', async (t) => {
  const busy = await sinkOf(t, [{ status: 429, headers: { 'retry-after': '3600' } }])
  const broken = await sinkOf(t, [{ status: 500 }])
  const good = await sinkOf(t, [{ status: 201 }])
  const browser = createECDH('prime256v1')
  const keys = { p256dh: browser.generateKeys('base64url'), auth: Buffer.alloc(16, 7).toString('base64url') }
  const push = ({ url }: HttpSink, id: string): object => ({
    channel: 'push',
    recipient: { id, pushToken: JSON.stringify({ endpoint: `${url}/push/${id}`, keys }) },
  })
  const refused = await post(site, push(busy, 'b0'))
  await until(async () => (await show(site, refused)).status === 'scheduled', 'it does not wait')
  const waits = await post(site, push(busy, 'b1'))
  for (let index = 0; index < 15; index += 1) await post(site, push(broken, `c${index}`))
  for (let index = 0; index < 20; index += 1) await post(site, push(good, `g${index}`))
  await until(() => good.requests.length === 20, `only ${good.requests.length} of 20 others arrived`)
  assert.equal(busy.requests.length, 1)
  assert.equal((await show(site, waits)).timeline.at(-1)!.reason, 'provider_capacity')
  assert.deepEqual([...new Set(await accounts(site))], ['healthy'])
})

test('twelve messages to a region that an account may not text leave it healthy, and another account carries them', async (t) => {
  const twilio = await createSandboxServer()
  t.after(() => twilio.close())
  const sidOf = (digit: string): string => `AC${digit.repeat(32)}`
  const account = (id: string, digit: string, from: string): object => ({
    id,
    url: twilio.url,
    sid: sidOf(digit),
    secret: 'a-token',
    from,
    rate: 'unlimited',
  })
  const sms = (phone: string): object => ({
    channel: 'sms',
    recipient: { id: phone, phone },
    content: { text: 'x' },
  })
  // Twilio's number for a region that is not enabled.
  const alone = await siteOf(t, {
    sms: { provider: 'twilio', accounts: [account('a', '1', '+15550100200')] },
  })
  for (let index = 0; index < 12; index += 1) await post(alone, sms('+15005550003'))
  await until(() => twilio.requests().length >= 18, 'they are not tried again')
  const fine = await post(alone, sms('+390612345678'))
  await until(async () => (await show(alone, fine)).status === 'delivered', 'the others do not leave')
  assert.deepEqual([...new Set(await accounts(alone))], ['healthy'])
  // Twilio's number for a sender that is none for this destination.
  const both = [account('bad', '1', '+15005550007'), account('good', '2', '+15550100200')]
  const site = await siteOf(t, { sms: { provider: 'twilio', accounts: both } })
  const ids: string[] = []
  for (let index = 0; index < 8; index += 1) ids.push(await post(site, sms(`+3906123456${10 + index}`)))
  for (const id of ids)
    await until(
      async () => (await show(site, id)).status === 'delivered',
      'another account does not carry it',
    )
  assert.deepEqual([...new Set(await accounts(site))], ['healthy'])
})

test('an account whose sender is none ends no message that another account can carry', async (t) => {
  const refusing = await sinkOf(t, [{ status: 400, body: '{"code":21212,"status":400}' }])
  const taking = await sinkOf(t, [{ status: 201, body: '{"sid":"SM1"}' }])
  const sites = [refusing, taking].map(({ url }, index) => ({
    id: `a${index}`,
    url: `${url}/gateway/twilio`,
    sid: `AC${'1'.repeat(32)}`,
    secret: 'a-token',
    from: '+15550100200',
  }))
  const site = await siteOf(t, { sms: { provider: 'twilio', accounts: sites } })
  const ids: string[] = []
  for (let index = 0; index < 10; index += 1)
    ids.push(
      await post(site, { channel: 'sms', recipient: { id: `p${index}`, phone: `+3906123456${10 + index}` } }),
    )
  for (const id of ids)
    await until(
      async () => (await show(site, id)).status === 'delivered',
      'another account does not carry it',
    )
  assert.ok(refusing.requests.length > 0)
  assert.match(taking.requests[0]!.path, /^\/gateway\/twilio\/2010-04-01\//, 'the path of the url is kept')
})

test('the gateway calls through the proxy of the configuration, and trusts the authority that it names', async (t) => {
  const asked: string[] = []
  const proxy = createServer()
  proxy.on('connect', ({ url }, socket) => {
    asked.push(url!)
    const there = connect(Number(url!.split(':')[1]), 'localhost', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      there.pipe(socket).pipe(there)
    })
    for (const each of [there, socket]) each.on('error', () => each.destroy())
  })
  const secure = https.createServer({ cert: certificate, key: certificateKey }, (_, response) =>
    response.end(),
  )
  for (const server of [proxy, secure]) {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close().closeAllConnections())
  }
  const portOf = (server: Server): number => (server.address() as AddressInfo).port
  const folder = mkdtempSync(join(tmpdir(), 'sluice-ca-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'ca.pem'), certificate)
  const network = { proxy: `http://127.0.0.1:${portOf(proxy)}`, noProxy: [], ca: join(folder, 'ca.pem') }
  const account = { id: 'a', url: `https://localhost:${portOf(secure)}/in` }
  const site = await createSite(t, {
    policy: { version: 1, limits: [] },
    config: {
      log: { level: 'warn' },
      network,
      pools: { webhook: { provider: 'webhook', accounts: [account] } },
    },
  })
  await site.start()
  const id = await post(site, { channel: 'webhook', recipient: 'ada' })
  await until(async () => (await show(site, id)).status === 'delivered', site.log())
  assert.deepEqual(asked, [`localhost:${portOf(secure)}`])
})
