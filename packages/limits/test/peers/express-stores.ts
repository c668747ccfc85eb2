/** This table holds the cases of express-rate-limit for its memory store and its keys of addresses. */
import assert from 'node:assert/strict'
import { mock } from 'node:test'
import { createLimits, limit, memoryStore } from '../../src/index.ts'
import { clientOf } from '../../src/middleware/address.ts'
import type { ExpressWorld } from './express-world.ts'
import type { PeerCase } from './peer.ts'

type Row = PeerCase<ExpressWorld>

/** Their store over ours: how often a key was hit within the window. */
function hitsOf({ limits, clock }: ExpressWorld, window = '1000/min') {
  const rules = [limit('hits', window)]
  const ids: string[] = []
  return {
    limits,
    clock,
    get: async (key: string) => (await limits.check(key, rules)).rules[0]!,
    async increment(key: string): Promise<number> {
      ids.push(`hit${ids.length}`)
      const { used } = (await limits.take(key, rules, { id: ids.at(-1)! })).rules[0]!
      return used + 1
    },
    decrement: async (key: string) => limits.cancel(key, ids.at(-1)!),
  }
}

const hits: readonly Row[] = [
  {
    file: 'memory-store',
    behaviour: 'the hits of a key can be read, and when they end',
    by: '`limits.check`',
    async run(world) {
      const { increment, get } = hitsOf(world)
      await increment('ada')
      const { used, resetAt } = await get('ada')
      assert.deepEqual([used, resetAt], [1, world.clock.now + 60_000])
    },
  },
  {
    file: 'memory-store',
    behaviour: 'the first hit is one',
    run: async (world) => assert.equal(await hitsOf(world).increment('ada'), 1),
  },
  {
    file: 'memory-store',
    behaviour: 'the next hit is two',
    async run(world) {
      const { increment } = hitsOf(world)
      assert.deepEqual([await increment('ada'), await increment('ada')], [1, 2])
    },
  },
  {
    file: 'memory-store',
    behaviour: 'a hit can be taken back',
    by: '`cancel` of the id it was taken under',
    async run(world) {
      const { increment, decrement } = hitsOf(world)
      await increment('ada')
      await increment('ada')
      await decrement('ada')
      assert.equal(await increment('ada'), 2)
    },
  },
  {
    file: 'memory-store',
    behaviour: 'no hits are fewer than none',
    by: '`cancel` of the id it was taken under',
    async run(world) {
      const { increment, decrement, get } = hitsOf(world)
      await increment('ada')
      assert.deepEqual([await decrement('ada'), await decrement('ada')], [true, false])
      assert.equal((await get('ada')).used, 0)
    },
  },
  {
    file: 'memory-store',
    behaviour: 'a key that was reset is not known',
    by: '`limits.reset` and `limits.has`',
    async run(world) {
      const { increment, limits } = hitsOf(world)
      await increment('ada')
      assert.equal(await limits.has('ada'), true)
      await limits.reset('ada')
      assert.equal(await limits.has('ada'), false)
    },
  },
  {
    file: 'memory-store',
    behaviour: 'a key that was reset begins at one',
    by: '`limits.reset`',
    async run(world) {
      const { increment, limits } = hitsOf(world)
      await increment('ada')
      await limits.reset('ada')
      assert.equal(await increment('ada'), 1)
    },
  },
  {
    file: 'memory-store',
    behaviour: 'all keys can be reset at once',
    differs: 'a new `memoryStore()` is empty; in Redis another `prefix` is',
  },
  {
    file: 'memory-store',
    behaviour: 'its timer ends when told so',
    differs: 'its timer keeps neither the process nor the store alive, so there is nothing to end',
  },
  {
    file: 'memory-store',
    behaviour: 'every key begins at one when the window is over',
    async run(world) {
      const { increment, clock } = hitsOf(world, '1000/50ms')
      for (const key of ['ada', 'bob']) await increment(key)
      clock.now += 60
      assert.deepEqual([await increment('ada'), await increment('bob')], [1, 1])
    },
  },
  {
    file: 'memory-store',
    behaviour: 'it runs where a timer is a number',
    async run(world) {
      const setTimeout = mock.method(globalThis, 'setTimeout', () => 1 as never)
      try {
        const limits = createLimits({ store: memoryStore() })
        assert.equal(await hitsOf({ ...world, limits }).increment('ada'), 1)
        assert.ok(setTimeout.mock.callCount() > 0)
      } finally {
        setTimeout.mock.restore()
      }
    },
  },
  {
    file: 'memory-store',
    behaviour: 'a second start ends the timer of the first',
    differs: 'a store is not started, and so not twice',
  },
  {
    file: 'memory-store',
    behaviour: 'keys move from the window before to the present one',
    differs: 'a window rolls: every hit has an instant of its own, and there are no windows before',
  },
  {
    file: 'memory-store',
    behaviour: 'two keys never share a count, window after window',
    async run(world) {
      const { increment, clock } = hitsOf(world, '1000/100ms')
      await increment('one')
      clock.now += 100
      await increment('one')
      await increment('two')
      clock.now += 100
      const hits = [await increment('one'), await increment('one'), await increment('one')]
      assert.deepEqual([...hits, await increment('three'), await increment('one')], [1, 2, 3, 1, 4])
    },
  },
]

const whole = '123:4567:89ab:cdef:123:4567:89ab:cdef'
const compatible = '`::1.2.3.4`, a form given up long ago, is an IPv6 address like any other'

const addresses: readonly Row[] = [
  {
    file: 'ip-key-generator',
    behaviour: 'an IPv4 address is itself',
    run: () => assert.deepEqual([clientOf('1.2.3.4', 64), clientOf('1.2.3.4', 16)], ['1.2.3.4', '1.2.3.4']),
  },
  {
    file: 'ip-key-generator',
    behaviour: 'an IPv4 address within IPv6 is the IPv4 address',
    differs: compatible,
    run: () => assert.equal(clientOf('::ffff:1.2.3.4', 64), '1.2.3.4'),
  },
  {
    file: 'ip-key-generator',
    behaviour: 'the same, however it is written',
    run: () =>
      assert.deepEqual(
        [64, 16, 128].map((bits) => clientOf('::ffff:102:304', bits)),
        Array(3).fill('1.2.3.4'),
      ),
  },
  {
    file: 'ip-key-generator',
    behaviour: 'an IPv6 address that only ends like IPv4 is IPv6',
    run() {
      assert.equal(clientOf('2001:db8:1234:5678::1.2.3.4', 56), '2001:db8:1234:5600:0:0:0:0/56')
      assert.equal(clientOf('64:ff9b::1.2.3.4', 56), '64:ff9b:0:0:0:0:0:0/56')
      assert.equal(clientOf('2001:db8::1.2.3.4', 64), clientOf('2001:db8::102:304', 64))
      assert.notEqual(clientOf('2001:db8::1.2.3.4', 64), clientOf('1.2.3.4', 64))
    },
  },
  {
    file: 'ip-key-generator',
    behaviour: 'addresses near zero are IPv6',
    run: () =>
      assert.deepEqual([clientOf('::1', 56), clientOf('::', 56)], Array(2).fill('0:0:0:0:0:0:0:0/56')),
  },
  {
    file: 'ip-key-generator',
    behaviour: 'without a prefix an address is as it was written',
    differs: '`ipv6PrefixBits: 128` is the whole address, in one way of writing',
  },
  {
    file: 'ip-key-generator',
    behaviour: 'a prefix is for true IPv6 addresses alone',
    differs: compatible,
    run: () => assert.equal(clientOf('::ffff:1.2.3.4', 16), '1.2.3.4'),
  },
  {
    file: 'ip-key-generator',
    behaviour: 'the prefix is 56 bits where nothing is said',
    differs: 'it is 64 bits, `ipv6PrefixBits` says otherwise',
    run: () => assert.equal(clientOf(whole, 56), '123:4567:89ab:cd00:0:0:0:0/56'),
  },
  {
    file: 'ip-key-generator',
    behaviour: 'a prefix may end within a group',
    run: () => assert.equal(clientOf(whole, 63), '123:4567:89ab:cdee:0:0:0:0/63'),
  },
  {
    file: 'ip-key-generator',
    behaviour: 'an abbreviated address is understood',
    run: () => assert.equal(clientOf('123:ABC::89', 56), '123:abc:0:0:0:0:0:0/56'),
  },
  {
    file: 'ip-key-generator',
    behaviour: 'with a prefix of all bits the whole address counts, without leading zeros',
    run: () => assert.equal(clientOf(`0${whole}`, 128), `${whole}/128`),
  },
]

export const storeCases: readonly Row[] = [...hits, ...addresses]
