/** Answers to operators at one of two gateways: they tell of both. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import type { Site } from '../child.ts'
import { openEvents } from '../http/sse-reader.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { startFleet } from './fleet.ts'

after(dropSchemas)

const policy = { version: 1, limits: [{ name: 'few', for: 'any', max: ['2/day'], over: 'drop' }] }

interface Replay {
  readonly replayId: string
  readonly status: string
  readonly result?: object
}

interface Use {
  readonly windows: readonly {
    readonly admitted: number
    readonly dropped: number
    readonly recipientsFull: number
  }[]
}

interface Requests {
  readonly items: readonly { readonly status: number; readonly requestId: string }[]
}

interface Pools {
  readonly pools: readonly {
    readonly waiting: number
    readonly accounts: readonly { readonly inFlight: number }[]
  }[]
}

interface PoolRows {
  readonly pools: readonly { readonly channel: string; readonly waiting?: number }[]
  readonly accounts: readonly { readonly channel: string; readonly inFlight?: number }[]
}

interface Overview {
  readonly series: { readonly accepted: readonly number[] }
}

test('any gateway answers for a replay and ends it', needs('postgres', 'redis'), async (t) => {
  const { sites } = await startFleet(t, { name: 'replays', policy })
  const [maker, other] = [sites[0]!, sites[1]!]
  const body = { recipient: { id: 'ada' }, channel: 'webhook', content: { text: 'Hello' } }
  assert.equal((await other.call('POST', '/api/v1/notifications', body)).status, 202)
  const period = { from: new Date(Date.now() - 3_600_000).toISOString(), to: new Date().toISOString() }
  const started = await maker.call('POST', '/api/v1/replays', { ...period, policy })
  assert.equal(started.status, 202, started.text)
  const path = `/api/v1/replays/${started.json<Replay>().replayId}`

  // A gateway that is stopped and not yet declared dead may have it.
  process.kill(maker.pid!, 'SIGSTOP')
  const unknown = await other.call('GET', path)
  process.kill(maker.pid!, 'SIGCONT')
  assert.deepEqual([unknown.status, unknown.json<{ code: string }>().code], [503, 'STATE_UNAVAILABLE'])

  let found: Replay = { replayId: '', status: 'running' }
  for (const end = performance.now() + 120_000; performance.now() < end; await sleep(200)) {
    const answer = await other.call('GET', path)
    if (answer.status === 200) found = answer.json<Replay>()
    if (found.status !== 'running') break
  }
  assert.deepEqual([found.status, typeof found.result], ['done', 'object'])
  assert.equal((await other.call('DELETE', path)).status, 204)
  for (const site of sites) assert.equal((await site.call('GET', path)).status, 404)
})

test('the counters of one gateway are those of both', needs('postgres', 'redis'), async (t) => {
  const { sites } = await startFleet(t, { name: 'operators', policy })
  const post = (at: number, id: string) => {
    const body = { recipient: { id }, channel: 'webhook', content: { text: 'Hello' } }
    return sites[at]!.call('POST', '/api/v1/notifications', body)
  }
  for (const [at, id] of [
    [0, 'ada'],
    [1, 'ada'],
    [0, 'ada'],
    [1, 'ada'],
    [1, 'bob'],
  ] as const)
    assert.equal((await post(at, id)).status, 202)
  for (const site of sites)
    assert.equal((await site.call('POST', '/api/v1/notifications', { wrong: true })).status, 400)

  const read = async (at: number) => {
    const paths = ['policy/use', 'requests?status=400', 'overview']
    const [use, requests, overview] = await Promise.all(
      paths.map((path) => sites[at]!.call('GET', `/api/v1/${path}`)),
    )
    const { admitted, dropped, recipientsFull } = use!.json<Use>().windows[0]!
    const statuses = requests!.json<Requests>().items.map(({ status }) => status)
    const accepted = overview!.json<Overview>().series.accepted.reduce((sum, n) => sum + n, 0)
    return { admitted, dropped, recipientsFull, statuses, accepted }
  }
  const all = {
    admitted: 3,
    dropped: 2,
    recipientsFull: 1,
    statuses: [400, 400],
    accepted: 5,
  }
  for (const at of [0, 1]) {
    let found = await read(at)
    // The series are told once a second.
    for (const end = performance.now() + 20_000; performance.now() < end; found = await read(at)) {
      if (found.accepted >= all.accepted) break
      await sleep(200)
    }
    assert.deepEqual(found, all, `at ${at}`)
  }
})

test(
  'calls under way and those who wait for them are those of both',
  needs('postgres', 'redis'),
  async (t) => {
    const { sites, sink } = await startFleet(t, {
      name: 'busy',
      policy: { version: 1, limits: [] },
      concurrency: 2,
    })
    await sink.rules([{ do: 'hang' }])
    for (const site of sites)
      for (const id of ['ada', 'bob', 'cem', 'dan']) {
        const body = { recipient: { id }, channel: 'webhook', content: { text: 'Hello' } }
        assert.equal((await site.call('POST', '/api/v1/notifications', body)).status, 202)
      }
    for (const site of sites) {
      assert.deepEqual(await streamed(site), [6, 2])
      // The account takes two calls at once, of all gateways together.
      let found: readonly number[] = []
      for (const end = performance.now() + 10_000; performance.now() < end; await sleep(100)) {
        const [pool] = (await site.call('GET', '/api/v1/pools?channel=webhook')).json<Pools>().pools
        found = [pool!.waiting, pool!.accounts[0]!.inFlight]
        if (found[0] === 6 && found[1] === 2) break
      }
      assert.deepEqual(found, [6, 2])
    }
  },
)

/** Reads the stream of pools until it has told of what waits and is under way, at most for ten events. */
async function streamed(site: Site): Promise<readonly (number | undefined)[]> {
  const stream = await openEvents<PoolRows>(`${site.url}/api/v1/pools/stream`, 'accounts')
  let [waiting, inFlight]: (number | undefined)[] = []
  for (let count = 1; count <= 10; count += 1) {
    const { pools, accounts } = (await stream.events(count)).at(-1)!.data
    waiting = pools.find(({ channel }) => channel === 'webhook')?.waiting ?? waiting
    inFlight = accounts.find(({ channel }) => channel === 'webhook')?.inFlight ?? inFlight
    if (waiting === 6 && inFlight === 2) break
  }
  stream.close()
  return [waiting, inFlight]
}
