/**
 * The delivery log of two gateways: while Cassandra is frozen and the process that writes the log is killed, nothing waits,
 * and after it the log has each change of state once.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import cassandra from 'cassandra-driver'
import { needs } from '../../../../scripts/services/needs.ts'
import { createCassandraLog } from '../../src/adapters/delivery-log/cassandra.ts'
import type { Site } from '../child.ts'
import { ask, dropSchemas, schemaUrl } from '../store/postgres/database.ts'
import { startProxy } from '../store/postgres/proxy.ts'
import { callsOfTenant, inParallel, startFleet } from './fleet.ts'

interface Told {
  readonly timeline: readonly { readonly at: string; readonly status: string }[]
}

const perRound = 60

/** The number of changes of state that a gateway says it has written. */
async function writtenBy(site: Site): Promise<number> {
  const { text } = await site.call('GET', '/metrics')
  return Number(/^sluice_delivery_log_written_total (\d+)$/m.exec(text)?.[1])
}

describe('the delivery log of two gateways', needs('postgres', 'redis', 'cassandra'), () => {
  after(dropSchemas)

  test('has each change of state once, after its writer was killed while Cassandra was frozen', async (t) => {
    const { username, password, host: node } = new URL(`cassandra://${process.env.SLUICE_TEST_CASSANDRA!}`)
    const keyspace = `t_${randomBytes(4).toString('hex')}`
    const proxy = await startProxy(`cassandra://${node}`)
    t.after(proxy.close)
    const fleet = await startFleet(t, {
      name: 'delivery_log',
      config: { deliveryLog: `${proxy.url.replace('//', `//${username}:${password}@`)}/${keyspace}` },
    })
    const { sites, post } = fleet
    const ids: string[] = []
    const postRound = async (gateways: number) => {
      const answers = await inParallel(perRound, 20, (n) => post(n % gateways))
      for (const answer of answers) {
        assert.equal(answer.status, 202)
        ids.push(answer.json<{ readonly notificationId: string }>().notificationId)
      }
    }
    /** Waits until the outbox is empty. */
    const logged = async () => {
      for (const until = performance.now() + 40_000; performance.now() < until; await sleep(200)) {
        const [row] = await ask(schemaUrl('delivery_log'), 'SELECT count(*)::int AS n FROM outbox')
        if (row!.n === 0) return
      }
      assert.fail(`the outbox was not emptied:\n${sites.map((site) => site.log()).join('\n')}`)
    }

    await postRound(2)
    await callsOfTenant(fleet, 'default', perRound, 15_000)
    await logged()
    const counts = await Promise.all(sites.map(writtenBy))
    const writer = counts[0]! > 0 ? 0 : 1
    assert.equal(counts[1 - writer], 0, 'one process writes for all')

    proxy.freeze()
    await postRound(2)
    const calls = await callsOfTenant(fleet, 'default', 2 * perRound, 15_000)
    assert.equal(calls.length, 2 * perRound, 'nothing waits for the log')
    await sites[writer]!.kill()
    proxy.thaw()
    const left = sites[1 - writer]!
    const late = await left.call('POST', '/api/v1/notifications', {
      recipient: { id: 'late' },
      channel: 'webhook',
      content: { subject: 'late', text: 'late' },
    })
    ids.push(late.json<{ readonly notificationId: string }>().notificationId)
    await callsOfTenant(fleet, 'default', 2 * perRound + 1, 15_000)
    await sleep(500)
    await logged()

    const address = { nodes: [node], user: username, password, keyspace, shown: node }
    const log = createCassandraLog({ address, keepMs: 365 * 86_400_000, clock: { now: Date.now } })
    t.after(() => log.close())
    let entries = 0
    await inParallel(ids.length, 10, async (n) => {
      const id = ids[n]!
      const { timeline } = (await left.call('GET', `/api/v1/notifications/${id}`)).json<Told>()
      const found = await log.notification(id)
      const told = timeline.map(({ at, status }) => ({ at: Date.parse(at), status }))
      // Each gateway shows the time of the record by its own clock, of which it knows the error to some milliseconds.
      const aheadMs = found!.entries[0]!.at - told[0]!.at
      assert.ok(Math.abs(aheadMs) < 50, `the log is ${aheadMs} ms ahead`)
      assert.deepEqual(
        found!.entries.map(({ at, status }) => ({ at: at - aheadMs, status })),
        told,
      )
      entries += timeline.length
    })
    const client = new cassandra.Client({
      contactPoints: [node],
      localDataCenter: 'datacenter1',
      credentials: { username, password },
    })
    t.after(() => client.shutdown())
    const { rows } = await client.execute(`SELECT count(*) AS n FROM ${keyspace}.delivery_log`)
    assert.equal(Number(rows[0]!.n), entries)
  })
})
