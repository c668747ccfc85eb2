/** Questions about the limits of a subject that is read from a slow record. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { limit } from '@sluice/limits'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import {
  createRedisLimits,
  type RedisLimitsOptions,
} from '../../../../src/adapters/state/redis/redis-limits.ts'
import type { LimitState } from '../../../../src/ports.ts'
import { newPrefix, openRedis } from './open.ts'

const subject = { key: 'acme/ada', tenant: 'acme', recipient: 'ada' }
const rules = [limit('one', '1/10s', { stream: 'all' })]

function open(prefix: string, member: string, more: Partial<RedisLimitsOptions> = {}): LimitState {
  return createRedisLimits({
    redis: openRedis('redis', { deadlineMs: 500, prefix }),
    clock: createSystemClock(),
    member,
    marginMs: 20,
    rulesName: () => 'rules',
    recover: async () => ({ entries: [], fingerprints: [], waitlist: [] }),
    ...more,
  })
}

it('fills a subject whose record takes longer to read than a claim lasts', needs('redis'), async () => {
  const clock = createSystemClock()
  let reads = 0
  const limits = open(newPrefix(), 'a', {
    clock,
    async recover() {
      reads += 1
      await new Promise((resolve) => setTimeout(resolve, 2_600))
      const entries = [{ id: 'sent', at: clock.now(), fired: true, streams: ['all'] }]
      return { entries, fingerprints: [], waitlist: [] }
    },
  })
  const endMs = performance.now() + 15_000
  for (;;)
    try {
      const [reservation] = await limits.reserve([{ subject, id: '1', rules }])
      assert.ok(reservation!.at > clock.now())
      break
    } catch (error) {
      if (performance.now() > endMs) throw error
    }
  assert.equal(reads, 1)
  await limits.close()
})

it('fills a subject in the place of a process that reads nothing', needs('redis'), async () => {
  const prefix = newPrefix()
  const { promise: asked, resolve: asks } = Promise.withResolvers<void>()
  const hangs = open(prefix, 'a', {
    recover() {
      asks()
      return new Promise(() => {})
    },
  })
  const goesOn = open(prefix, 'b')
  hangs.reserve([{ subject, id: '1', rules }]).catch(() => undefined)
  await asked
  for (const endMs = performance.now() + 20_000; ; )
    try {
      assert.equal((await goesOn.reserve([{ subject, id: '2', rules }]))[0]!.allowed, true)
      break
    } catch (error) {
      if (performance.now() > endMs) throw error
    }
  await Promise.all([hangs.close(), goesOn.close()])
})

it(
  'refuses a newcomer that is held up for more than a second, in whichever process',
  needs('redis'),
  async () => {
    const prefix = newPrefix()
    const [pausing, other] = [open(prefix, 'a'), open(prefix, 'b')]
    await pausing.pause([subject])
    const asked = [pausing, other].map((limits, index) =>
      limits.reserve([{ subject, id: `${index}`, rules }]),
    )
    for (const each of asked) await assert.rejects(each, { code: 'STATE_UNAVAILABLE' })
    const [old] = await other.reserve([{ subject, id: 'old', rules, waited: true }])
    assert.equal(old!.allowed, true, 'one that has waited is asked about')
    await pausing.resume([subject])
    for (const limits of [pausing, other])
      assert.ok((await limits.reserve([{ subject, id: 'new', rules }]))[0])
    await Promise.all([pausing.close(), other.close()])
  },
)

it('lets newcomers in, in the order in which they came', needs('redis'), async () => {
  const prefix = newPrefix()
  const [pausing, other] = [open(prefix, 'a'), open(prefix, 'b')]
  for (let round = 0; round < 8; round += 1) {
    const subject = { key: `acme/${round}`, tenant: 'acme', recipient: String(round) }
    await pausing.pause([subject])
    const first = other.reserve([{ subject, id: 'first', rules }])
    // Between two questions of the first, at another moment each round.
    await sleep(120 + 7 * round)
    await pausing.resume([subject])
    const second = other.reserve([{ subject, id: 'second', rules }])
    const [[one], [two]] = await Promise.all([first, second])
    assert.ok(one!.at < two!.at, `round ${round}`)
  }
  await Promise.all([pausing.close(), other.close()])
})

it(
  'fires one that is due behind a plan of another process, however long that takes',
  needs('redis'),
  async () => {
    const prefix = newPrefix()
    const planning = open(prefix, 'a', {
      planLate: () => new Promise((resolve) => setTimeout(resolve, 1_800)),
    })
    const other = open(prefix, 'b', { planLate: async () => {} })
    await other.reserve([{ subject, id: 'due', rules }])
    const planned = planning.planAround!([{ subject, id: 'kept' }])
    await new Promise((resolve) => setTimeout(resolve, 50))
    const [firing] = await other.fire([{ subject, id: 'due', rules }])
    assert.equal(firing!.fired, true)
    await planned
    await Promise.all([planning.close(), other.close()])
  },
)
