/**
 * Never lost, never twice without saying so, never over: a gateway that is killed again and again while 3,000 messages
 * come in and go out (SLUICE_CRASH_MESSAGES and SLUICE_CRASH_KILLS take more). The client is this process, the provider
 * another one; both outlive every kill, and what they saw is what counts.
 */
import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, type Site, startSink } from '../child.ts'
import { seeded, testSeed } from '../harness.ts'
import { clockText, overfull, overfullText, percentile } from './windows.ts'

const messages = Number(process.env.SLUICE_CRASH_MESSAGES ?? 3_000)
const kills = Number(process.env.SLUICE_CRASH_KILLS ?? 5)
const recipients = 100
/** Less than what comes in, so that windows are full, and over a time that is longer than a restart. */
const limit = { max: 30, windowMs: 10_000 }
/** Calls under way to the provider at most, and so the doubles that one kill can make. */
const concurrency = 64
const clients = 24
/** The posts are spread over the kills. */
const postsPerSecond = 500
const backMsMax = 5_000

const policy = {
  version: 1,
  limits: [{ name: 'all', for: 'any', max: ['30/10s'], over: 'delay' }],
}

interface Posting {
  /** By message: the id that its client was told. */
  readonly told: string[]
  repeated: number
  /** True when nobody waits for it any more, because the gateway did not come back. */
  isGivenUp: boolean
}

/** Posts them all; whatever is not answered with 202 is posted again under the same key until it is. */
async function post(site: Site, posting: Posting): Promise<void> {
  const startedAt = performance.now()
  let next = 0
  async function client(): Promise<void> {
    for (let index = next++; index < messages; index = next++) {
      const early = startedAt + (index / postsPerSecond) * 1_000 - performance.now()
      if (early > 0) await sleep(early)
      const body = {
        recipient: { id: `person-${index % recipients}`, email: `person-${index % recipients}@example.com` },
        channel: 'email',
        content: { subject: `Message ${index}`, text: `Message ${index}` },
      }
      const headers = { 'idempotency-key': `message-${index}` }
      while (!posting.isGivenUp) {
        const answer = await site.call('POST', '/api/v1/notifications', body, headers).catch(() => undefined)
        if (answer?.status === 202) {
          posting.told[index] = answer.json<{ notificationId: string }>().notificationId
          break
        }
        assert.ok(answer === undefined || [409, 503].includes(answer.status), answer?.text)
        posting.repeated += 1
        await sleep(20)
      }
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
}

/** Kills it at random instants, some of them while it starts; returns how long each restart took that was let finish. */
async function killAgainAndAgain(site: Site, chance: () => number): Promise<number[]> {
  const backMs: number[] = []
  for (let kill = 0; kill < kills; kill += 1) {
    await sleep(200 + chance() * 2_500)
    await site.kill()
    if (chance() < 0.25) {
      const starting = site.start().catch(() => undefined)
      await sleep(chance() * 1_000)
      await site.kill()
      await starting
    }
    backMs.push(await site.start())
  }
  return backMs
}

interface Listed {
  readonly notificationId: string
  readonly status: string
}

async function listAll(site: Site): Promise<readonly Listed[]> {
  const found: Listed[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const from: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const page = (await site.call('GET', `/api/v1/notifications?limit=100${from}`)).json<{
      items: Listed[]
      nextCursor: string | null
    }>()
    found.push(...page.items)
    cursor = page.nextCursor
  }
  return found
}

/** The metrics' counts of all states, checked against the law of conservation. */
async function counted(site: Site): Promise<Readonly<Record<string, number>>> {
  const { text } = await site.call('GET', '/metrics')
  const value = (name: string) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(text)?.[1])
  const rows = [...text.matchAll(/^sluice_notifications\{status="(\w+)"\} (\d+)$/gm)]
  const states = rows.map(([, status, count]) => [status!, Number(count)] as const)
  return {
    ...Object.fromEntries(states.filter(([, count]) => count > 0)),
    unaccounted: value('sluice_notifications_unaccounted'),
  }
}

async function settled(site: Site): Promise<void> {
  const until = performance.now() + 60_000
  while (performance.now() < until) {
    if ((await counted(site)).delivered === messages) return
    await sleep(250)
  }
}

test(`of ${messages} messages none is lost and no window is over, through ${kills} kills`, async (t: TestContext) => {
  t.diagnostic(`seed ${testSeed}`)
  const sink = await startSink(t, 'http')
  const account = { id: 'hook', url: `${sink.url}/in`, rate: 'unlimited', concurrency }
  const pools = { email: { provider: 'webhook', accounts: [account] } }
  const site = await createSite(t, { policy, config: { pools } })
  await site.start()

  const posting: Posting = { told: [], repeated: 0, isGivenUp: false }
  t.after(() => {
    posting.isGivenUp = true
  })
  const posted = post(site, posting)
  const backMs = await killAgainAndAgain(site, seeded(testSeed))
  await posted
  await settled(site)

  const { requests, clock } = await sink.dump()
  const doubles = requests.length - new Set(requests.map(({ headers }) => headers['webhook-id'])).size
  const back = [0.5, 1].map((share) => percentile(backMs, share).toFixed(0))
  t.diagnostic(
    `${kills} kills, ${posting.repeated} requests repeated, ${doubles} doubles of at most ${kills * concurrency}, ` +
      `back in ${back[0]} ms (median), ${back[1]} ms (slowest)`,
  )

  const listed = await listAll(site)
  const accepted = [...posting.told].sort()
  assert.equal(new Set(accepted).size, messages, 'each message has an id of its own')
  assert.deepEqual(
    listed.map(({ notificationId }) => notificationId).sort(),
    accepted,
    'what was accepted is on record',
  )
  assert.deepEqual(
    listed.filter(({ status }) => status !== 'delivered'),
    [],
    'each has ended as delivered',
  )
  assert.deepEqual(await counted(site), { delivered: messages, unaccounted: 0 }, 'the metrics count the same')
  assert.deepEqual(
    [...new Set(requests.map(({ headers }) => headers['webhook-id'] as string))].sort(),
    accepted,
    'each has arrived, and nothing else',
  )
  assert.ok(doubles <= kills * concurrency, `${doubles} doubles`)

  const instants = Map.groupBy(requests, ({ body }) => (JSON.parse(body) as { recipient: string }).recipient)
  const arrivals = [...instants.values()].map((theirs) => theirs.map(({ at }) => at))
  // Arrivals are stamped late while the provider's process stands still, and windows look fuller than they were.
  const seen = `${overfullText(arrivals, limit)}; ${clockText(clock)}`
  t.diagnostic(seen)
  let over = 0
  for (const theirs of arrivals) over += overfull(theirs, limit)
  assert.equal(over, 0, `no window is over its limit, doubles counted: ${seen}`)
  // The median: one start among many may meet a machine that is busy with others.
  assert.ok(percentile(backMs, 0.5) < backMsMax, `back after ${percentile(backMs, 0.5)} ms`)
})
