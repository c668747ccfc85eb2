/** The connections and the published messages of tenants, counted over several processes, and after a loss in Redis. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit, type RestoredEntry } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { createRedisConnections } from '../../../../src/adapters/state/redis/redis-connections.ts'
import type { RedisState } from '../../../../src/adapters/state/redis/redis-state.ts'
import { createRedisTenantRate } from '../../../../src/adapters/state/redis/redis-tenant-rate.ts'
import type { PeerAnswers, Peers } from '../../../../src/ports/fleet.ts'
import { newPrefix, openAdmin, openRedis } from './open.ts'

const clock = createSystemClock()
const admin = process.env.SLUICE_TEST_REDIS === undefined ? undefined : await openAdmin('redis')
after(() => admin?.close())

/** Processes that answer each other at once, but for those that are silent. */
function createTalk() {
  const answerers = new Map<string, Map<string, (question: unknown, from: string) => unknown>>()
  const silent = new Set<string>()
  return {
    silent,
    join(member: string): Pick<Peers, 'ask' | 'answer'> {
      const own = new Map<string, (question: unknown, from: string) => unknown>()
      answerers.set(member, own)
      return {
        answer: (topic, answerer) => void own.set(topic, answerer),
        async ask(topic, question): Promise<PeerAnswers> {
          const answers = new Map<string, unknown>()
          for (const [name, known] of answerers)
            if (name !== member && !silent.has(name)) answers.set(name, known.get(topic)!(question, member))
          return { answers, silent: [...silent] }
        },
      }
    },
  }
}

const members = ['a', 'b', 'c', 'd']

describe('connections of a tenant over several processes', needs('redis'), () => {
  function open() {
    const prefix = newPrefix()
    const talk = createTalk()
    let onFilled = async (): Promise<void> => {}
    const fleet = members.map((member) => {
      const inner = openRedis('redis', { prefix, deadlineMs: 5_000 })
      const redis: RedisState = {
        ...inner,
        async ask(script, key, args, deadlineMs) {
          const reply = await inner.ask(script, key, args, deadlineMs)
          if (args[0] === 'fill') await onFilled()
          return reply
        },
      }
      const room = createRedisConnections({ redis, peers: talk.join(member), clock, member })
      after(() => room.close())
      return room
    })
    const connect = async (at: number, max = 20): Promise<(() => void) | undefined> => {
      const bounds = { queueMax: 0, waitingMax: max, bytesMax: 0 }
      const taken = await fleet[at]!.take('acme', { queue: 0, critical: 0, waiting: 1 }, bounds)
      return 'giveBack' in taken ? taken.giveBack : undefined
    }
    return {
      ...{ talk, fleet, connect, lose: () => admin!.remove(`${prefix}{T/acme}:sockets`) },
      /** Sets the work that runs behind each fill, before the process that fills goes on. */
      onFilled(work: () => Promise<void>) {
        onFilled = work
      },
    }
  }

  test('are exactly as many as allowed, wherever they are opened at once', async () => {
    const { connect } = open()
    const answers = await Promise.all(Array.from({ length: 60 }, (_, n) => connect(n % 4)))
    assert.equal(answers.filter((answer) => answer !== undefined).length, 20)
    assert.equal(await connect(3), undefined)
  })

  test('are counted still when Redis has lost the count, and those of the dead are not', async () => {
    const { connect, lose, fleet } = open()
    for (const at of [0, 0, 0, 1, 1, 2]) assert.ok(await connect(at, 6))
    await lose()
    assert.equal(await connect(3, 6), undefined)
    for (const room of fleet) room.noteGone(['a'])
    assert.equal(await connect(3, 5), undefined, 'what the others say counts, and they say it of themselves')
  })

  test('of the process that fills a lost count are counted before it asks again', async () => {
    const { connect, lose, onFilled } = open()
    for (const at of [0, 0, 0, 1]) assert.ok(await connect(at, 4))
    await lose()
    let between: Promise<unknown> | undefined
    onFilled(async () => {
      between ??= connect(1, 4)
      await between
    })
    assert.equal(await connect(0, 4), undefined)
    assert.ok(between !== undefined)
    assert.equal(await between, undefined, 'a fifth')
  })

  test('have room again when one is closed elsewhere, within a second or so', async () => {
    const { connect } = open()
    const close = await connect(0, 1)
    assert.equal(await connect(1, 1), undefined)
    close!()
    const end = performance.now() + 10_000
    while ((await connect(1, 1)) === undefined) {
      assert.ok(performance.now() < end, 'the place is not given back')
      await sleep(50)
    }
  })

  test('are refused where nobody knows their number', async () => {
    const { connect, talk } = open()
    talk.silent.add('b')
    await assert.rejects(connect(0), { code: 'STATE_UNAVAILABLE' })
    talk.silent.clear()
    assert.ok(await connect(0))
  })
})

/** Messages that one answer allowed. */
interface Take {
  readonly askedAt: number
  readonly answeredAt: number
  readonly taken: number
}

describe('published messages of a tenant over several processes', needs('redis'), () => {
  const rules = [limit('websocket', ['20/1s'])]

  function open() {
    const prefix = newPrefix()
    const talk = createTalk()
    const takes: Take[] = []
    const known = new Map<string, RestoredEntry[]>(members.map((member) => [member, []]))
    const fleet = members.map((member) => {
      const counted = known.get(member)!
      const redis = openRedis('redis', { prefix, deadlineMs: 5_000 })
      const onError = (what: string, error: unknown): void => assert.fail(`${what}: ${error}`)
      const take = createRedisTenantRate({
        name: 'websocket',
        redis,
        peers: talk.join(member),
        clock,
        member,
        marginMs: 0,
        counted: () => counted,
        onError,
      })
      return async (count: number) => {
        const askedAt = performance.now()
        const answer = await take('acme', rules, count)
        if (answer.taken > 0) {
          counted.push({
            id: String(counted.length),
            at: Math.round(clock.now()),
            fired: true,
            streams: ['websocket'],
            weight: answer.taken,
          })
          takes.push({ askedAt, answeredAt: performance.now(), taken: answer.taken })
        }
        return answer
      }
    })
    return {
      fleet,
      takes,
      known,
      lose: () => admin!.remove(`${prefix}{l/websocket:${Buffer.from('acme').toString('base64url')}}`),
    }
  }

  test('are given what is left of the window, and are told when the next may go', async () => {
    const { fleet } = open()
    assert.deepEqual(await fleet[0]!(15), { taken: 15, waitMs: 0 })
    const part = await fleet[1]!(10)
    assert.equal(part.taken, 5)
    // The clock of Redis is known to some milliseconds.
    assert.ok(part.waitMs > 0 && part.waitMs <= 1_500, `${part.waitMs} ms`)
    assert.equal((await fleet[2]!(1)).taken, 0)
  })

  test('are given what is left beside those of a process whose clock is ahead', async () => {
    const { fleet, known } = open()
    const at = Math.round(clock.now()) + 300
    known.get('b')!.push({ id: '0', at, fired: true, streams: ['websocket'], weight: 15 })
    const part = await fleet[0]!(20)
    assert.equal(part.taken, 5)
    assert.ok(part.waitMs > 500, `${part.waitMs} ms`)
  })

  test('never exceed the window, also when Redis loses the count again and again', async () => {
    const { fleet, takes, lose } = open()
    const end = performance.now() + 2_500
    let losses = 0
    let lost = Promise.resolve()
    const losing = setInterval(() => {
      losses += 1
      lost = lose()
    }, 100)
    await Promise.all(
      fleet.map(async (take) => {
        while (performance.now() < end) {
          const { taken } = await take(3)
          if (taken < 3) await sleep(10)
        }
      }),
    )
    clearInterval(losing)
    await lost
    assert.ok(losses > 5, `${losses} losses`)
    // A message counts at some instant between its question and the answer, which a busy machine draws apart.
    const mostWithin = (windowMs: number): number =>
      Math.max(
        ...takes.map(({ askedAt }) =>
          takes
            .filter((take) => take.askedAt >= askedAt && take.answeredAt < askedAt + windowMs)
            .reduce((sum, { taken }) => sum + taken, 0),
        ),
      )
    assert.ok(mostWithin(1_000) <= 20, `${mostWithin(1_000)} within a second`)
    const all = takes.reduce((sum, { taken }) => sum + taken, 0)
    assert.ok(all >= 20, `${all} were taken`)
  })
})
