/** The log of a whole gateway: one JSON line for each event, bounded, without an address or a secret. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createLog } from '../../src/log.ts'
import { createLineLimit } from '../../src/observability/line-limit.ts'
import { logEvents } from '../../src/observability/log-events.ts'
import { logText } from '../../src/observability/log-text.ts'
import { maskAnswer, maskText } from '../../src/observability/masking.ts'
import { createSite, type Site } from '../child.ts'
import { start } from '../cli/process.ts'
import { audience, createSigner, type GoodClaims, issuer, tokenFor } from '../tokens.ts'

interface Line {
  readonly event: string
  readonly level: string
  readonly [field: string]: unknown
}

/** The lines that are JSON, from the first one on. */
const linesOf = (site: Pick<Site, 'log'>): readonly Line[] =>
  site
    .log()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line)

async function lineOf(
  site: Pick<Site, 'log'>,
  event: string,
  fits = (_line: Line): boolean => true,
): Promise<Line> {
  for (const until = performance.now() + 30_000; performance.now() < until; await sleep(20)) {
    const found = linesOf(site).find((line) => line.event === event && fits(line))
    if (found !== undefined) return found
  }
  assert.fail(`no line ${event} in\n${site.log()}`)
}

const signer = createSigner('HS256')
const keyedConfig = { auth: { jwt: { secret: signer.publicKey, issuer, audience } } }
const bearer = (claims: GoodClaims) => ({ authorization: `Bearer ${tokenFor(signer, claims)}` })

const email = { recipient: { id: 'ada', email: 'ada@canary.example' }, channel: 'email' }
const content = { subject: 'canary-subject', text: 'canary-text' }

test('every line of a gateway has an event, from its start to its stop', async (t) => {
  const site = await createSite(t, { config: { log: { level: 'info' } } })
  await site.start()
  const started = await lineOf(site, 'gateway.started')
  assert.deepEqual([started.address, started.waiting, started.recovered], [site.url, 0, false])
  assert.match(String(started.time), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.equal(typeof started.version, 'string')
  assert.equal(started.pid, undefined)
  await site.terminate()
  const events = linesOf(site).map(({ event }) => event)
  assert.deepEqual(events, ['gateway.started', 'config.loaded', 'gateway.draining', 'gateway.stopped'])
  assert.equal((await lineOf(site, 'gateway.stopped')).leftForNextStart, 0)
})

test('a dead letter and a rejection are warnings that name the account and no address', async (t) => {
  const pools = {
    email: { provider: 'sandbox', accounts: [{ id: 'refuses', odds: { reject: 1 } }] },
    sms: { provider: 'sandbox', retry: { attempts: 1 }, accounts: [{ id: 'down', odds: { fail: 1 } }] },
  }
  const site = await createSite(t, { config: { pools, log: { level: 'info' } } })
  await site.start()
  await site.call('POST', '/api/v1/notifications', { ...email, content, category: 'security' })
  const failed = await lineOf(site, 'notification.failed')
  assert.deepEqual([failed.level, failed.channel, failed.account], ['warn', 'email', 'refuses'])
  assert.match(String(failed.recipient), /^[0-9a-f]{12}$/)
  await site.call('POST', '/api/v1/notifications', {
    recipient: { id: 'ada', phone: '+393331234567' },
    channel: 'sms',
    category: 'security',
    content: { text: 'canary-text' },
  })
  const dead = await lineOf(site, 'notification.dead')
  assert.deepEqual([dead.cause, dead.attempt], ['attempts_exhausted', 1])
  const hash = start(t, ['hash', 'ada'], { cwd: site.folder })
  assert.equal(await hash.firstLine, failed.recipient, 'the command finds the lines of a recipient')
  // A hash of a recipient, which is hexadecimal, may hold the three letters by chance.
  assert.doesNotMatch(site.log(), /\bada\b|canary|3331234567/)
})

test('a flood of refusals is one line a second, which says how many it stands for', async (t) => {
  const site = await createSite(t, { config: { ...keyedConfig, log: { level: 'info' } } })
  await site.start()
  for (let count = 0; count < 200; count += 1) await site.call('GET', '/api/v1/notifications')
  const refused = () => linesOf(site).filter(({ event }) => event === 'http.refused')
  await lineOf(site, 'http.refused', ({ suppressedLines }) => suppressedLines !== undefined)
  await sleep(1_200)
  const told = refused()
  assert.ok(told.length >= 2 && told.length <= 8, `${told.length} lines`)
  const counted = told.reduce((sum, { suppressedLines }) => sum + Number(suppressedLines ?? 0), 0)
  // A line that only carries the count of those before it stands for one of them.
  assert.ok(counted + told.length >= 200, `${counted} in ${told.length} lines`)
  assert.deepEqual([told[0]!.code, told[0]!.status, told[0]!.level], ['UNAUTHENTICATED', 401, 'warn'])
  assert.equal(typeof told[0]!.requestId, 'string')
})

test('every change by an operator is audited with subject, filter and count; sending is not', async (t) => {
  const site = await createSite(t, { config: { ...keyedConfig, log: { level: 'info' } } })
  await site.start()
  const headers = bearer({ scope: 'sluice:admin', sub: 'olivia' })
  await site.call('POST', '/api/v1/notifications', { ...email, content }, headers)
  await site.call('POST', '/api/v1/dead-letters/redrive', { channel: 'email' }, headers)
  const audit = await lineOf(site, 'audit')
  assert.deepEqual(
    [audit.sub, audit.route, audit.filter, audit.count],
    ['olivia', '/api/v1/dead-letters/redrive', { channel: 'email' }, 0],
  )
  await site.call('DELETE', '/api/v1/recipients/ada', undefined, headers)
  await lineOf(site, 'audit', ({ route }) => route === '/api/v1/recipients/:id')
  assert.equal(linesOf(site).filter(({ event }) => event === 'audit').length, 2)
  const others = bearer({})
  await site.call('DELETE', '/api/v1/recipients/bob', undefined, others)
  await sleep(200)
  assert.equal(linesOf(site).filter(({ event }) => event === 'audit').length, 2, 'a tenant is no operator')
})

test('SIGUSR2 writes every request and delivery, without addresses, until it comes again', async (t) => {
  const site = await createSite(t, { config: { log: { level: 'info' } } })
  await site.start()
  process.kill(site.pid!, 'SIGUSR2')
  await lineOf(site, 'log.level', ({ to }) => to === 'debug')
  await site.call('POST', '/api/v1/notifications', { ...email, content, category: 'security' })
  const delivered = await lineOf(site, 'notification.delivered')
  assert.equal(typeof delivered.latenessMs, 'number')
  const request = await lineOf(site, 'http.request', ({ method }) => method === 'POST')
  // A request of a second has its line at every level, as on a machine that is busy with others.
  const level = (request.tookMs as number) < 1_000 ? 'debug' : 'info'
  assert.deepEqual([request.status, request.level], [202, level])
  process.kill(site.pid!, 'SIGUSR2')
  await lineOf(site, 'log.level', ({ to }) => to === 'info')
  assert.doesNotMatch(site.log(), /\bada\b|canary/)
})

test('a tenant that is full has a line at the begin and at the end', async (t) => {
  const tenants = { default: { rate: 'unlimited', modules: 'unlimited', writes: 'unlimited', waiting: 2 } }
  const site = await createSite(t, {
    config: { tenants, log: { level: 'info' } },
    policy: { version: 1, limits: [] },
  })
  await site.start()
  const sendAt = new Date(Date.now() + 3_600_000).toISOString()
  const post = () => site.call('POST', '/api/v1/notifications', { ...email, content, sendAt })
  const first = await post()
  await post()
  assert.equal((await post()).status, 503)
  assert.equal((await post()).status, 503)
  const begun = await lineOf(site, 'tenant.full', ({ full }) => full === true)
  assert.deepEqual([begun.bound, begun.count, begun.level], ['waiting', 2, 'warn'])
  const { text } = await site.call('GET', '/metrics')
  assert.match(text, /^sluice_tenants_full\{bound="waiting"\} 1$/m)
  await site.call(
    'DELETE',
    `/api/v1/notifications/${first.json<{ notificationId: string }>().notificationId}`,
  )
  await lineOf(site, 'tenant.full', ({ full }) => full === false)
  assert.equal(linesOf(site).filter(({ event }) => event === 'tenant.full').length, 2)
})

test('addresses in the texts of errors and providers are masked, hosts and sentences stay', () => {
  assert.equal(
    maskText(
      '550 <ada@example.com>: user unknown; call +39 333 123 4567 or https://u:p@hooks.example/T0/secret?x=1',
    ),
    '550 <[address]>: user unknown; call [number] or https://hooks.example/…',
  )
  assert.equal(
    maskText('connect ECONNREFUSED 192.168.100.200:5432'),
    'connect ECONNREFUSED 192.168.100.200:5432',
  )
  const about = { to: { id: 'x-y', pushToken: 'tok-1' }, content: { text: 'your code is 1234' } }
  assert.equal(maskAnswer('410 token tok-1 is gone', about), '410 token [recipient] is gone')
  assert.equal(maskAnswer('400 no "your code": your code is 1234', about), '400 no')
  assert.equal(maskAnswer('400 refused: your code is 1234', about), '400 refused: [content]')
  assert.equal(
    maskAnswer('550 5.1.1 <a@b.example>: user unknown', about),
    '550 5.1.1 [address]: user unknown',
  )
  assert.equal(maskText('x'.repeat(600)).length, 501)
})

test('text for a terminal is one line without control characters', () => {
  const json = JSON.stringify({
    time: '2026-11-22T10:43:01.123Z',
    level: 'warn',
    event: 'http.refused',
    msg: 'a request was refused',
    version: '1',
    tenant: 'a\u001b[2Jb',
    status: 401,
  })
  assert.equal(
    logText(json),
    '10:43:01.123 warn  http.refused a request was refused tenant="a·[2Jb" status=401\n',
  )
})

test('a part of the log may have a level of its own', () => {
  const lines: string[] = []
  const log = createLog(
    { level: 'warn', format: 'json', levels: { http: 'debug', account: 'error' } },
    { write: (line: string) => void lines.push(line) },
  )
  log.debug({ event: 'http.request' })
  log.info({ event: 'gateway.started' })
  log.warn({ event: 'account.blocked' })
  log.warn({ event: 'gateway.error' })
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as Line).event),
    ['http.request', 'gateway.error'],
  )
})

test('kinds of lines are bounded, however many tenants are refused', () => {
  let written = 0
  const limit = createLineLimit(1)
  for (let kind = 0; kind < 50_000; kind += 1)
    limit.take(`tenant-${kind}`, () => {
      written += 1
    })
  limit.close()
  assert.ok(written <= 1_003, String(written))
})

test('the page of events names every event of the log, and no other', async () => {
  const page = readFileSync(new URL('../../../../docs/reference/log-events.md', import.meta.url), 'utf8')
  const listed = page
    .split('\n')
    .filter((line) => line.startsWith('| `'))
    .flatMap((row) => [...row.split('|')[1]!.matchAll(/`([\w.]+)`/g)].map(([, name]) => name!))
  assert.deepEqual(listed.toSorted(), Object.keys(logEvents).toSorted())
  const source = fileURLToPath(new URL('../../src', import.meta.url))
  const files = (await readdir(source, { recursive: true })).filter((file) => file.endsWith('.ts'))
  const texts = await Promise.all(files.map((file) => readFile(join(source, file), 'utf8')))
  const used = new Set(texts.flatMap((text) => [...text.matchAll(/'([\w.]+)'/g)].map(([, name]) => name!)))
  for (const event of Object.keys(logEvents)) assert.ok(used.has(event), `${event} is written nowhere`)
})
