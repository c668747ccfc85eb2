/** Streams of thousands of instants in Redis: taken from without reading them, exact, bounded, and there and back. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, it } from 'node:test'
import { seededRandom, seedOfRun } from '@sluice/limits-conformance'
import { Redis } from 'ioredis'
import { needs } from '../../../../scripts/services/needs.ts'
import { createLimits, limit, memoryStore, redisStore } from '../../src/index.ts'

describe('a long subject in Redis', needs('redis'), () => {
  const client = new Redis(process.env.SLUICE_TEST_REDIS ?? '', {
    lazyConnect: true,
    enableAutoPipelining: true,
  })
  after(() => client.disconnect())
  let now = Date.UTC(2026, 10, 21, 12)
  let stores = 0

  const monthMs = 31 * 86_400_000

  function open(packedMaxBytes?: number, retentionMs = monthMs) {
    stores += 1
    const prefix = `long${process.pid}:${stores}:`
    const option = packedMaxBytes === undefined ? {} : { packedMaxBytes }
    const store = redisStore(client, { now: () => now, prefix, retentionMs, deadlineMs: 20_000, ...option })
    return { limits: createLimits({ store }), key: `${prefix}{ada}` }
  }

  it('answers takes and checks as memory does, without reading it, however often it is cut', async (t) => {
    const seed = seedOfRun()
    t.diagnostic(`SLUICE_SEED=${seed}`)
    const random = seededRandom(seed)
    const { limits, key } = open(64)
    const memory = createLimits({ store: memoryStore({ now: () => now, retentionMs: monthMs }) })
    const counts = limit('counts', '5/50ms, 0/9ms', { stream: 'b', over: 'count' })
    const sets = [
      [limit('many', '40/200ms, 90/900ms', { stream: 'a', minGap: 2 }), counts],
      [limit('few', '60/400ms, 0/5ms', { stream: 'a' }), counts],
      [
        limit('many', '40/200ms', { stream: 'a' }),
        limit('strict', '70/500ms', { stream: 'b', over: 'refuse' }),
      ],
    ]
    let longest = 0
    for (let count = 0; count < 3_000; count += 1) {
      now += random.pick([0, 1, 2, 3, 9, random.once(40) ? 300 : 4])
      const rules = random.once(20) ? random.pick(sets) : sets[0]!
      const call = random.once(6) ? 'check' : 'take'
      const weight = random.once(5) ? random.between(1, 5) : 1
      const are = (await limits[call]('ada', rules, { weight })) as unknown as { toJSON(): unknown }
      const should = memory.sync[call]('ada', rules, { weight }) as unknown as { toJSON(): unknown }
      assert.deepEqual(are.toJSON(), should.toJSON(), `SLUICE_SEED=${seed}, call ${count}: ${call} ${weight}`)
      if (count % 50 === 0 && (await client.type(key)) === 'string') {
        longest = Math.max(longest, await client.strlen(key))
      }
    }
    // Twice what is retained, 180 instants, is the most that a stream holds.
    assert.ok(longest > 500 && longest < 6 * 361 + 200, `${longest} bytes at most`)
  })

  it('takes from a window of thousands exactly, in some bytes an event', async () => {
    const { limits, key } = open(undefined, 0)
    const rules = [limit('busy', '3000/min')]
    for (let batch = 0; batch < 30; batch += 1) {
      now += 1_000
      await Promise.all(Array.from({ length: 100 }, () => limits.take('ada', rules)))
    }
    const first = now - 29_000
    const refused = await limits.take('ada', rules)
    assert.deepEqual([refused.allowed, refused.at, refused.limit], [false, first + 60_000, 'busy'])
    assert.deepEqual([refused.rules[0]!.used, refused.rules[0]!.remaining], [3_000, 0])
    assert.equal(await client.type(key), 'string')
    assert.ok((await client.strlen(key)) < 6 * 3_000 + 100)
    now = first + 60_000
    assert.equal((await limits.take('ada', rules, { weight: 100 })).allowed, true)
    assert.equal((await limits.take('ada', rules)).allowed, false)
    const lifeMs = await client.pttl(key)
    assert.ok(lifeMs > 50_000 && lifeMs <= 67_500, `it lives ${lifeMs} ms longer`)
  })

  it('knows every id for as long as it counts, in a hash that ends with it', async () => {
    const { limits, key } = open()
    const rules = [limit('busy', '500/min')]
    const start = now
    for (let batch = 0; batch < 12; batch += 1) {
      now = start + batch * 6_000
      const ids = Array.from({ length: 50 }, (_, index) => `018f4e9c-${batch}-${index}`)
      await limits.reserveMany(ids.map((id) => ({ subject: 'ada', rules, id })))
      await limits.fireMany(ids.map((id) => ({ subject: 'ada', rules, id })))
    }
    assert.equal(await client.type(key), 'hash')
    assert.ok((await client.pttl(key)) > 31 * 86_400_000)
    now += 20 * 86_400_000
    const again = await limits.take('ada', rules, { id: '018f4e9c-0-7' })
    assert.deepEqual([again.allowed, again.at, again.rules[0]!.used], [true, start, 0])
    assert.equal(await limits.cancel('ada', '018f4e9c-0-7'), true)
    assert.equal(await limits.cancel('ada', '018f4e9c-0-7'), false)
  })

  it('keeps a batch in a few bytes, whatever its weight, and reads the form that knew no batches', async () => {
    const { limits, key } = open()
    const rules = [limit('mails', '1000000/h')]
    // The state as a library without runs wrote it: single instants, of which some are a small batch.
    for (let call = 0; call < 5; call += 1) await limits.take('ada', rules, { weight: 4 })
    assert.equal((await client.getBuffer(key))![0], 'A'.charCodeAt(0))
    for (let call = 0; call < 50; call += 1) {
      now += 7
      await limits.take('ada', rules, { weight: 4_000 })
      await limits.take('ada', rules, { weight: 4_000, id: `n${call}` })
    }
    assert.equal((await limits.check('ada', rules)).rules[0]!.used, 400_020)
    const bytes = await client.memory('USAGE', key)
    assert.ok(bytes! <= 10_000, `${bytes} bytes`)
    assert.equal((await client.getBuffer(key))![0], 'C'.charCodeAt(0))
    now += 3_600_000
    assert.equal((await limits.take('ada', rules, { weight: 1_000_000 })).allowed, true)
  })

  it('becomes a string again when little is left', async () => {
    const { limits, key } = open()
    const rules = [limit('busy', '900/min', { stream: 's' })]
    const ids = Array.from({ length: 300 }, (_, index) => `018f4e9c-7a2b-7c3d-${index}`)
    for (const id of ids) await limits.take('ada', rules, { id })
    assert.equal(await client.type(key), 'hash')
    await limits.cancelMany(ids.slice(5).map((id) => ({ subject: 'ada', id })))
    assert.equal(await client.type(key), 'string')
    assert.equal((await limits.check('ada', rules)).rules[0]!.used, 5)
    assert.equal((await limits.take('ada', rules, { id: ids[2]! })).rules[0]!.used, 4)
  })

  it('forgets the ids of a stream that is busy with the instants that it no longer keeps', async () => {
    const { limits, key } = open(1_000)
    const rules = [limit('busy', '5/5ms')]
    for (let count = 0; count < 3_000; count += 1) {
      now += 1
      await limits.take('ada', rules, { id: `n${count}` })
    }
    // 128 to 256 instants are kept, and of each id that is over three are looked for when one comes.
    const kept = await client.hlen(key)
    assert.ok(kept < 1_000, `${kept} fields are left of 3,000`)
    assert.equal(await limits.cancel('ada', 'n0'), false)
  })

  it('is blocked, split and forced as a short one is', async () => {
    const { limits } = open()
    const both = [limit('a', '900/min'), limit('b', '2000/h')]
    for (let count = 0; count < 250; count += 1)
      await limits.take('ada', both, { id: `018f4e9c-7a2b-7c3d-${count}` })
    const until = await limits.block('ada', 1_000)
    const refused = await limits.take('ada', both)
    assert.deepEqual([refused.allowed, refused.blockedUntil, refused.at], [false, until, until])
    await limits.force('ada', 'forced', [both[0]!])
    await limits.unblock('ada')
    assert.deepEqual(
      (await limits.check('ada', both)).rules.map(({ used }) => used),
      [251, 250],
    )
  })
})
