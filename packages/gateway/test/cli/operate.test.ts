/** The commands of an operator against a running gateway: list, tail, send, decide, cancel, job, health. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { createProgress } from '../../src/cli/progress.ts'
import { runningGateway, sluice } from './session.ts'

test('send, list, decide and cancel do for one notification what the API does', async (t) => {
  const gateway = await runningGateway(t)
  const run = (...args: string[]) => sluice([...args, '--url', gateway.url])
  const message = [
    '--to',
    'u',
    '--email',
    'a@example.com',
    '--category',
    'billing',
    '--subject',
    's',
    '--text',
    't',
  ]
  const later = new Date(Date.now() + 3_600_000).toISOString()
  assert.match((await run('decide', ...message)).out, /^Decision {2}send/)
  assert.equal((await run('list')).out, 'No notification fits.')
  const sent = await run('send', ...message, '--at', later, '--key', 'k1')
  assert.equal(sent.code, 0, sent.err)
  assert.match(sent.out, /^Waits until .*: the request asked for this instant\.\n\S+ {2}scheduled$/)
  const again = JSON.parse((await run('send', ...message, '--at', later, '--key', 'k1', '--json')).out)
  assert.ok(sent.out.includes(again.notificationId))
  const listed = await run('list', '--status', 'scheduled', '--recipient', 'u')
  assert.match(
    listed.out,
    new RegExp(`scheduled +send_at +u +email +billing .* ${again.notificationId}\n\n1$`),
  )
  assert.match((await run('list', '--order', 'sendAt')).out, new RegExp(`${again.notificationId}\n\n1$`))
  assert.match((await run('list', '--order', 'oldest')).err, /--order/)
  assert.equal((await run('cancel', again.notificationId)).out, `${again.notificationId} is cancelled.`)
  assert.match((await run('cancel', 'none')).err, /^sluice: NOT_FOUND: .*\nAsked for the tenant default;/)
  assert.match((await run('send', '--text', 'x')).err, /--to is missing/)
  interface Found {
    readonly keys: readonly { readonly key: string; readonly status: number }[]
    readonly notifications: readonly { readonly notificationId: string }[]
  }
  const search = async (q: string, init = {}): Promise<Found> =>
    (await (await fetch(`${gateway.url}/api/v1/search?q=${q}`, init)).json()) as Found
  const found = await search('k1')
  assert.deepEqual([found.keys[0]?.key, found.keys[0]?.status, found.notifications], ['k1', 202, []])
  const byId = await search(again.notificationId)
  assert.equal(byId.notifications[0]?.notificationId, again.notificationId)
  const other = { headers: { 'x-tenant-id': 'other' } }
  for (const q of ['k1', 'u', again.notificationId]) {
    assert.deepEqual(await search(q, other), {
      notifications: [],
      jobs: [],
      recipients: [],
      keys: [],
      lookedIn: { tenant: 'other' },
    })
  }
})

const badValues: readonly (readonly [args: readonly string[], message: RegExp])[] = [
  [
    ['list', '--status', 'foo'],
    /--status expects one or several of accepted, .*, separated by commas\nSee: sluice list --help$/,
  ],
  [['list', '--status', 'dead,quued'], /--status expects .*, separated by commas: did you mean "queued"\?\n/],
  [['list', '--from', 'x'], /--from expects a date or an instant such as .*, not "x"\n/],
  [['list', '--to', '2026-02-30'], /--to expects a date or an instant such as .*, not "2026-02-30"\n/],
  [
    ['send', '--to', 'u', '--text', 't', '--at', 'yesterday'],
    /--at expects .* instant .*, not "yesterday"\n/,
  ],
  [
    ['send', '--to', 'u', '--text', 't', '--expires', 'soon'],
    /--expires expects .* instant .*, not "soon"\n/,
  ],
  [['decide', '--to', 'u', '--text', 't', '--at', '12:00'], /--at expects .* instant .*, not "12:00"\n/],
]

for (const [args, message] of badValues) {
  test(`a bad value is refused before anything is sent, with exit code 2: sluice ${args.join(' ')}`, async () => {
    // Nobody listens there.
    const { code, err } = await sluice([...args, '--url', 'http://127.0.0.1:1'])
    assert.match(err, message)
    assert.equal(code, 2)
  })
}

test('instants and states reach the gateway in every form that it takes', async (t) => {
  const gateway = await runningGateway(t)
  const run = (...args: string[]) => sluice([...args, '--url', gateway.url])
  const message = ['--to', 'u', '--email', 'a@example.com', '--category', 'billing', '--text', 't', '--json']
  const sent = await run('send', ...message, '--at', '2126-11-22t10:00:00.123456+01:00')
  assert.equal(sent.code, 0, sent.err)
  assert.equal(JSON.parse(sent.out).sendAt, '2126-11-22T09:00:00.123Z')
  const of = async (...args: string[]) => JSON.parse((await run('list', '--json', ...args)).out).items.length
  assert.equal(
    await of('--status', 'queued,scheduled', '--from', '2026-01-01', '--to', '2126-01-01T00:00Z'),
    1,
  )
  assert.equal(await of('--to', '2026-01-01'), 0)
})

test('tail prints changes as they happen, and ends after so many', async (t) => {
  const gateway = await runningGateway(t)
  const followed = sluice(['tail', '--status', 'delivered', '--count', '2', '--url', gateway.url])
  let ended = false
  void followed.then(() => {
    ended = true
  })
  for (let index = 0; !ended && index < 100; index += 1) {
    await gateway.post('/notifications', {
      recipient: { id: `u${index}`, email: 'a@example.com' },
      channel: 'email',
      category: 'billing',
      content: { subject: 's', text: 't' },
    })
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const { out, code } = await followed
  assert.equal(code, 0)
  assert.equal(out.split('\n').length, 2)
  assert.match(out, /^\S+ \S+Z {2}delivered {2}\S+ {2}u\d+ by email {2}sandbox\/\S+/)
})

test('job shows how far a batch is, and health says if the gateway is ready', async (t) => {
  const gateway = await runningGateway(t)
  const { body } = await gateway.post('/notifications/batch', {
    recipients: Array.from({ length: 150 }, (_, index) => ({ id: `u${index}`, email: 'a@example.com' })),
    channel: 'email',
    category: 'billing',
    content: { subject: 's', text: 't' },
  })
  const { out, code } = await sluice(['job', String(body.jobId), '--wait', '--url', gateway.url])
  assert.equal(code, 0)
  assert.match(out, new RegExp(`^${body.jobId} is done: 150 of 150 taken \\(`))
  assert.equal(
    (await sluice(['health', '--url', gateway.url])).out,
    `The gateway at ${gateway.url} is ready.`,
  )
  assert.equal((await sluice(['health', '--url', 'http://127.0.0.1:9'])).code, 1)
})

test('health says once why the gateway is not ready', async (t) => {
  const detail = 'The store postgres://h/d cannot be reached.'
  const body = JSON.stringify({ code: 'STORE_UNAVAILABLE', detail, degraded: [`store: ${detail}`] })
  const server = createServer((_request, response) => response.writeHead(503).end(body)).listen(
    0,
    '127.0.0.1',
  )
  t.after(() => server.close())
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { err, code } = await sluice(['health', '--url', url])
  assert.equal(code, 1)
  assert.equal(
    err,
    `sluice: the gateway at ${url} is not ready: store: The store postgres://h/d cannot be reached.`,
  )
})

test('a progress bar appears after a second, on a terminal only', () => {
  let now = 0
  const lines: string[] = []
  const progress = createProgress(
    { redraw: (line: string) => lines.push(line) } as never,
    'built-in',
    () => now,
  )
  progress.show(0.1)
  now = 1_500
  progress.show(0.5)
  progress.show(0.5)
  progress.end()
  assert.deepEqual(lines, [`${'█'.repeat(15)}${'░'.repeat(15)} 50 % built-in`, ''])
  createProgress({} as never, 'x', () => 9_999_999).show(1)
})
