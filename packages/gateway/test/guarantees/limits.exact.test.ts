/**
 * Never over and never late, counted where it matters: at the provider's socket, by a process of its own. Each literal
 * window over what arrived is counted; the arrivals are compared with the earliest instants that were possible.
 */
import assert from 'node:assert/strict'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, type Site, startSink } from '../child.ts'
import { type Arrival, latenesses, overfull, percentile, slackMs } from './windows.ts'

const limits = [
  { max: 3, windowMs: 2_000 },
  { max: 6, windowMs: 5_000 },
  { max: 1, windowMs: 200 },
]
const policy = {
  version: 1,
  limits: [{ name: 'all', for: 'any', max: ['3/2s', '6/5s'], minGap: '200ms', over: 'delay' }],
}
/** The recipients of each channel: nobody is notified by both. */
const recipientsOf = { email: ['ada', 'bob', 'eve'], webhook: ['hal', 'ida', 'joe'] } as const
type Channel = keyof typeof recipientsOf
const channels = Object.keys(recipientsOf) as Channel[]
const perRecipient = Number(process.env.SLUICE_EXACT_MESSAGES ?? 14)
const marginMs = 20
const lateMsMax = 20
/** The machine may be busy with others: lateness is judged on the best of so many runs and beyond what the machine itself stalled, exactness on every one. */
const runsMax = 3

interface Accepted {
  readonly recipient: string
  readonly notificationId: string
  /** When its client was told so, epoch ms with fractions. */
  readonly acceptedAt: number
}

const recipient = (id: string) => ({ id, email: `${id}@example.com` })

const now = (): number => performance.timeOrigin + performance.now()

/** Half of them in batches that name all recipients of the channel, half alone. */
async function burst(site: Site, channel: Channel): Promise<readonly Accepted[]> {
  const recipients = recipientsOf[channel]
  const message = (text: string) => ({ channel, content: { subject: text, text } })
  const batches = Array.from({ length: perRecipient / 2 }, async (_, index) => {
    const answer = await site.call('POST', '/api/v1/notifications/batch', {
      ...message(`batch ${index}`),
      recipients: recipients.map(recipient),
    })
    assert.equal(answer.status, 202, answer.text)
    const acceptedAt = now()
    return answer.json<{ results: Accepted[] }>().results.map((result) => ({ ...result, acceptedAt }))
  })
  const singles = recipients.flatMap((id) =>
    Array.from({ length: perRecipient / 2 }, async (_, index) => {
      const body = { ...message(`single ${index}`), recipient: recipient(id) }
      const answer = await site.call('POST', '/api/v1/notifications', body)
      assert.equal(answer.status, 202, answer.text)
      const { notificationId } = answer.json<Accepted>()
      return [{ recipient: id, notificationId, acceptedAt: now() }]
    }),
  )
  return (await Promise.all([...batches, ...singles])).flat()
}

type Came = { readonly id: string; readonly at: number }

interface Route {
  /** The pool, and what has arrived at its sink so far. */
  readonly pool: object
  readonly arrived: () => Promise<readonly Came[]>
}

async function smtpRoute(t: TestContext): Promise<Route> {
  const sink = await startSink(t, 'smtp')
  return {
    pool: { provider: 'smtp', accounts: [{ id: 'main', url: sink.url, rate: 'unlimited' }] },
    arrived: async () =>
      (await sink.dump()).mails.map(({ at, raw }) => ({
        at,
        id: /^X-Notification-Id: (.*)\r$/m.exec(raw)![1]!,
      })),
  }
}

async function webhookRoute(t: TestContext): Promise<Route> {
  const sink = await startSink(t, 'http')
  return {
    pool: { provider: 'webhook', accounts: [{ id: 'hook', url: `${sink.url}/in`, rate: 'unlimited' }] },
    arrived: async () =>
      (await sink.dump()).requests.map(({ at, headers }) => ({ at, id: headers['webhook-id'] as string })),
  }
}

async function all(route: Route, count: number): Promise<readonly Came[]> {
  const periods = Math.ceil(perRecipient / 6)
  const until = performance.now() + periods * 5_020 + 20_000
  for (;;) {
    const arrived = await route.arrived()
    if (arrived.length >= count || performance.now() > until) return arrived
    await sleep(250)
  }
}

/** The first one of a new process loads and compiles what the others find there; it is told apart. */
async function first(t: TestContext, site: Site, channel: Channel, route: Route): Promise<string> {
  const postedAt = now()
  const content = { subject: 'first', text: 'first' }
  await site.call('POST', '/api/v1/notifications', {
    channel,
    content,
    recipient: recipient(`zoe-${channel}`),
  })
  const [came] = await all(route, 1)
  const tookMs = (came!.at - postedAt).toFixed(1)
  t.diagnostic(`a new process delivered its first ${channel} ${tookMs} ms after it was asked`)
  return came!.id
}

/** The lateness of every arrival; each window is counted. */
function judge(t: TestContext, accepted: readonly Accepted[], arrived: readonly Came[]): readonly number[] {
  assert.deepEqual(
    arrived.map(({ id }) => id).sort(),
    accepted.map(({ notificationId }) => notificationId).sort(),
    'each arrives, and once',
  )
  const told = new Map(accepted.map((each) => [each.notificationId, each]))
  return [...new Set(accepted.map(({ recipient }) => recipient))].flatMap((recipient) => {
    const theirs: Arrival[] = arrived
      .filter(({ id }) => told.get(id)!.recipient === recipient)
      .map(({ id, at }) => ({ at, acceptedAt: told.get(id)!.acceptedAt }))
    const instants = theirs.map(({ at }) => at)
    for (const limit of limits) {
      const slack = slackMs(instants, limit).toFixed(1)
      t.diagnostic(`${recipient} ${limit.max}/${limit.windowMs}ms: ${slack} ms of the margin left`)
      assert.equal(
        overfull(instants, limit),
        0,
        `${recipient} has no window over ${limit.max}/${limit.windowMs}ms`,
      )
    }
    return latenesses(theirs, limits, marginMs)
  })
}

interface Lateness {
  readonly channel: Channel
  readonly late: readonly number[]
}

/** One burst for each channel, from its acceptance to its last arrival. */
async function measure(
  t: TestContext,
): Promise<{ readonly all: readonly Lateness[]; readonly stallMs: number }> {
  const routes = { email: await smtpRoute(t), webhook: await webhookRoute(t) }
  const pools = { email: routes.email.pool, webhook: routes.webhook.pool }
  const site = await createSite(t, { policy, config: { pools } })
  await site.start()
  const cold: string[] = []
  for (const channel of channels) cold.push(await first(t, site, channel, routes[channel]))
  const accepted = await Promise.all(channels.map((channel) => burst(site, channel)))
  // This process only waits from here on: when its timers are late, the machine was busy with others.
  const stalls = monitorEventLoopDelay({ resolution: 1 })
  stalls.enable()
  const arrived = await Promise.all(
    channels.map((channel, index) => all(routes[channel], accepted[index]!.length + 1)),
  )
  stalls.disable()
  const lateness = channels.map((channel, index) => {
    const came = arrived[index]!.filter(({ id }) => !cold.includes(id))
    return { channel, late: judge(t, accepted[index]!, came) }
  })
  return { all: lateness, stallMs: stalls.max / 1e6 }
}

test('bursts arrive at a mail server and at a webhook with no window over its limit, and none of them late', async (t) => {
  const best = { email: Number.POSITIVE_INFINITY, webhook: Number.POSITIVE_INFINITY }
  for (let run = 1; run <= runsMax && channels.some((channel) => best[channel] > lateMsMax); run += 1) {
    const { all, stallMs } = await measure(t)
    for (const { channel, late } of all) {
      const [p50, p99, max] = [0.5, 0.99, 1].map((share) => percentile(late, share).toFixed(1))
      t.diagnostic(
        `run ${run}, ${channel}: ${late.length} arrived; lateness p50 ${p50} ms, p99 ${p99} ms, max ${max} ms; the machine stalled ${stallMs.toFixed(1)} ms`,
      )
      best[channel] = Math.min(best[channel], percentile(late, 0.99) - stallMs)
    }
  }
  for (const channel of channels)
    assert.ok(best[channel] <= lateMsMax, `p99 lateness of ${channel} ${best[channel]} ms beyond the stall`)
})
