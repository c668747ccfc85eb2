/**
 * An account that fails is out after ten failed calls and those under way, counted at its own socket, whether or not it
 * had carried anything before; and the messages arrive by the other account.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, type Site, startSink } from '../child.ts'

const concurrency = 4
const patienceMs = 20_000

interface AccountRow {
  readonly id: string
  readonly status: string
  readonly blockedUntil: string | null
  readonly outUntil: string | null
  readonly outBecause: string | null
}

async function setUp(t: TestContext) {
  const sink = await startSink(t, 'http')
  const accounts = ['bad', 'good'].map((id) => ({ id, url: `${sink.url}/${id}`, concurrency }))
  const site = await createSite(t, {
    policy: { version: 1, limits: [] },
    config: { pools: { webhook: { provider: 'webhook', accounts } } },
  })
  await site.start()
  const arrived = async (path: string) =>
    (await sink.dump()).requests.filter((request) => request.path === path).length
  return { sink, site, arrived }
}

async function send(site: Site, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += 1) {
    const answer = await site.call('POST', '/api/v1/notifications', {
      channel: 'webhook',
      recipient: { id: `user-${sent}` },
      content: { text: 'message' },
    })
    assert.equal(answer.status, 202, answer.text)
  }
}

async function until(what: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + patienceMs
  while (!(await what())) {
    assert.ok(performance.now() < end, 'in time')
    await sleep(20)
  }
}

async function rowOf(site: Site, id: string): Promise<AccountRow> {
  const answer = await site.call('GET', '/api/v1/pools')
  const { pools } = answer.json<{ pools: { channel: string; accounts: AccountRow[] }[] }>()
  return pools.find(({ channel }) => channel === 'webhook')!.accounts.find((account) => account.id === id)!
}

test('an account that never worked is out after ten failed calls and those under way', async (t) => {
  const { sink, site, arrived } = await setUp(t)
  await sink.rules([{ match: '/bad$', status: 503 }])
  await send(site, 60)
  await until(async () => (await arrived('/good')) === 60)
  const calls = await arrived('/bad')
  t.diagnostic(`${calls} calls of the account that fails`)
  assert.ok(calls >= 10 && calls <= 10 + concurrency, `${calls} calls`)
  const { status, blockedUntil, outUntil, outBecause } = await rowOf(site, 'bad')
  assert.deepEqual([status, blockedUntil, outBecause], ['open', null, 'breaker'])
  assert.ok(Date.parse(outUntil!) > Date.now() - patienceMs)
  assert.equal((await rowOf(site, 'good')).outUntil, null)
})

test('an account that dies after good traffic is out after ten failed calls and those under way', async (t) => {
  const { sink, site, arrived } = await setUp(t)
  await send(site, 300)
  await until(async () => (await arrived('/good')) + (await arrived('/bad')) === 300)
  const before = await arrived('/bad')
  assert.ok(before > 100, `${before} of 300 by the account`)
  await sink.rules([{ match: '/bad$', status: 503 }])
  await send(site, 60)
  await until(async () => (await arrived('/good')) === 300 - before + 60)
  const calls = (await arrived('/bad')) - before
  t.diagnostic(`${calls} calls of the account that fails`)
  assert.ok(calls >= 10 && calls <= 10 + concurrency, `${calls} calls`)
  assert.equal((await rowOf(site, 'bad')).status, 'open')
})
