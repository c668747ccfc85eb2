/**
 * The instants that digests hold in the limits of two gateways over one record in memory, in virtual time: whichever of them
 * plans a digest gives up what the other one has reserved, and nothing else.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { advance } from '../../src/model.ts'
import type { Change } from '../../src/ports.ts'
import { type Harness, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'
import { newsDigests, twoProcesses } from './two-processes.ts'

const tenant = 'default'
const hour = 60 * minute

const policy = {
  version: 1,
  limits: [
    { name: 'hourly', for: 'any', max: ['1/h'], over: 'delay' },
    { name: 'author', for: 'any', per: ['actor'], max: ['1/h'], over: 'delay' },
  ],
  digests: newsDigests,
}

type Wrap = NonNullable<NonNullable<Parameters<typeof twoProcesses>[0]>['wrapStore']>

/** Two gateways that share their limits, of which the first closes digests, and waits that stores may be given. */
async function open(
  wrapStore: (wait: (ms: number) => Promise<void>) => Wrap = () => (store) => store,
  limits = policy.limits,
) {
  const late = { wait: (_: number) => Promise.resolve() }
  const opened = await twoProcesses({
    policy: { ...policy, limits },
    sharesLimits: true,
    wrapStore: wrapStore((ms) => late.wait(ms)),
  })
  const { clock, a, b } = opened
  late.wait = (ms) => new Promise((resolve) => void clock.at(clock.now() + ms, resolve))
  await clock.runUntil(clock.now() + minute)
  const beginsAt = clock.now()
  const hoursOf = ({ dueAt }: { readonly dueAt: number }) => Math.floor((dueAt - beginsAt) / hour)
  return {
    ...{ clock, a, b, beginsAt },
    hoursOf,
    /** The next ones of the recipient and of the author leave an hour behind what has left: nothing else is held. */
    async assertGivenUp() {
      const next = [await b.post({ actor: 'eve' }), await b.post({ recipient: 'dan', actor: 'bob' })]
      assert.deepEqual(next.map(hoursOf), [1, 1])
    },
    /** Posts a message that leaves, and items of the same recipient; returns the ids of these. */
    async collect(at: Harness, items: readonly object[], actor = 'bob') {
      await at.post({ actor })
      const ids: string[] = []
      for (const item of items) ids.push((await at.post({ template: 'new-comment', data: {}, ...item })).id)
      return ids
    },
    async digests() {
      return b.gateway.store.dueDigests(beginsAt + 5 * hour, 9)
    },
    async stop() {
      await a.stop()
      await b.stop()
    },
  }
}

const bobs = [{ actor: 'bob' }, { actor: 'bob' }]
const isWriting = (change: Change, kind: 'close' | 'postpone'): boolean =>
  change.digests?.some((write) => write.kind === kind) === true

test('a digest that one has put off gives its instant up in all limits when its items are cancelled by the other', async () => {
  const { clock, b, beginsAt, hoursOf, assertGivenUp, collect, digests, stop } = await open()
  const ids = await collect(b, bobs)
  await clock.runUntil(beginsAt + 20 * minute)
  assert.deepEqual(
    (await digests()).map(({ closesAt }) => hoursOf({ dueAt: closesAt })),
    [1],
  )
  for (const id of ids) await b.done(b.gateway.gate.cancel(tenant, id))
  assert.deepEqual(await digests(), [])
  await assertGivenUp()
  await stop()
})

test('a digest that is closed by one while the other puts it off holds no instant', async () => {
  let delayed = 0
  const { clock, b, assertGivenUp, collect, digests, stop } = await open(
    (wait) => (store, id) =>
      overriding(store, {
        async commit(change) {
          if (id === 'a' && isWriting(change, 'postpone') && delayed === 0) {
            delayed += 1
            await wait(200)
          }
          return store.commit(change)
        },
      }),
  )
  const ids = await collect(b, bobs)
  while (delayed === 0) await clock.runUntil(clock.now() + 50)
  for (const id of ids) await b.done(b.gateway.gate.cancel(tenant, id))
  await clock.runUntil(clock.now() + 5 * second)
  assert.deepEqual(await digests(), [])
  await assertGivenUp()
  await stop()
})

test('what a digest became keeps its place where the other plans the digest as it was before', async () => {
  let isStale = false
  const { clock, b, hoursOf, collect, digests, stop } = await open(
    (wait) => (store, id) =>
      overriding(store, {
        // The first closes the digest while the other waits for the items.
        async digestItems(...args) {
          if (isStale && id === 'b') await wait(30)
          return store.digestItems(...args)
        },
        async commit(change) {
          const answer = await store.commit(change)
          if (isStale && id === 'a' && isWriting(change, 'close')) await wait(60)
          return answer
        },
      }),
  )
  await collect(b, bobs)
  await clock.runUntil(clock.now() + 20 * minute)
  const [digest] = await digests()
  const behind = await b.post({ actor: 'eve' })
  await clock.runUntil(digest!.closesAt - 5)
  isStale = true
  const closing = b.gateway.gate.closeDigest(digest!)
  await clock.runUntil(digest!.closesAt + 10 * second)
  await closing
  assert.equal((await b.gateway.store.notification(tenant, digest!.id))?.status, 'delivered')
  assert.equal(hoursOf((await b.gateway.store.notification(tenant, behind.id))!), 2)
  await stop()
})

for (const by of ['a', 'b'] as const)
  test(`a digest that is held for another author at the same instant lets those behind the first one move up, planned by ${by}`, async () => {
    const { clock, beginsAt, collect, digests, stop, ...processes } = await open()
    const at = processes[by]
    const brief = bobs.map((item) => ({ ...item, expiresAt: beginsAt + 30 * minute }))
    await collect(at, [...brief, { actor: 'eve' }, { actor: 'eve' }], 'zoe')
    await clock.runUntil(beginsAt + 20 * minute)
    const [before] = await digests()
    assert.deepEqual(before!.heldAs?.actors, ['bob'])
    const dan = await at.post({ recipient: 'dan', actor: 'bob' })
    const yan = await at.post({ actor: 'yan' })
    await clock.runUntil(beginsAt + 35 * minute)
    // The recipient's limits are looked at, and those of the author are not.
    await at.done(at.gateway.gate.cancel(tenant, yan.id))
    await clock.runUntil(beginsAt + 36 * minute)
    const [after] = await digests()
    assert.deepEqual([after!.heldAs?.actors, after!.closesAt], [['eve'], before!.closesAt])
    const kim = await at.post({ recipient: 'kim', actor: 'bob' })
    const moved = await at.gateway.store.notification(tenant, dan.id)
    assert.ok(moved!.dueAt < kim.dueAt, 'nobody overtakes')
    await stop()
  })

test('a digest that leaves at its instant without the author for whom it was held lets those behind that author move up', async () => {
  const { clock, a, beginsAt, collect, digests, stop } = await open()
  const brief = bobs.map((item) => ({ ...item, expiresAt: beginsAt + 30 * minute }))
  await collect(a, [...brief, { actor: 'eve' }, { actor: 'eve' }], 'zoe')
  await clock.runUntil(beginsAt + 20 * minute)
  const [before] = await digests()
  assert.deepEqual(before!.heldAs?.actors, ['bob'])
  const dan = await a.post({ recipient: 'dan', actor: 'bob' })
  await clock.runUntil(before!.closesAt + second)
  assert.deepEqual(await digests(), [])
  const moved = await a.gateway.store.notification(tenant, dan.id)
  assert.ok(moved!.dueAt < before!.closesAt + second, 'nothing of this author counts')
  await stop()
})

test('a digest that is closed by one between two tries of the other to put it off holds no instant', async () => {
  let tries: 'none' | 'first' | 'refused' | 'second' = 'none'
  const { clock, b, assertGivenUp, collect, digests, stop } = await open(
    (wait) => (store, id) =>
      overriding(store, {
        async commit(change) {
          if (id !== 'a' || !isWriting(change, 'postpone') || tries !== 'none') return store.commit(change)
          tries = 'first'
          await wait(200)
          const answer = await store.commit(change)
          tries = 'refused'
          return answer
        },
        async digestItems(...args) {
          if (id === 'a' && tries === 'refused') {
            tries = 'second'
            await wait(5_000)
          }
          return store.digestItems(...args)
        },
      }),
  )
  const isAt = (wanted: typeof tries): boolean => tries === wanted
  const ids = [...(await collect(b, bobs))]
  while (!isAt('first')) await clock.runUntil(clock.now() + 10)
  // The item that joins makes the first try a conflict.
  ids.push((await b.post({ template: 'new-comment', data: {}, actor: 'bob' })).id)
  while (!isAt('second')) await clock.runUntil(clock.now() + 10)
  await b.done(Promise.all(ids.map((id) => b.gateway.gate.cancel(tenant, id))))
  await clock.runUntil(clock.now() + 15 * second)
  assert.deepEqual(await digests(), [])
  await assertGivenUp()
  await stop()
})

test('an empty digest is closed as what the record holds it, and not as it was read before that', async () => {
  const { clock, b, beginsAt, assertGivenUp, collect, digests, stop } = await open()
  const ids = await collect(b, bobs)
  const [early] = await digests()
  await clock.runUntil(beginsAt + 20 * minute)
  // By a third process, which is killed behind the commits.
  const { store, gate } = b.gateway
  for (const id of ids) {
    const item = await store.notification(tenant, id)
    const at = clock.now()
    await store.commit({ moves: [advance(item!, [{ at, status: 'cancelled' }], { dueAt: at })] })
  }
  await b.done(gate.closeDigest(early!))
  assert.deepEqual(await digests(), [])
  await assertGivenUp()
  await stop()
})

test('a closing that fails keeps as what the other one has put the digest off', async () => {
  let isDamaged = false
  const { clock, b, beginsAt, collect, digests, stop } = await open(
    () => (store, id) =>
      overriding(store, {
        async digestItems(...args) {
          if (isDamaged && id === 'b') throw new Error('a row is damaged')
          return store.digestItems(...args)
        },
      }),
  )
  await collect(b, bobs)
  const [early] = await digests()
  await clock.runUntil(beginsAt + 20 * minute)
  const [held] = await digests()
  isDamaged = true
  await b.done(b.gateway.gate.closeDigest(early!))
  isDamaged = false
  const [after] = await digests()
  assert.deepEqual(after, { ...held, closesAt: after!.closesAt })
  assert.notEqual(after!.closesAt, held!.closesAt)
  await stop()
})

test('a digest that one has put off gives up the instant of its address, too', async () => {
  const limits = [{ name: 'address', for: 'any', per: ['address'], max: ['1/h'], over: 'delay' }]
  const { clock, b, beginsAt, hoursOf, digests, stop } = await open(undefined, limits)
  const to = (id: string) => ({ to: { id, email: 'both@example.com' } })
  await b.post({ ...to('ada'), actor: 'bob' })
  const ids: string[] = []
  for (const item of bobs)
    ids.push((await b.post({ ...to('ada'), template: 'new-comment', data: {}, ...item })).id)
  await clock.runUntil(beginsAt + 20 * minute)
  assert.equal((await digests()).length, 1, 'it is put off')
  for (const id of ids) await b.done(b.gateway.gate.cancel(tenant, id))
  assert.deepEqual(await digests(), [])
  assert.equal(hoursOf(await b.post(to('dan'))), 1)
  await stop()
})
