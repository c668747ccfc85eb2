import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { decided, explained } from '../../src/cli/explain.ts'
import type { Io } from '../../src/cli/io.ts'
import { runningGateway, sluice } from './session.ts'

const mail = {
  recipient: { id: 'user-42', email: 'ada@example.com' },
  channel: 'email',
  category: 'marketing',
  content: { subject: 'Hello', text: 'Hello' },
}

test('explain shows the decision rule by rule, which limit decided, and the timeline', async (t) => {
  const gateway = await runningGateway(t)
  const ids: string[] = []
  for (const subject of ['one', 'two', 'three']) {
    const { status, body } = await gateway.post('/notifications', {
      ...mail,
      content: { subject, text: subject },
    })
    assert.equal(status, 202)
    ids.push(String(body.notificationId))
  }
  const third = await sluice(['explain', ids[2]!, '--url', gateway.url])
  assert.equal(third.code, 0, third.err)
  assert.match(
    third.out,
    new RegExp(
      `^Was not sent: the limit marketing-email admits 2/day, and all of its places are taken, the next of which is free at \\S+ \\S+Z\\.\n\n${ids[2]} {2}suppressed\n`,
    ),
  )
  assert.match(third.out, /^ {2}to {7}user-42 by email$/m)
  assert.match(third.out, /^Decision {2}suppress over_limit by marketing-email/m)
  assert.match(
    third.out,
    /^ {2}→ {2}marketing-email +2\/day +[0-2]\/2 +\d(, all booked)? +no +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\S* \(in (24 h|1 d)\)$/m,
  )
  assert.match(third.out, /^ +everything +100\/30min +\d\/100 +\d+ +yes$/m)
  assert.match(third.out, /^Timeline\n {2}at +state +why/m)
  assert.match(third.out, /accepted/)

  const json = await sluice(['explain', ids[0]!, '--json'], { env: { SLUICE_URL: `${gateway.url}/` } })
  assert.equal(json.code, 0, json.err)
  assert.equal(JSON.parse(json.out).notificationId, ids[0])
})

test('explain says of a window that is not used up and admits nothing that its places are booked', () => {
  const io = { isTerminal: false, color: false } as unknown as Io
  const rule = { limit: 'few', window: '5/h', used: 1, max: 5, freesAt: '2026-11-22T13:00:00.000Z' }
  const text = (more: { readonly remaining: number; readonly admits: boolean }): string =>
    decided(
      {
        outcome: 'delay',
        reason: 'recipient_limit',
        limit: 'few',
        policyVersion: 'x',
        rules: [{ ...rule, ...more }],
      },
      Date.parse('2026-11-22T12:00:00.000Z'),
      io,
    )
  assert.match(text({ remaining: 4, admits: false }), /few +5\/h +1\/5 +4, all booked +no +2026/)
  assert.match(text({ remaining: 4, admits: true }), /few +5\/h +1\/5 +4 +yes/)
  assert.match(text({ remaining: 0, admits: false }), /few +5\/h +1\/5 +0 +no/)
})

test('explain takes the tenant from --tenant, and finds no notification of another tenant', async (t) => {
  const gateway = await runningGateway(t)
  const { body } = await gateway.post('/notifications', mail)
  const id = String(body.notificationId)
  const other = await sluice(['explain', id, '--url', gateway.url, '--tenant', 'other'])
  assert.equal(other.code, 1)
  assert.match(other.err, /^sluice: NOT_FOUND: /)
  assert.match(other.err, /\nAsked for the tenant other; what belongs to another tenant is not found\.$/)
  const json = await sluice(['explain', id, '--url', gateway.url, '--tenant', 'other', '--json'])
  assert.equal(json.out, '')
  const { error } = JSON.parse(json.err)
  assert.deepEqual(
    [json.code, error.code, error.hint],
    [1, 'NOT_FOUND', 'Asked for the tenant other; what belongs to another tenant is not found.'],
  )
})

test('explain --wait follows a notification to its end, and --exit-status tells how it ended', async (t) => {
  const gateway = await runningGateway(t)
  const run = (id: unknown, ...more: string[]) =>
    sluice(['explain', String(id), '--url', gateway.url, '--exit-status', ...more])
  const soon = new Date(Date.now() + 3_000).toISOString()
  const later = new Date(Date.now() + 3_600_000).toISOString()
  const [first, second] = await Promise.all(
    [soon, later].map((sendAt, index) =>
      gateway.post('/notifications', {
        ...mail,
        recipient: { id: `u${index}`, email: 'a@example.com' },
        sendAt,
      }),
    ),
  )
  assert.equal((await run(second!.body.notificationId)).code, 3)
  const followed = await run(first!.body.notificationId, '--wait')
  assert.equal(followed.code, 0)
  assert.match(followed.err, /^Waits until .*Z: the request asked for this instant\./)
  assert.match(
    followed.out,
    /^Was delivered at \S+ \S+Z through sandbox\/\S+, \d+ ms after the promised instant\.\n/,
  )
  const ids = await Promise.all(
    [0, 1, 2].map((n) =>
      gateway.post('/notifications', { ...mail, content: { subject: `${n}`, text: 'x' } }),
    ),
  )
  const codes = await Promise.all(ids.map(({ body }) => run(body.notificationId, '--wait')))
  assert.deepEqual(codes.map(({ code }) => code).sort(), [0, 0, 4])
})

test('a gateway that does not answer is reported with a way to fix it, and exit code 1', async () => {
  for (const args of [['explain', 'x'], ['recipient', 'x'], ['pools'], ['dead-letters']]) {
    const { code, out, err } = await sluice(args, { env: { SLUICE_URL: 'http://127.0.0.1:9' } })
    assert.deepEqual([code, out], [1, ''], args[0])
    assert.equal(
      err,
      'sluice: no gateway answers at http://127.0.0.1:9 (connection refused)\nStart one with "sluice serve", or name another with --url or SLUICE_URL.',
    )
  }
})

test('an answer of another server is not taken for one of a gateway', async (t) => {
  const server = createServer((_request, response) => response.end('<html>hello</html>'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { code, err } = await sluice(['pools', '--url', url])
  assert.equal(code, 1)
  assert.match(err, /is no Sluice gateway \(HTTP 200\)/)
})

test('an invalid address, and a token that no header can carry, are bad usage', async () => {
  assert.equal((await sluice(['pools', '--url', 'localhost:8080'])).code, 2)
  assert.equal((await sluice(['pools', '--url', 'http://127.0.0.1:9', '--token', 'a\nb'])).code, 2)
})

test('the gateway is found by host and port of the configuration, even where the rest of it is invalid', async (t) => {
  const gateway = await runningGateway(t)
  const { port } = new URL(gateway.url)
  const env = { SLUICE_HTTP_PORT: port, SLUICE_STATE: 'redis://h' }
  assert.equal((await sluice(['pools'], { env })).code, 0)
})

test('the text of a notification cannot drive the terminal', () => {
  const text = explained(
    {
      notificationId: '01',
      tenant: 't',
      module: 'm',
      recipient: 'a\u001b[2J',
      channel: 'email',
      category: 'c',
      template: null,
      priority: 'normal',
      status: 'failed',
      sendAt: null,
      createdAt: '2026-11-22T07:00:00.000Z',
      expiresAt: null,
      decision: { outcome: 'send', policyVersion: 'p', rules: [] },
      timeline: [{ at: '2026-11-22T07:00:00.000Z', status: 'failed', detail: '550 \u001b]0;x\u0007' }],
    },
    0,
    { colours: false } as Io,
  )
  assert.ok(!text.includes('\u001b') && !text.includes('\u0007'))
  assert.match(text, /No limit counts it\./)
})
