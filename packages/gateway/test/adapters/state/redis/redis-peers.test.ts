/** The talk of processes where a listener throws, and over a cluster that is cut in two. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createRedisBus } from '../../../../src/adapters/state/redis/redis-bus.ts'
import { createRedisNotifier } from '../../../../src/adapters/state/redis/redis-notifier.ts'
import { createRedisPeers } from '../../../../src/adapters/state/redis/redis-peers.ts'
import { startProxy } from '../../../store/postgres/proxy.ts'
import { startCutCluster } from './cut-cluster.ts'
import { newPrefix } from './open.ts'

/** Opens what a process speaks over, and keeps the errors that it reports. */
async function join(
  t: TestContext,
  prefix: string,
  member: string,
  url = process.env.SLUICE_TEST_REDIS ?? '',
) {
  const errors: string[] = []
  const onError = (error: unknown): void => void errors.push(String(error))
  const bus = await createRedisBus({ urls: [url], prefix, onError })
  const [peers, notifier] = await Promise.all([
    createRedisPeers({ bus, member, prefix, onError }),
    createRedisNotifier({ bus, member, prefix, onError }),
  ])
  t.after(async () => {
    await Promise.all([peers.close(), notifier.close()])
    bus.close()
  })
  return { peers, notifier, errors }
}

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (const endsAt = performance.now() + 10_000; !isSo(); await sleep(5))
    assert.ok(performance.now() < endsAt, what)
}

const fail = (): never => {
  throw new Error('a listener that fails')
}

test('hears the rest of a text where a listener throws', needs('redis'), async (t) => {
  const prefix = newPrefix()
  const a = await join(t, prefix, 'a')
  const b = await join(t, prefix, 'b')
  const heard: unknown[] = []
  b.peers.listen('fails', fail)
  b.peers.listen('fails', (word) => heard.push(word))
  b.peers.listen('word', (word) => heard.push(word))
  for (const [topic, word] of [
    ['fails', 1],
    ['word', 2],
    ['fails', 3],
  ] as const)
    a.peers.tell(topic, word)
  await until('all three are heard', () => heard.length === 3)
  assert.deepEqual(heard, [1, 2, 3])
  assert.deepEqual(b.errors, Array(2).fill('Error: a listener that fails'))
})

test('keeps its connection where a listener throws when it was made anew', needs('redis'), async (t) => {
  const proxy = await startProxy(process.env.SLUICE_TEST_REDIS!)
  t.after(proxy.close)
  const { peers, errors } = await join(t, newPrefix(), 'a', proxy.url)
  let lost = 0
  peers.onLost(fail)
  peers.onLost(() => {
    lost += 1
  })
  proxy.cutAll()
  await until('the connection is made anew', () => lost > 0)
  await sleep(1_500)
  assert.equal(lost, 1)
  assert.deepEqual(
    errors.filter((error) => error.includes('fails')),
    ['Error: a listener that fails'],
  )
})

test('gives a hint to the other listeners where one throws', needs('redis'), async (t) => {
  const prefix = newPrefix()
  const a = await join(t, prefix, 'a')
  const b = await join(t, prefix, 'b')
  let heard = 0
  b.notifier.listen(fail)
  b.notifier.listen(() => {
    heard += 1
  })
  a.notifier.tell({ topic: 'holds' })
  await until('the hint is heard', () => heard === 1)
  assert.deepEqual(b.errors, ['Error: a listener that fails'])
})

test(
  'goes to another node where the one that it has is cut off from most of its cluster',
  needs('redis-cluster'),
  async (t) => {
    const cluster = await startCutCluster(t)
    const [lonely, ...others] = cluster.urls
    const urlOfNode = (node: string): string => `redis://${node}`
    const [one, other] = await Promise.all(
      [[lonely!], others].map((urls) => createRedisBus({ urls, urlOfNode })),
    )
    t.after(() => [one!, other!].map((bus) => bus.close()))
    const heard: string[] = []
    await one!.subscribe('words', (text) => heard.push(text))
    const untilHeard = async (word: string, withinMs: number): Promise<void> => {
      for (const endsAt = performance.now() + withinMs; !heard.includes(word); await sleep(50)) {
        assert.ok(performance.now() < endsAt, `${word} is not heard`)
        other!.publish('words', word)
      }
    }
    await untilHeard('before', 10_000)
    cluster.cut(true)
    await sleep(500)
    heard.length = 0
    await untilHeard('behind the cut', 30_000)
    cluster.cut(false)
    await untilHeard('after', 10_000)
  },
)
