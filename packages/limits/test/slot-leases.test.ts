/** The door of slot leases over memory: ends, blocks, probes, and what is refused. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  createSlotLeases,
  LimitsError,
  memorySlots,
  type SlotAsk,
  type SlotLeasesOptions,
} from '../src/index.ts'

/** At the beginning of a slot of 20 ms. */
const start = Date.UTC(2026, 10, 21, 12)
const windows = '10/s'

function open(options: Partial<SlotLeasesOptions> = {}) {
  const world = { now: start }
  const store = memorySlots({ now: () => world.now })
  return { world, store, leases: createSlotLeases({ store, ...options }) }
}

describe('slot leases', () => {
  it('last until their slot ends, and unused tokens are gone', async () => {
    const { leases, world } = open()
    world.now += 5
    const [lease] = await leases.lease([{ account: 'a', windows, want: 4 }])
    assert.deepEqual([lease!.granted, lease!.left, lease!.endsInMs], [4, 4, 15])
    assert.equal(lease!.use(3), true)
    assert.equal(lease!.use(2), false)
    assert.equal(lease!.left, 1)
    world.now += 15
    assert.deepEqual([lease!.left, lease!.endsInMs, lease!.use()], [0, 0, false])
    assert.equal((await leases.lease([{ account: 'a', windows, want: 10 }]))[0]!.granted, 6)
  })

  it('answers all accounts of a call in their order, each by its own rate', async () => {
    const { leases } = open()
    const asks = [
      { account: 'a', windows: '2/s', want: 5 },
      { account: 'b', windows: ['100/s', '3/h'], want: 5 },
      { account: 'c', windows: '0/s', want: 5 },
      { account: 'd', windows: '9/s', want: 0 },
    ]
    const granted = (await leases.lease(asks)).map((lease) => [lease.account, lease.granted])
    assert.deepEqual(granted, [
      ['a', 2],
      ['b', 3],
      ['c', 0],
      ['d', 0],
    ])
    assert.deepEqual(await leases.lease([]), [])
  })

  it('shares an account among all that ask the same store', async () => {
    const { leases, store } = open()
    const other = createSlotLeases({ store })
    assert.equal((await leases.lease([{ account: 'a', windows, want: 7 }]))[0]!.granted, 7)
    assert.equal((await other.lease([{ account: 'a', windows, want: 7 }]))[0]!.granted, 3)
  })

  it('keeps a margin beside every window', async () => {
    const { leases, world } = open({ marginMs: 100 })
    await leases.lease([{ account: 'a', windows, want: 10 }])
    world.now += 1_119
    assert.equal((await leases.lease([{ account: 'a', windows, want: 10 }]))[0]!.granted, 0)
    world.now += 1
    assert.equal((await leases.lease([{ account: 'a', windows, want: 10 }]))[0]!.granted, 10)
  })

  it('voids the leases of this process when it blocks, and those of others when they ask next', async () => {
    const { leases, store, world } = open()
    const other = createSlotLeases({ store })
    const [own] = await leases.lease([{ account: 'a', windows, want: 2 }])
    const [theirs] = await other.lease([{ account: 'a', windows, want: 2 }])
    const until = world.now + 3_000
    await leases.block('a', until)
    assert.deepEqual([own!.use(), own!.left, own!.endsInMs], [false, 0, 0])
    assert.equal(theirs!.left, 2, 'nobody has told them yet, and their slot is short')
    const [news] = await other.lease([{ account: 'a', windows, want: 0 }])
    assert.deepEqual([news!.granted, news!.blockedUntil, news!.halfOpen], [0, until, false])
    assert.equal(theirs!.use(), false)
    world.now = until - 1
    assert.equal((await other.lease([{ account: 'a', windows, want: 1 }]))[0]!.granted, 0)
    world.now = until
    const [open_] = await other.lease([{ account: 'a', windows, want: 1 }])
    assert.deepEqual([open_!.granted, open_!.blockedUntil, open_!.use()], [1, undefined, true])
  })

  it('voids a lease whose answer is on its way when the account is blocked', async () => {
    const { leases, store, world } = open()
    const slow = createSlotLeases({
      store: { ...store, ask: (call) => store.ask(call).finally(() => slow.block('a', world.now + 1_000)) },
    })
    const [lease] = await slow.lease([{ account: 'a', windows, want: 2 }])
    assert.deepEqual([lease!.granted, lease!.left, lease!.use()], [2, 0, false])
    assert.equal((await leases.lease([{ account: 'a', windows, want: 2 }]))[0]!.blockedUntil, start + 1_000)
  })

  it('gives the probe of a half-open account to exactly one process, and again when it is not settled', async () => {
    const { leases, store, world } = open({ probeMs: 500 })
    const fleet = [leases, ...Array.from({ length: 4 }, () => createSlotLeases({ store, probeMs: 500 }))]
    const probes = () => Promise.all(fleet.map((one) => one.probe({ account: 'a', windows })))
    assert.ok(
      (await probes()).every(({ granted }) => granted === 0),
      'nothing is half open',
    )
    const until = world.now + 1_000
    await leases.block('a', until, { halfOpen: true })
    assert.ok(
      (await probes()).every(({ granted }) => granted === 0),
      'it is blocked',
    )
    world.now = until
    const [waits] = await leases.lease([{ account: 'a', windows, want: 5 }])
    assert.deepEqual([waits!.granted, waits!.halfOpen, waits!.blockedUntil], [0, true, undefined])
    const first = await probes()
    assert.equal(
      first.reduce((sum, { granted }) => sum + granted, 0),
      1,
    )
    const probe = first.find(({ granted }) => granted === 1)!
    await leases.lease([{ account: 'a', windows, want: 5 }])
    assert.equal(probe.use(), true, 'news of the same block do not void it')
    world.now += 499
    assert.ok((await probes()).every(({ granted }) => granted === 0))
    world.now += 1
    assert.equal((await probes()).filter(({ granted }) => granted === 1).length, 1)
    await leases.unblock('a')
    assert.equal((await leases.lease([{ account: 'a', windows, want: 5 }]))[0]!.granted, 5)
    assert.equal((await leases.probe({ account: 'a', windows })).granted, 0)
  })

  it('takes the probe from the account’s rate', async () => {
    const { leases, world } = open()
    await leases.lease([{ account: 'a', windows, want: 10 }])
    await leases.block('a', world.now + 100, { halfOpen: true })
    world.now += 100
    assert.equal((await leases.probe({ account: 'a', windows })).granted, 0)
    world.now = start + 1_020
    assert.equal((await leases.probe({ account: 'a', windows })).granted, 1)
  })

  it('refuses invalid arguments, with the reason', async () => {
    const { leases, store } = open()
    const refused = (reason: RegExp) => (error: unknown) =>
      error instanceof LimitsError && error.code === 'INVALID_ARGUMENT' && reason.test(error.message)
    const options: [Partial<SlotLeasesOptions>, RegExp][] = [
      [{ slotMs: 0 }, /slotMs/],
      [{ slotMs: 1.5 }, /slotMs/],
      [{ marginMs: -1 }, /marginMs/],
      [{ probeMs: 0 }, /probeMs/],
    ]
    for (const [one, reason] of options)
      assert.throws(() => createSlotLeases({ store, ...one }), refused(reason))
    assert.throws(() => createSlotLeases({} as SlotLeasesOptions), refused(/store/))
    const asks: [Partial<SlotAsk>, RegExp][] = [
      [{ account: '' }, /account/],
      [{ want: -1 }, /want/],
      [{ want: 0.5 }, /want/],
      [{ windows: [] }, /windows/],
    ]
    for (const [one, reason] of asks)
      await assert.rejects(leases.lease([{ account: 'a', windows, want: 1, ...one }]), refused(reason))
    const twice = { account: 'a', windows, want: 1 }
    await assert.rejects(leases.lease([twice, twice]), refused(/twice/))
    const unreadable = leases.lease([{ account: 'a', windows: '-1/s', want: 1 }])
    await assert.rejects(
      unreadable,
      (error) => error instanceof LimitsError && error.code === 'INVALID_WINDOW',
    )
    await assert.rejects(
      createSlotLeases({ store, marginMs: 1 }).lease([{ account: 'a', windows: '1/31d', want: 1 }]),
      refused(/31 days/),
    )
    for (const until of [Number.NaN, -1, Number.POSITIVE_INFINITY])
      await assert.rejects(leases.block('a', until), refused(/untilMs/))
    await assert.rejects(leases.block('a', 1, { halfOpen: 1 as never }), refused(/halfOpen/))
    const [lease] = await leases.lease([{ account: 'a', windows, want: 1 }])
    assert.throws(() => lease!.use(0), refused(/use/))
    assert.throws(() => memorySlots({ now: 1 as never }), refused(/now/))
  })
})
