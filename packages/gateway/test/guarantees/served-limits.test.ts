/**
 * A gateway with its record in a file and its limits in a Redis: what Redis loses, what a kill of the gateway leaves there,
 * and what it accepts while Redis is away. A limit is seen where the provider counts, or by what the gateway answers.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { Redis } from 'ioredis'
import { stringify } from 'yaml'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import { loadConfig } from '../../src/config/load.ts'
import { SluiceError } from '../../src/errors.ts'
import { createGateway, type Gateway, type GatewayParts } from '../../src/gateway.ts'
import type { Draft } from '../../src/model.ts'
import { type Answer, createSite, type SinkProcess, type Site, startSink } from '../child.ts'
import { clockText, overfull } from './windows.ts'

interface Posted {
  readonly notificationId: string
  readonly status: string
  readonly code?: string
  readonly sendAt?: string
  readonly decision: { readonly outcome: string; readonly reason?: string }
}

interface Call {
  readonly at: number
  readonly id: string
  readonly recipient: string
}

const few = { max: 4, windowMs: 3_000 }
const paced = { max: 20, windowMs: 2_000 }
const policy = {
  version: 1,
  limits: [
    { name: 'few', for: { category: 'few' }, max: ['4/3s'], over: 'delay' },
    { name: 'rare', for: { category: 'rare' }, max: ['2/60s'], over: 'delay' },
  ],
  onStateLost: { default: 'hold', security: 'refuse' },
}
const tenants = { paced: { rate: '20/2s' }, slow: { rate: '2/60s' } }

describe('a gateway with a file and a Redis', needs('redis'), () => {
  const ends: (() => unknown)[] = []
  const t = { after: (end: () => unknown) => void ends.push(end) } as never
  const redisFolder = mkdtempSync(join(tmpdir(), 'sluice-served-'))
  let service: Awaited<ReturnType<typeof startRedis>>
  let admin: Redis
  let sink: SinkProcess<'http'>
  let site: Site

  function configOf(): object {
    const url = sink.url.replace(/\/$/, '')
    const tenantsOf = { reads: 'unlimited', writes: 'unlimited', modules: 'unlimited', rate: 'unlimited' }
    return {
      state: `${service.url}?deadline=1s`,
      tenants: { default: tenantsOf, ...tenants },
      pools: {
        webhook: {
          provider: 'webhook',
          accounts: [{ id: 'main', url: `${url}/in`, rate: 'unlimited', concurrency: 50 }],
        },
      },
    }
  }

  before(async () => {
    service = await startRedis({ folder: redisFolder })
    admin = new Redis(service.url)
    admin.on('error', () => undefined)
    sink = await startSink(t, 'http')
    site = await createSite(t, { policy, config: configOf() })
    await site.start()
  })
  after(async () => {
    for (const end of ends) await end()
    admin.disconnect()
    await service.stop()
    rmSync(redisFolder, { recursive: true, force: true })
  })

  let serial = 0
  function post(body: object, tenant = 'default', at = site): Promise<Answer> {
    serial += 1
    const text = `Message ${serial}`
    const message = { recipient: { id: `r${serial}` }, channel: 'webhook', content: { subject: text, text } }
    return at.call('POST', '/api/v1/notifications', { ...message, ...body }, { 'x-tenant-id': tenant })
  }

  async function callsOf(): Promise<readonly Call[]> {
    const { requests } = await sink.dump(0)
    return requests.map(({ at, headers, body }) => ({
      at,
      id: String(headers['webhook-id']),
      recipient: (JSON.parse(body) as Call).recipient,
    }))
  }

  /** Asserts that no window of one of these recipients is over at the provider. */
  async function assertNoneOver(calls: readonly Call[]): Promise<void> {
    // A call that arrives while the provider's process stands still is stamped with the end of that.
    const { stalls } = (await sink.dump(0)).clock
    const stillMs = Math.max(0, ...stalls.map(({ ms }) => ms))
    for (const [recipient, own] of Map.groupBy(calls, (call) => call.recipient)) {
      const instants = own.map(({ at }) => at)
      const over = overfull(instants, { ...few, windowMs: few.windowMs - stillMs })
      assert.equal(over, 0, `${recipient}: ${instants}, ${clockText((await sink.dump(0)).clock)}`)
    }
  }

  /** Waits until the provider was called for each of these, for 60 s at most; returns their calls. */
  async function sent(ids: readonly string[]): Promise<readonly Call[]> {
    const wanted = new Set(ids)
    for (const until = performance.now() + 60_000; ; await sleep(200)) {
      const calls = (await callsOf()).filter(({ id }) => wanted.has(id))
      const found = new Set(calls.map(({ id }) => id)).size
      if (found === wanted.size) return calls
      assert.ok(performance.now() < until, `${found} of ${wanted.size} were sent`)
    }
  }

  test('lets no window be over, though Redis loses all or its last writes, and the gateway is killed', async () => {
    const rare = { category: 'rare', recipient: { id: 'rare' } }
    const first = (await post(rare)).json<Posted>()
    assert.equal((await post({}, 'slow')).status, 202)
    await sent([first.notificationId])
    const old = new Map<string, Buffer>()
    for (const key of await admin.keys('*')) old.set(key, (await admin.dumpBuffer(key))!)
    const second = (await post(rare)).json<Posted>()
    assert.equal((await post({}, 'slow')).status, 202)
    await sent([second.notificationId])

    const ids: string[] = []
    const postUntil = async (endsAt: number): Promise<void> => {
      for (let n = 0; performance.now() < endsAt; n += 1) {
        const posts = [post({ category: 'few', recipient: { id: `p${n % 4}` } })]
        for (let k = 0; k < 4; k += 1) posts.push(post({}, 'paced'))
        // The gateway may be gone.
        for (const answer of await Promise.all(posts.map((each) => each.catch(() => undefined))))
          if (answer?.status === 202 || answer?.status === 429) ids.push(answer.json<Posted>().notificationId)
        await sleep(100)
      }
    }
    const endsAt = performance.now() + 2_500
    const posting = postUntil(endsAt)
    for (; performance.now() < endsAt - 1_200; await sleep(150)) await admin.flushall()
    await site.kill()
    await posting
    await admin.flushall()
    for (const [key, value] of old) await admin.restore(key, 600_000, value)
    await site.start()
    const third = (await post(rare)).json<Posted>()
    assert.deepEqual([third.status, third.decision.reason], ['scheduled', 'recipient_limit'])
    assert.equal((await post({}, 'slow')).status, 429)
    await postUntil(performance.now() + 700)
    // On a busy machine the time may not have sufficed to fill more than two windows.
    while (ids.length < 4 * paced.max) ids.push((await post({}, 'paced')).json<Posted>().notificationId)
    await admin.flushall()
    const calls = (await sent(ids)).filter(({ recipient }) => recipient.startsWith('p'))
    await assertNoneOver(calls)
    const file = new DatabaseSync(join(site.folder, 'data/sluice.db'), { readOnly: true })
    const passes = file
      .prepare(
        `SELECT coalesce(s.turned_at, n.created_at) AS at FROM notifications n JOIN states s USING (seq)
         WHERE n.tenant = 'paced' ORDER BY at`,
      )
      .all()
      .map(({ at }) => Number(at))
    file.close()
    assert.ok(passes.length > paced.max, `${passes.length} have passed`)
    assert.equal(overfull(passes, paced), 0, `${passes}`)
  })

  /** Starts a gateway in this process on a file of its own, with the same Redis and the same prefix. */
  async function startOther(t: TestContext, parts: GatewayParts): Promise<Gateway> {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-other-'))
    writeFileSync(join(folder, 'policy.yaml'), stringify(policy))
    const document = { ...configOf(), store: 'sqlite:./sluice.db', policy: './policy.yaml' }
    writeFileSync(join(folder, 'sluice.yaml'), stringify({ ...document, log: { level: 'silent' } }))
    const gateway = await createGateway(
      loadConfig({ path: join(folder, 'sluice.yaml'), env: {}, cwd: folder }),
      parts,
    )
    t.after(async () => {
      await gateway.stop()
      rmSync(folder, { recursive: true, force: true })
    })
    await gateway.startStages()
    return gateway
  }

  test('decides one large batch after the other, so that Redis is in time with its answers', async (t) => {
    let [deciding, most] = [0, 0]
    const gateway = await startOther(t, {
      wrapState: (state) => ({
        ...state,
        async reserve(requests) {
          deciding += requests.length
          most = Math.max(most, deciding)
          await sleep(20)
          deciding -= requests.length
          return state.reserve(requests)
        },
      }),
    })
    const drafts = Array.from(
      { length: 100 },
      (_, at): Draft => ({
        to: { id: `together${at}` },
        channel: 'webhook',
        category: 'any',
        priority: 'normal',
        content: { text: 'together' },
      }),
    )
    const batches = Array.from({ length: 8 }, (_, at) =>
      gateway.gate.admit({ caller: { tenant: `tenant${at}`, module: 'tests' }, drafts }),
    )
    const accepted = (await Promise.all(batches)).flat()
    assert.equal(accepted.filter(({ notification }) => notification.undecided !== true).length, 800)
    // Where this process stands still for 300 ms, the batch that is being decided leaves its place to the next one.
    assert.ok(most <= 300, `${most} were decided at once`)
  })

  test('decides one that waited for its turn behind those to its recipient that were accepted undecided meanwhile', async (t) => {
    const busy = Promise.withResolvers<void>()
    let isAway = false
    const kept = new Set<string>()
    const gateway = await startOther(t, {
      wrapState: (state) => ({
        ...state,
        async reserve(requests) {
          if (requests.some(({ subject }) => subject.recipient === 'busy')) await busy.promise
          if (isAway || requests.some(({ id }) => kept.has(id)))
            throw new SluiceError('STATE_UNAVAILABLE', 'away')
          return state.reserve(requests)
        },
      }),
    })
    const draft = (id: string, priority: 'normal' | 'critical' = 'normal'): Draft => ({
      to: { id },
      channel: 'webhook',
      category: 'any',
      priority,
      content: { text: 'turns' },
    })
    const admit = (tenant: string, ...drafts: readonly Draft[]) =>
      gateway.gate.admit({ caller: { tenant, module: 'tests' }, drafts })
    const first = admit('other', ...Array.from({ length: 64 }, () => draft('busy')))
    const late = admit('turns', draft('ada'))
    // A batch with a critical one does not wait for its turn.
    isAway = true
    const [, earlier] = await admit('turns', draft('eve', 'critical'), draft('ada'))
    assert.equal(earlier!.notification.undecided, true)
    kept.add(earlier!.notification.id)
    isAway = false
    busy.resolve()
    await first
    const [later] = await late
    assert.equal(
      later!.notification.undecided,
      true,
      'it was decided before the one that was accepted before it',
    )
  })

  test('shares no count with a gateway on another file, and counts what Redis has lost before its answer came', async (t) => {
    // Redis loses everything before the first answers of `fire` are here, and another one is to be sent.
    const fired: boolean[] = []
    let isLost = false
    const gateway = await startOther(t, {
      wrapState: (state) => ({
        ...state,
        async fire(requests) {
          const answers = await state.fire(requests)
          const [request] = requests
          if (request === undefined || isLost) return answers
          isLost = true
          await admin.flushall()
          const rules = [limit('one', '1/60s', { stream: request.rules[0]!.stream })]
          const [next] = await state.fire([{ ...request, id: 'next', rules }])
          fired.push(next!.fired)
          return answers
        },
      }),
    })
    const shared = { category: 'rare', recipient: { id: 'shared' } }
    await sent([
      (await post(shared)).json<Posted>().notificationId,
      (await post(shared)).json<Posted>().notificationId,
    ])
    const admit = async (text: string) => {
      const to = { id: 'shared' }
      const draft = {
        to,
        channel: 'webhook',
        category: 'rare',
        priority: 'normal',
        content: { text },
      } as const
      const caller = { tenant: 'default', module: 'default' }
      const [admitted] = await gateway.gate.admit({ caller, drafts: [draft] })
      return admitted!.notification
    }
    const ids = [await admit('one'), await admit('two')].map(({ id }) => id)
    const third = await admit('three')
    assert.equal(third.decision.reason, 'recipient_limit')
    await sent(ids)
    assert.deepEqual(fired, [false])
    assert.equal((await post(shared)).json<Posted>().status, 'scheduled')
    const names = new Set((await admin.keys('*')).map((key) => /^sl:([0-9a-f]{16}):\{/.exec(key)?.[1]))
    assert.deepEqual([names.size, names.has(undefined)], [2, false])
  })

  test('accepts undecided while Redis has no memory left, and says so before anything was asked of it', async () => {
    const readiness = async () =>
      (await site.call('GET', '/readyz')).json<{ status: string; degraded?: readonly string[] }>()
    assert.deepEqual(await readiness(), { status: 'ready' })
    await admin.config('SET', 'maxmemory', '1mb')
    const { status, degraded } = await readiness()
    assert.equal(status, 'ready')
    assert.match(degraded?.[0] ?? '', /^state: .*OOM/)
    const held = (await post({ category: 'few', recipient: { id: 'full' } })).json<Posted>()
    assert.equal(held.decision.reason, 'state_unavailable')
    await admin.config('SET', 'maxmemory', '0')
    await sent([held.notificationId])
    assert.deepEqual(await readiness(), { status: 'ready' })
  })

  test('accepts undecided while Redis is away, refuses where the policy says so, and decides in order when it is back', async () => {
    await service.stop()
    const held: string[] = []
    for (let n = 0; n < 10; n += 1) {
      const answer = await post({ category: 'few', recipient: { id: `h${n % 2}` } })
      const { notificationId, status, decision, sendAt } = answer.json<Posted>()
      assert.deepEqual(
        [answer.status, status, decision.outcome, decision.reason, sendAt],
        [202, 'queued', 'delay', 'state_unavailable', undefined],
      )
      held.push(notificationId)
    }
    const refused = await post({ category: 'security' })
    assert.deepEqual([refused.status, refused.json<Posted>().code], [503, 'STATE_UNAVAILABLE'])
    const critical = (await post({ priority: 'critical' })).json<Posted>()
    assert.deepEqual([critical.status, critical.decision.outcome], ['queued', 'send'])
    const forbidden = (await post({ category: 'few', recipient: { id: 'out' } })).json<Posted>()
      .notificationId
    const tenant = { 'x-tenant-id': 'default' }
    const optOut = { optOuts: [{ category: 'few' }] }
    assert.equal((await site.call('PATCH', '/api/v1/recipients/out', optOut, tenant)).status, 200)
    const cancelled = held.pop()!
    const deleted = await site.call('DELETE', `/api/v1/notifications/${cancelled}`, undefined, tenant)
    assert.equal(deleted.status, 204)
    const ready = await site.call('GET', '/readyz')
    assert.match(ready.json<{ degraded: readonly string[] }>().degraded[0]!, /^state: /)

    service = await startRedis({ folder: redisFolder, port: Number(service.url.split(':').at(-1)) })
    const calls = await sent([...held, critical.notificationId])
    const all = new Set((await callsOf()).map(({ id }) => id))
    assert.ok(!all.has(forbidden) && !all.has(cancelled))
    const limited = calls.filter(({ recipient }) => recipient.startsWith('h'))
    await assertNoneOver(limited)
    for (const own of Map.groupBy(limited, (call) => call.recipient).values()) {
      // Some of one window meet the sink in any order; the next window is 3 s later.
      const inOrder = own.toSorted((a, b) => (a.id < b.id ? -1 : 1))
      const late = inOrder.filter(({ at }, index) =>
        inOrder.slice(index + 1).some((each) => each.at < at - few.windowMs / 2),
      )
      assert.deepEqual(late, [], 'in the order of acceptance')
    }
    const shown = await site.call('GET', `/api/v1/notifications/${forbidden}`, undefined, tenant)
    assert.equal(shown.json<Posted>().status, 'suppressed')
  })
})
