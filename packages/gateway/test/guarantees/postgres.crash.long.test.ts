/**
 * Never lost over PostgreSQL: the gateway is killed and its server crashes, one after the other, while messages come in
 * and go out. The client is this process, the provider another one; both outlive everything.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import { crashPostgres, startPostgres } from '../../../../scripts/services/postgres.ts'
import { createSite, type Site, startSink } from '../child.ts'
import { seeded, testSeed } from '../harness.ts'
import { overfull } from './windows.ts'

const messages = Number(process.env.SLUICE_CRASH_MESSAGES ?? 1_500)
/** Kills of the gateway, and as many crashes of the server. */
const crashes = Number(process.env.SLUICE_CRASH_KILLS ?? 2)
const recipients = 100
const limit = { max: 30, windowMs: 10_000 }
/** Calls under way to the provider at most, and so the doubles that one kill can make. */
const concurrency = 32
const clients = 16
const postsPerSecond = 300

const policy = { version: 1, limits: [{ name: 'all', for: 'any', max: ['30/10s'], over: 'delay' }] }

/** Posts them all; a message that is not answered with 202 is posted again under the same key until it is. */
async function post(site: Site): Promise<readonly string[]> {
  const told: string[] = []
  const startedAt = performance.now()
  let next = 0
  async function client(): Promise<void> {
    for (let index = next++; index < messages; index = next++) {
      const early = startedAt + (index / postsPerSecond) * 1_000 - performance.now()
      if (early > 0) await sleep(early)
      const id = `person-${index % recipients}`
      const body = {
        recipient: { id, email: `${id}@example.com` },
        channel: 'email',
        content: { subject: `Message ${index}`, text: `Message ${index}` },
      }
      const headers = { 'idempotency-key': `message-${index}` }
      for (;;) {
        const answer = await site.call('POST', '/api/v1/notifications', body, headers).catch(() => undefined)
        if (answer?.status === 202) {
          told[index] = answer.json<{ notificationId: string }>().notificationId
          break
        }
        assert.ok(answer === undefined || [409, 503].includes(answer.status), answer?.text)
        await sleep(50)
      }
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
  return told
}

async function statuses(site: Site): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for (let cursor: string | null = ''; cursor !== null; ) {
    const from: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const page = (await site.call('GET', `/api/v1/notifications?limit=100${from}`)).json<{
      items: { notificationId: string; status: string }[]
      nextCursor: string | null
    }>()
    for (const { notificationId, status } of page.items) found.set(notificationId, status)
    cursor = page.nextCursor
  }
  return found
}

test(`of ${messages} messages none is lost, through ${crashes} kills of the gateway and ${crashes} crashes of PostgreSQL`, {
  ...needs('postgres'),
  timeout: 280_000,
}, async (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-crash-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  let server = await startPostgres({ folder })
  t.after(() => server.stop())
  const sink = await startSink(t, 'http')
  const account = { id: 'hook', url: `${sink.url}/in`, rate: 'unlimited', concurrency }
  const site = await createSite(t, {
    policy,
    config: { store: server.url, pools: { email: { provider: 'webhook', accounts: [account] } } },
  })
  await site.start()

  const posted = post(site)
  const backMs: number[] = []
  for (let crash = 0; crash < crashes; crash += 1) {
    await sleep(300 + chance() * 1_500)
    await site.kill()
    backMs.push(await site.start())
    await sleep(300 + chance() * 1_500)
    const port = Number(new URL(server.url).port)
    await crashPostgres(server)
    await server.stop()
    server = await startPostgres({ folder, port })
  }
  const accepted = [...(await posted)].sort()
  assert.equal(new Set(accepted).size, messages, 'each message has an id of its own')

  let found = await statuses(site)
  for (const until = performance.now() + 90_000; performance.now() < until; found = await statuses(site)) {
    if ([...found.values()].every((status) => status === 'delivered')) break
    await sleep(500)
  }
  assert.deepEqual([...found.keys()].sort(), accepted, 'what was accepted is on record, and nothing else')
  const open = [...found].filter(([, status]) => status !== 'delivered')
  assert.deepEqual(open, [], `each has ended as delivered\n${site.log().slice(-2_000)}`)

  const { requests } = await sink.dump()
  const arrived = new Set(requests.map(({ headers }) => headers['webhook-id'] as string))
  assert.deepEqual([...arrived].sort(), accepted, 'each has arrived')
  const doubles = requests.length - arrived.size
  t.diagnostic(`${doubles} doubles, back in ${backMs.map((ms) => ms.toFixed(0)).join(', ')} ms`)
  assert.ok(doubles <= crashes * 2 * concurrency, `${doubles} doubles`)
  const byPerson = Map.groupBy(requests, ({ body }) => (JSON.parse(body) as { recipient: string }).recipient)
  for (const theirs of byPerson.values())
    assert.equal(
      overfull(
        theirs.map(({ at }) => at),
        limit,
      ),
      0,
      'no window is over, doubles counted',
    )
})
