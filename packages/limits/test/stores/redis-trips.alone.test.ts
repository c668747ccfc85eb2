/**
 * Many questions, one round trip: counted on the wire, at each node. Alone, because others on the server would teach it
 * the script that it is to have forgotten; beside each other where they only wait for the long wire.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it, type TestContext } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createClient } from 'redis'
import { needs } from '../../../../scripts/services/needs.ts'
import { createLimits, type Limits, limit, type RedisClient, redisStore } from '../../src/index.ts'
import { startWire, type Wire } from './wire.ts'

const rules = [limit('two', '2/day'), limit('all', '5/30min', { stream: 'all', minGap: 1 })]
const subjects = Array.from({ length: 60 }, (_, index) => `user:${index}`)
const deadlineMs = 20_000
/**
 * A wire this long makes everything that is sent without waiting one turn, whatever chunks it is cut into. A busy
 * machine stalls for 30 ms between two of them.
 */
const delayMs = 120

describe('round trips of the Redis store', () => {
  const at = (url: string) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) })
  let opened = 0
  const over = (client: RedisClient): Limits => {
    opened += 1
    return createLimits({
      store: redisStore(client, { prefix: `trips${process.pid}:${opened}:`, deadlineMs }),
    })
  }

  /** The turns that each call takes on the way through these wires. */
  async function turnsOf(wires: readonly Wire[], limits: Limits): Promise<Record<string, number[]>> {
    const turns: Record<string, number[]> = {}
    const count = async (name: string, call: () => Promise<unknown>) => {
      for (const wire of wires) wire.turns = 0
      await call()
      turns[name] = wires.map((wire) => wire.turns)
    }
    const each = <C>(make: (subject: string) => C): C[] => subjects.map(make)
    await count('take', () => limits.take('user:0', rules))
    await count('takeMany', () => limits.takeMany(each((subject) => ({ subject, rules }))))
    await count('reserveMany', () => limits.reserveMany(each((subject) => ({ subject, rules, id: 'n' }))))
    await count('previewMany', () => limits.previewMany(each((subject) => ({ subject, rules }))))
    await count('fireMany', () => limits.fireMany(each((subject) => ({ subject, rules, id: 'n' }))))
    await count('cancelMany', () => limits.cancelMany(each((subject) => ({ subject, id: 'n' }))))
    return turns
  }

  const once = (turns: Record<string, number[]>, nodes: number): void => {
    for (const [name, counts] of Object.entries(turns)) {
      const expected = name === 'take' ? 1 : nodes
      assert.equal(counts.filter((count) => count > 0).length, expected, `${name} on ${counts}`)
      assert.ok(Math.max(...counts) === 1, `${name} took ${counts} turns`)
    }
  }

  async function wired(t: TestContext, url: string): Promise<Wire> {
    const wire = await startWire(at(url))
    t.after(() => wire.close())
    return wire
  }

  describe('of many questions', { concurrency: true }, () => {
    for (const enableAutoPipelining of [true, false]) {
      it(
        `is one for many subjects over ioredis, auto pipelining ${enableAutoPipelining}`,
        needs('redis'),
        async (t) => {
          const wire = await wired(t, process.env.SLUICE_TEST_REDIS!)
          const client = new Redis(wire.port, { enableAutoPipelining })
          t.after(() => client.disconnect())
          const limits = over(client)
          await limits.take('warm', rules)
          wire.delayMs = delayMs
          once(await turnsOf([wire], limits), 1)
        },
      )
    }

    it('is one for many subjects over node-redis', needs('redis'), async (t) => {
      const wire = await wired(t, process.env.SLUICE_TEST_REDIS!)
      const client = createClient({ url: `redis://127.0.0.1:${wire.port}` })
      await client.connect()
      t.after(() => client.destroy())
      const limits = over(client)
      await limits.take('warm', rules)
      wire.delayMs = delayMs
      once(await turnsOf([wire], limits), 1)
    })

    it('is one at each node of a cluster, at the same time', needs('redis-cluster'), async (t) => {
      const nodes = process.env.SLUICE_TEST_REDIS_CLUSTER!.split(',')
      const wires = await Promise.all(nodes.map((url) => wired(t, url)))
      const natMap = Object.fromEntries(
        nodes.map((url, index) => [new URL(url).host, { host: '127.0.0.1', port: wires[index]!.port }]),
      )
      const client = new Cluster([at(nodes[0]!)], { natMap, enableAutoPipelining: true })
      t.after(() => client.disconnect())
      const limits = over(client)
      await limits.takeMany(subjects.map((subject) => ({ subject: `warm${subject}`, rules })))
      for (const wire of wires) wire.delayMs = delayMs
      once(await turnsOf(wires, limits), nodes.length)
    })
  })

  it(
    'is one more where the server does not know the script, which then travels once',
    needs('redis'),
    async (t) => {
      const wire = await wired(t, process.env.SLUICE_TEST_REDIS!)
      const client = new Redis(wire.port, { enableAutoPipelining: true })
      t.after(() => client.disconnect())
      const limits = over(client)
      const calls = subjects.map((subject) => ({ subject, rules }))
      await limits.takeMany(calls)
      wire.bytes = 0
      await limits.takeMany(calls)
      const knownBytes = wire.bytes
      await client.script('FLUSH')
      wire.delayMs = delayMs
      wire.turns = 0
      wire.bytes = 0
      const decisions = await limits.takeMany([...calls, ...calls])
      assert.equal(wire.turns, 2)
      // Twice as many calls, each sent twice, and one text of the script.
      assert.ok(wire.bytes < 4 * knownBytes + 40_000, `${wire.bytes} bytes, ${knownBytes} for half of them`)
      assert.ok(decisions.every(({ allowed }) => !allowed))
    },
  )
})
