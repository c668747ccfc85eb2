/** Hints over a real Redis and a real Cluster. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@redis/client'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../../../scripts/services/redis.ts'
import { startRedisCluster } from '../../../../../../scripts/services/redis-cluster.ts'
import { createRedisBus } from '../../../../src/adapters/state/redis/redis-bus.ts'
import { createRedisClient } from '../../../../src/adapters/state/redis/redis-client.ts'
import { createRedisNotifier } from '../../../../src/adapters/state/redis/redis-notifier.ts'
import { createRedisPeers } from '../../../../src/adapters/state/redis/redis-peers.ts'
import { exerciseNotifier } from '../../../../src/conformance/notifier.ts'
import type { Hint, Notifier, Peers } from '../../../../src/ports/fleet.ts'
import { startProxy } from '../../../store/postgres/proxy.ts'
import { newPrefix } from './open.ts'

const engines = {
  redis: [process.env.SLUICE_TEST_REDIS ?? ''],
  'redis-cluster': (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '').split(','),
}

interface JoinOptions {
  readonly urls: readonly string[]
  readonly member: string
  readonly prefix: string
}

async function joinHints({ urls, ...options }: JoinOptions): Promise<Notifier> {
  const bus = await createRedisBus({ urls, prefix: options.prefix })
  const notifier = await createRedisNotifier({ bus, ...options })
  return {
    ...notifier,
    async close() {
      await notifier.close()
      bus.close()
    },
  }
}

async function joinPeers(t: TestContext, { urls, ...options }: JoinOptions): Promise<Peers> {
  const bus = await createRedisBus({ urls })
  const peers = await createRedisPeers({ bus, ...options })
  const close = async () => {
    await peers.close()
    bus.close()
  }
  t.after(close)
  return { ...peers, close }
}

async function until(condition: () => boolean): Promise<void> {
  const end = performance.now() + 30_000
  while (!condition()) {
    assert.ok(performance.now() < end, 'it does not come true')
    await sleep(2)
  }
}

/** Waits until the nodes of a cluster have passed on what was told before: a process that joins meanwhile would hear it. */
async function passedOn(urls: readonly string[]): Promise<void> {
  const connected = () => Promise.all(urls.map((url) => createRedisClient({ url }).connect()))
  const [tellers, hearers, channel] = [await connected(), await connected(), newPrefix()]
  let heard = 0
  const hear = (): void => {
    heard += 1
  }
  await Promise.all(hearers.map((hearer) => hearer.subscribe(channel, hear)))
  await Promise.all(tellers.map((teller) => teller.publish(channel, '')))
  await until(() => heard >= urls.length ** 2)
  for (const client of [...tellers, ...hearers]) client.destroy()
}

for (const [engine, urls] of Object.entries(engines))
  describe(`hints over ${engine}`, needs(engine), () => {
    exerciseNotifier(
      `Hints over ${engine}`,
      () => {
        const prefix = newPrefix()
        let members = 0
        return {
          async join() {
            members += 1
            await passedOn(urls)
            // Each at another node of a cluster.
            const own = urls.map((_, n) => urls[(n + members) % urls.length]!)
            return joinHints({ urls: own, member: String(members), prefix })
          },
          close: async () => {},
        }
      },
      until,
    )
  })

// They mostly wait.
describe('the line to Redis', { concurrency: 3 }, () => {
  test(
    'hears again after its connection was lost, and misses only what was told meanwhile',
    needs('redis'),
    async (t) => {
      const prefix = newPrefix()
      const control = createClient({ url: engines.redis[0]! })
      await control.connect()
      // A user of its own: other tests keep their connections.
      const user = `hearing-${process.pid}`
      await control.sendCommand(['ACL', 'SETUSER', user, 'on', 'nopass', '~*', '&*', '+@all'])
      t.after(async () => {
        await control.sendCommand(['ACL', 'DELUSER', user])
        control.destroy()
      })
      const url = new URL(engines.redis[0]!)
      Object.assign(url, { username: user, password: 'any' })
      const join = async (member: string) => {
        const notifier = await joinHints({ urls: [url.href], member, prefix })
        t.after(notifier.close)
        const heard: Hint[] = []
        notifier.listen((hint) => heard.push(hint))
        return { notifier, heard }
      }
      const [a, b] = [await join('a'), await join('b')]
      a.notifier.tell({ topic: 'holds' })
      await until(() => b.heard.length === 1)
      assert.equal(await control.sendCommand(['CLIENT', 'KILL', 'USER', user]), 4)
      a.notifier.tell({ topic: 'holds' })
      const before = b.heard.length
      const end = performance.now() + 10_000
      while (b.heard.length === before) {
        assert.ok(performance.now() < end, 'it hears nothing any more')
        a.notifier.tell({ topic: 'recipient', tenant: 'acme', recipient: 'ada' })
        await sleep(20)
      }
    },
  )

  test(
    'hears with the rights that docs/guides/many-machines.md names, and no others',
    needs('redis'),
    async (t) => {
      const prefix = newPrefix()
      const control = createClient({ url: engines.redis[0]! })
      await control.connect()
      const user = `listed-${process.pid}`
      const channels = ['hints', 'peers', 'peers:*'].map((name) => `&${prefix}${name}`)
      const rights = [`~${prefix}*`, 'resetchannels', ...channels, '+@all', '-@dangerous', '+info']
      await control.sendCommand(['ACL', 'SETUSER', user, 'on', 'nopass', ...rights])
      t.after(async () => {
        await control.sendCommand(['ACL', 'DELUSER', user])
        control.destroy()
      })
      const url = new URL(engines.redis[0]!)
      Object.assign(url, { username: user, password: 'any' })
      const [told, hearing] = await Promise.all(
        ['a', 'b'].map((member) => joinHints({ urls: [url.href], member, prefix })),
      )
      t.after(() => Promise.all([told!.close(), hearing!.close()]))
      const heard: Hint[] = []
      hearing!.listen((hint) => heard.push(hint))
      told!.tell({ topic: 'holds' })
      await until(() => heard.length === 1)
    },
  )

  test(
    'goes to the next node where one answers nothing and ends no connection',
    needs('redis'),
    async (t) => {
      async function startOwn() {
        const folder = mkdtempSync(join(tmpdir(), 'sluice-bus-'))
        const service = await startRedis({ folder })
        t.after(async () => {
          process.kill(service.pid, 'SIGCONT')
          await service.stop()
          rmSync(folder, { recursive: true, force: true })
        })
        return service
      }
      const [frozen, next] = [await startOwn(), await startOwn()]
      const urls = [frozen.url, next.url]
      const errors: unknown[] = []
      const bus = await createRedisBus({ urls, onError: (error) => errors.push(error) })
      const heard: string[] = []
      await bus.subscribe('words', (text) => heard.push(text))
      t.after(() => bus.close())
      bus.publish('words', 'first')
      await until(() => heard.includes('first'))
      process.kill(frozen.pid, 'SIGSTOP')
      const control = createClient({ url: next.url })
      control.on('error', () => {})
      await control.connect()
      t.after(() => control.destroy())
      const end = performance.now() + 60_000
      while (!heard.includes('next')) {
        assert.ok(performance.now() < end, 'it stays with a node that answers nothing')
        await control.publish('words', 'next')
        await sleep(50)
      }
      assert.ok(bus.isReady())
      assert.match(String(errors[0]), /nothing is heard from 127\.0\.0\.1:\d+/)
    },
  )

  test(
    'goes to a node of its cluster that no address names where those that are named have gone',
    needs('redis-cluster'),
    async (t) => {
      const cluster = await startRedisCluster()
      const urls = cluster.env.SLUICE_TEST_REDIS_CLUSTER!.split(',')
      const bus = await createRedisBus({ urls: urls.slice(0, 1), urlOfNode: (node) => `redis://${node}` })
      const control = createClient({ url: urls[2]! }).on('error', () => {})
      t.after(async () => {
        bus.close()
        control.destroy()
        await cluster.stop()
      })
      await until(() => bus.isReady())
      process.kill(cluster.pid, 'SIGKILL')
      const heard: string[] = []
      await control.connect()
      await control.subscribe('words', (text) => heard.push(text))
      const end = performance.now() + 10_000
      while (!heard.includes('word')) {
        assert.ok(performance.now() < end, 'it speaks to nobody any more')
        bus.publish('words', 'word')
        await sleep(50)
      }
    },
  )

  test('leaves a node that has left its cluster', needs('redis-cluster'), async (t) => {
    const cluster = await startRedisCluster()
    const urls = cluster.env.SLUICE_TEST_REDIS_CLUSTER!.split(',')
    const bus = await createRedisBus({ urls: urls.slice(0, 1), urlOfNode: (node) => `redis://${node}` })
    const [left, ...others] = urls.map((url) => createClient({ url }))
    t.after(async () => {
      bus.close()
      for (const client of [left!, ...others]) client.destroy()
      await cluster.stop()
    })
    for (const client of [left!, ...others]) await client.connect()
    await until(() => bus.isReady())
    // As `redis-cli --cluster del-node` does behind the move of its slots.
    const id = String(await left!.sendCommand(['CLUSTER', 'MYID']))
    for (const client of others) await client.sendCommand(['CLUSTER', 'FORGET', id])
    await left!.sendCommand(['CLUSTER', 'RESET'])
    const heard: string[] = []
    await others[0]!.subscribe('words', (text) => heard.push(text))
    const end = performance.now() + 20_000
    while (heard.length === 0) {
      assert.ok(performance.now() < end, 'it stays with a node that passes nothing on')
      bus.publish('words', 'word')
      await sleep(50)
    }
  })

  test('leaves a server that was demoted behind its address', needs('redis'), async (t) => {
    const [demoted, promoted] = [await startRedis(), await startRedis()]
    t.after(() => Promise.all([demoted.stop(), promoted.stop()]))
    const proxy = await startProxy(demoted.url)
    t.after(proxy.close)
    const bus = await createRedisBus({ urls: [proxy.url] })
    t.after(() => bus.close())
    const heard: string[] = []
    await bus.subscribe('words', (text) => heard.push(text))
    proxy.leadTo(promoted.url)
    const [admin, control] = [createClient({ url: demoted.url }), createClient({ url: promoted.url })]
    for (const client of [admin, control]) {
      client.on('error', () => {})
      await client.connect()
      t.after(() => client.destroy())
    }
    await admin.sendCommand(['REPLICAOF', '127.0.0.1', new URL(promoted.url).port])
    await control.subscribe('words', (text) => heard.push(`${text} there`))
    const end = performance.now() + 30_000
    while (!heard.includes('word there')) {
      assert.ok(performance.now() < end, 'it stays with a server that passes nothing on')
      bus.publish('words', 'word')
      await sleep(50)
    }
  })

  test('hears over a slow line where one of its first connections is cut', needs('redis'), async (t) => {
    const { hostname, port } = new URL(engines.redis[0]!)
    let connections = 0
    let isSubscribing = false
    // Each answer takes longer than the pause before the next try.
    const line = createServer((near) => {
      connections += 1
      if (connections > 2) near.on('data', () => (isSubscribing = true))
      const far = connect(Number(port), hostname)
      for (const [each, other] of [
        [near, far],
        [far, near],
      ] as const)
        each.on('error', () => {}).on('close', () => other.destroy())
      near.pipe(far)
      far.on('data', (bytes) => void setTimeout(() => near.write(bytes), 700))
      if (connections === 1) setTimeout(() => near.destroy(), 100)
    })
    await new Promise<void>((resolve) => line.listen(0, '127.0.0.1', resolve))
    t.after(() => line.close())
    const bus = await createRedisBus({ urls: [`redis://127.0.0.1:${(line.address() as AddressInfo).port}`] })
    t.after(() => bus.close())
    await until(() => isSubscribing)
    const heard: string[] = []
    await bus.subscribe('slow words', (text) => heard.push(text))
    await until(() => bus.isReady())
    bus.publish('slow words', 'first')
    await until(() => heard.includes('first'))
  })
})

for (const [engine, urls] of Object.entries(engines))
  describe(`peers over ${engine}`, needs(engine), () => {
    /** Processes that know each other; of a cluster each is at another node. */
    async function meet(t: TestContext, ...names: readonly string[]): Promise<readonly Peers[]> {
      const prefix = newPrefix()
      const joined: Peers[] = []
      for (const [n, member] of names.entries())
        joined.push(
          await joinPeers(t, { urls: urls.map((_, i) => urls[(n + i) % urls.length]!), member, prefix }),
        )
      for (const peers of joined) peers.answer('name', (question) => `it is ${question}`)
      for (const peers of joined) await untilAnswered(peers, names.length - 1)
      return joined
    }

    async function untilAnswered(peers: Peers, count: number): Promise<void> {
      const end = performance.now() + 10_000
      while ((await peers.ask('name', 'me')).answers.size < count) {
        assert.ok(performance.now() < end, `${count} processes are not met`)
        await sleep(2)
      }
    }

    test('every other process answers a question, one process where it is named', async (t) => {
      const [a] = await meet(t, 'a', 'b', 'c')
      const { answers, silent } = await a!.ask('name', 'b or c')
      assert.deepEqual([...answers].sort(), [
        ['b', 'it is b or c'],
        ['c', 'it is b or c'],
      ])
      assert.deepEqual(silent, [])
      const one = await a!.ask('name', 'c', { to: 'c' })
      assert.deepEqual([...one.answers.keys()], ['c'])
    })

    test('an answer that is enough ends the wait for the others', async (t) => {
      const [a, b, c] = await meet(t, 'a', 'b', 'c')
      b!.answer('slow', () => 'quick')
      c!.answer('slow', () => new Promise(() => {}))
      const { answers, silent } = await a!.ask('slow', 0, {
        withinMs: 60_000,
        isEnough: (answer) => answer === 'quick',
      })
      assert.deepEqual([[...answers.keys()], silent], [['b'], ['c']])
    })

    test('a process that does not answer is waited for once, until it is heard again or has died', async (t) => {
      const [a, b] = await meet(t, 'a', 'b')
      b!.answer('deaf', () => new Promise(() => {}))
      assert.deepEqual((await a!.ask('deaf', 0, { withinMs: 50 })).silent, ['b'])
      const soon = a!.ask('deaf', 0, { withinMs: 60_000 })
      assert.deepEqual((await soon).silent, ['b'])
      b!.tell('word', 0)
      await untilAnswered(a!, 1)
      const open = a!.ask('deaf', 0, { withinMs: 60_000 })
      a!.noteGone(['b'])
      assert.deepEqual((await open).silent, [])
    })

    test('a process that takes leave is asked no more', async (t) => {
      const [a, b] = await meet(t, 'a', 'b')
      await b!.close()
      const end = performance.now() + 10_000
      for (;;) {
        const { answers, silent } = await a!.ask('name', 0, { withinMs: 20 })
        if (answers.size === 0 && silent.length === 0) break
        assert.ok(performance.now() < end, 'it is asked still')
        await sleep(2)
      }
    })
  })
