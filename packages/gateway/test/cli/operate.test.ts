/** The commands of an operator against a running gateway: list, tail, send, decide, cancel, job, health. */
import assert from 'node:assert/strict'
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
