/** Records that could not be accepted, among the dead letters of a gateway whose brokers do not answer. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { PoisonRecord } from '../../src/ports/intake.ts'
import { runningGateway, sluice } from '../cli/session.ts'
import { temporaryFolder } from '../config/folder.ts'

const someRecord = (offset: number, more: Partial<PoisonRecord> = {}): PoisonRecord => ({
  topicId: 'the-id',
  topic: 'notifications',
  partition: 3,
  offset,
  tenant: 'acme',
  detail: '/channel is required',
  bytes: Buffer.from('{"tenant":"acme"}'),
  size: 17,
  at: Date.UTC(2026, 10, 21),
  ...more,
})

interface Answer {
  readonly items: readonly { readonly tenant: string | null; readonly record: { readonly offset: number } }[]
  readonly nextCursor: string | null
  readonly code?: string
  readonly groups: readonly { readonly count: number }[]
  readonly deadLetters: object
  readonly problems: readonly { readonly code: string; readonly count: number }[]
}

/** A port that nobody listens on. */
const away = 'intake: [{ kafka: "127.0.0.1:1", topic: notifications }]'

test('records that could not be accepted are dead letters with their bytes and position', async (t) => {
  const { url, gateway } = await runningGateway(t, away)
  const { tenant: _, ...unnamed } = someRecord(4, { detail: 'no JSON' })
  await gateway.store.intake.keepPoison([someRecord(3), unnamed, someRecord(5)])
  const ask = async (path: string) => (await (await fetch(`${url}/api/v1${path}`)).json()) as Answer

  const { items, nextCursor } = await ask('/dead-letters?cause=poison')
  assert.deepEqual(items[0], {
    tenant: 'acme',
    status: 'dead',
    record: {
      topic: 'notifications',
      partition: 3,
      offset: 3,
      size: 17,
      bytes: Buffer.from('{"tenant":"acme"}').toString('base64'),
    },
    timeline: [
      { at: '2026-11-21T00:00:00.000Z', status: 'dead', reason: 'poison', detail: '/channel is required' },
    ],
  })
  assert.deepEqual([items.length, items[1]!.tenant, nextCursor], [3, null, null])

  const first = await ask('/dead-letters?limit=2')
  const second = await ask(`/dead-letters?limit=2&cursor=${first.nextCursor}`)
  const offsetsOf = (page: Answer) => page.items.map(({ record }) => record.offset)
  assert.deepEqual([offsetsOf(first), offsetsOf(second), second.nextCursor], [[3, 4], [5], null])
  assert.deepEqual(offsetsOf(await ask('/dead-letters?tenant=acme')), [3, 5])
  assert.deepEqual(offsetsOf(await ask('/dead-letters?channel=email')), [])
  assert.deepEqual(offsetsOf(await ask('/dead-letters?cause=shed')), [])
  assert.equal((await ask('/dead-letters?cursor=record:x')).code, 'INVALID_REQUEST')

  const { out } = await sluice(['dead-letters', '--url', url])
  assert.match(out, /poison +acme .*\/channel is required +notifications\/3\/3\n/)
})

test('records that could not be accepted are counted among the dead letters', async (t) => {
  const { url, gateway } = await runningGateway(t, away)
  const { tenant: _, ...unnamed } = someRecord(4, { at: Date.UTC(2026, 10, 20) })
  await gateway.store.intake.keepPoison([someRecord(3), unnamed])
  const ask = async (path: string) => (await (await fetch(`${url}${path}`)).json()) as Answer
  const { groups } = await ask('/api/v1/dead-letters/summary')
  assert.deepEqual(groups, [
    {
      cause: 'poison',
      channel: null,
      provider: null,
      account: null,
      answer: null,
      count: 2,
      oldestAt: '2026-11-20T00:00:00.000Z',
      returnsByItself: false,
      example: null,
    },
  ])
  assert.equal((await ask('/api/v1/dead-letters/summary?tenant=acme')).groups[0]!.count, 1)
  const { deadLetters, problems } = await ask('/api/v1/overview')
  assert.deepEqual(deadLetters, { byCause: { poison: 2 } })
  assert.deepEqual(
    problems.map(({ code, count }) => [code, count]),
    [['DEAD_LETTERS_STAY', 2]],
  )
  const metrics = await (await fetch(`${url}/metrics`)).text()
  assert.match(metrics, /^sluice_dead_letters\{channel="none",cause="poison"\} 2$/m)
})

test('a gateway whose brokers do not answer is ready, says so, and stops', async (t) => {
  const { url, gateway, post } = await runningGateway(t, away)
  const until = Date.now() + 60_000
  let body: { readonly status?: string; readonly degraded?: readonly string[] } = {}
  while (body.degraded === undefined && Date.now() < until) {
    body = (await (await fetch(`${url}/readyz`)).json()) as typeof body
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  assert.deepEqual(body, { status: 'ready', degraded: ['intake notifications: no broker answers'] })
  const metrics = await (await fetch(`${url}/metrics`)).text()
  assert.match(metrics, /^sluice_intake_up\{topic="notifications"\} 0$/m)
  const names = [...metrics.matchAll(/^# TYPE (sluice_intake_\w+)/gm)].map(([, name]) => name!)
  const page = readFileSync(new URL('../../../../docs/reference/metrics.md', import.meta.url), 'utf8')
  assert.equal(names.length, 5)
  for (const name of names) assert.ok(page.includes(`\`${name}\``), name)
  assert.match(metrics, /^sluice_intake_records_total\{topic="notifications",outcome="accepted"\} 0$/m)
  const { status } = await post('/notifications', {
    recipient: { id: 'u', email: 'u@example.com' },
    channel: 'email',
    content: { subject: 'Hello', text: 'Hello' },
  })
  assert.equal(status, 202)
  // A stop that waited for a broker would never end.
  await gateway.stop()
})

test('sluice check tells that no broker answers, with the way out and without the password', async (t) => {
  const config = 'intake: [{ kafka: "kafka://u:hunter2@127.0.0.1:1", topic: notifications }]'
  const cwd = temporaryFolder(t, { 'sluice.yaml': config })
  const { code, err } = await sluice(['check'], { cwd })
  assert.equal(code, 2)
  assert.match(err, /intake: kafka:\/\/u@127\.0\.0\.1:1\?mechanism=plain cannot be reached/)
  assert.doesNotMatch(err, /hunter2/)
})
