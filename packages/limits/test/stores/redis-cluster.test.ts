/** The Redis store on a cluster of three: the suite again, and subjects on every node in one call. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, it } from 'node:test'
import { exerciseStore } from '@sluice/limits-conformance'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import { needs } from '../../../../scripts/services/needs.ts'
import { createLimits, limit, redisStore } from '../../src/index.ts'

const nodes = (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '').split(',').filter(Boolean)
let stores = 0

describe('on a cluster of three', needs('redis-cluster'), () => {
  const at = nodes.map((url) => ({ host: new URL(url).hostname, port: Number(new URL(url).port) }))
  const client = new Cluster(at, { lazyConnect: true, enableAutoPipelining: true })
  after(() => client.disconnect())
  const open = (world: { now?: () => number }) => {
    stores += 1
    return {
      store: redisStore(client, { ...world, deadlineMs: 20_000, prefix: `${process.pid}:${stores}:` }),
    }
  }

  exerciseStore(open, { name: 'a Redis Cluster', operations: 400 })

  it('asks many subjects on all nodes in one call, by the time of the servers', async () => {
    const limits = createLimits({ store: open({}).store })
    const rules = [limit('two', '2/day')]
    const calls = Array.from({ length: 90 }, (_, index) => ({ subject: `user:${index % 30}`, rules }))
    const decisions = await limits.takeMany(calls)
    assert.deepEqual(
      decisions.map(({ allowed }) => allowed),
      calls.map((_, index) => index < 60),
    )
    const sizes = await Promise.all(client.nodes('master').map((node) => node.dbsize()))
    assert.ok(
      sizes.every((size) => size > 0),
      `keys lie on all nodes: ${sizes}`,
    )
  })

  it('answers over node-redis as over ioredis', async (t) => {
    const other = createCluster({ rootNodes: nodes.map((url) => ({ url })) })
    await other.connect()
    t.after(() => other.destroy())
    const limits = createLimits({
      store: redisStore(other, { deadlineMs: 20_000, prefix: `${process.pid}:node-redis:` }),
    })
    const rules = [limit('two', '2/day')]
    const subjects = Array.from({ length: 30 }, (_, index) => `user:${index}`)
    await limits.reserveMany(subjects.map((subject) => ({ subject, rules, id: 'n' })))
    const fired = await limits.fireMany(subjects.map((subject) => ({ subject, rules, id: 'n' })))
    assert.ok(fired.every((decision) => decision.fired && decision.rules[0]!.remaining === 1))
  })
})
