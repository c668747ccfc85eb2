/** Deciding stored notifications anew: a commit that is always refused, and a count that another writer has fired. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limit } from '@sluice/limits'
import { createMemoryState } from '../../src/adapters/state/memory.ts'
import { SluiceError } from '../../src/errors.ts'
import type { Change, Clock, SendResult, Store } from '../../src/ports.ts'
import { createScripted, delivered } from '../delivery/scripted.ts'
import { createHarness, type Harness, hour, minute, second } from '../harness.ts'
import { overriding } from '../overriding.ts'

test('a redecision whose commit is always refused is retried with back-off, and nothing is lost', async () => {
  let refused: string | undefined
  let tries = 0
  const refuses = ({ moves = [] }: Change): boolean => moves.some(({ before }) => before.id === refused)
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '1/min', modules: 'unlimited' } } },
    wrap: (store: Store) => ({
      ...store,
      async commit(change) {
        if (!refuses(change)) return store.commit(change)
        tries += 1
        return { applied: false, conflicts: [{ kind: 'notification', key: refused! }] }
      },
    }),
  })
  await harness.post()
  const { id, dueAt } = await harness.post()
  refused = id
  await harness.runUntil(dueAt + hour)
  assert.ok(tries > 3, `it is tried again: ${tries} times`)
  assert.ok(tries < 80, `with back-off: ${tries} times in an hour`)
  refused = undefined
  await harness.runFor(2 * minute)
  assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.check()
  await harness.stop()
})

test('a turn whose commit is refused counts once in its tenant’s limit, when it is repeated too', async () => {
  for (const fails of [false, true]) {
    let refused: string | undefined
    const harness = await createHarness({
      policy: { version: 1, limits: [] },
      config: { tenants: { default: { rate: '1/10s', modules: 'unlimited' } } },
      wrap: (store: Store) => ({
        ...store,
        async commit(change) {
          if (change.moves?.some(({ before }) => before.id === refused) !== true) return store.commit(change)
          if (fails) throw new SluiceError('STORE_UNAVAILABLE', 'Full.', { retryAfterMs: second })
          return { applied: false, conflicts: [{ kind: 'notification', key: refused! }] }
        },
      }),
    })
    await harness.post()
    const [next, third, fourth] = [await harness.post(), await harness.post(), await harness.post()]
    refused = next.id
    await harness.runUntil(next.dueAt + 4 * second)
    refused = undefined
    await harness.runFor(2 * minute)
    const turns = await Promise.all(
      [next, third, fourth].map(async ({ id }) => (await harness.notification(id)).turnedAt!),
    )
    for (const [index, at] of turns.entries())
      assert.ok(index === 0 || at - turns[index - 1]! >= 10 * second, `turns at ${turns.join(', ')}`)
    const late = await harness.post()
    assert.equal(late.status, 'queued', 'nobody stands in the queue any more')
    await harness.check()
    await harness.stop()
  }
})

test('a notification that is cancelled while its turn is being written leaves no entry in the queue', async () => {
  let onTurn: ((id: string) => Promise<void>) | undefined
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '1/10s', modules: 'unlimited' } } },
    wrap: (store: Store) => ({
      ...store,
      async commit(change) {
        const act = onTurn
        const id = change.moves?.[0]?.before.id
        if (act !== undefined && id !== undefined) {
          onTurn = undefined
          await act(id)
        }
        return store.commit(change)
      },
    }),
  })
  await harness.post()
  const waiting = await harness.post()
  onTurn = (id) => harness.gateway.gate.cancel('default', id)
  await harness.runFor(30 * second)
  assert.equal((await harness.notification(waiting.id)).status, 'cancelled')
  assert.equal((await harness.post()).status, 'queued', 'it stands behind nobody')
  await harness.check()
  await harness.stop()
})

test('a notification that has ended leaves the queue, in which an outdated turn has put it again', async () => {
  const caller = { tenant: 'default', module: 'default' }
  let cancelled: string | undefined
  const harness: Harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '1/10s', modules: 'unlimited' } } },
    parts: {
      wrapThrottle: (state) => ({
        ...state,
        async turn(tenant, requests) {
          if (cancelled !== undefined) return state.turn(tenant, requests)
          cancelled = requests[0]!.id
          await harness.gateway.gate.cancel(tenant, cancelled)
          // A state that several processes share knows nothing of it any more, and lets it wait anew.
          const passed = await state.pass(tenant, [{ ...caller, ...requests[0]! }])
          return [{ passed: false, at: passed!.places[0]!.at }]
        },
      }),
    },
  })
  await harness.post()
  const waiting = await harness.post()
  await harness.post()
  await harness.runFor(minute)
  assert.equal(cancelled, waiting.id)
  assert.equal((await harness.notification(waiting.id)).status, 'cancelled')
  assert.equal((await harness.post()).status, 'queued', 'it stands behind nobody')
  await harness.check()
  await harness.stop()
})

/** A gateway whose next turn is met by a cancellation; for a second after it the store answers no read of a notification. */
async function createUnreadTurn(policy: object): Promise<{ harness: Harness; cancelAtNextTurn(): void }> {
  let isAwaited = false
  let readsAgainAt = 0
  const harness: Harness = await createHarness({
    policy: { version: 1, ...policy },
    config: { tenants: { default: { rate: '1/10s', modules: 'unlimited' } } },
    wrap: (store: Store) => ({
      ...store,
      async commit(change) {
        const id = change.moves?.[0]?.before.id
        if (!isAwaited || id === undefined) return store.commit(change)
        isAwaited = false
        await harness.gateway.gate.cancel('default', id)
        readsAgainAt = harness.clock.now() + second
        return store.commit(change)
      },
      notification(tenant, id) {
        if (harness.clock.now() >= readsAgainAt) return store.notification(tenant, id)
        return Promise.reject(new SluiceError('STORE_UNAVAILABLE', 'Gone.', { retryAfterMs: second }))
      },
    }),
  })
  return {
    harness,
    cancelAtNextTurn() {
      isAwaited = true
    },
  }
}

test('a cancelled notification leaves the queue where its record cannot be read after its turn was refused', async () => {
  // Also one that was promoted long before its stored due time: the poller would not bring it back before that.
  for (const isPromoted of [false, true]) {
    const { harness, cancelAtNextTurn } = await createUnreadTurn({ limits: [] })
    await harness.post()
    const others = isPromoted ? [await harness.post(), await harness.post(), await harness.post()] : []
    const waiting = await harness.post()
    for (const { id } of others) await harness.done(harness.gateway.gate.cancel('default', id))
    cancelAtNextTurn()
    await harness.runFor(21 * second)
    assert.equal((await harness.notification(waiting.id)).status, 'cancelled')
    assert.equal((await harness.post()).status, 'queued', 'nothing waits before it')
    await harness.check()
    await harness.stop()
  }
})

test('a cancelled notification holds no slot of its recipient where its record cannot be read after its turn was refused', async () => {
  const { harness, cancelAtNextTurn } = await createUnreadTurn({
    limits: [{ name: 'few', for: 'any', max: ['2/day'], over: 'delay' }],
  })
  await harness.post()
  const waiting = await harness.post()
  cancelAtNextTurn()
  await harness.runFor(21 * second)
  assert.equal((await harness.notification(waiting.id)).status, 'cancelled')
  assert.equal((await harness.post()).status, 'queued', 'the second slot of the day is free')
  await harness.check()
  await harness.stop()
})

test('a promoted notification whose turn the store refuses once is decided soon, not at its stored due time', async () => {
  let refuses = false
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '1/10s', modules: 'unlimited' } } },
    wrap: (store: Store) => ({
      ...store,
      commit(change) {
        if (!refuses) return store.commit(change)
        refuses = false
        return Promise.reject(new SluiceError('STORE_UNAVAILABLE', 'Gone.', { retryAfterMs: second }))
      },
    }),
  })
  await harness.post()
  const others = [await harness.post(), await harness.post(), await harness.post()]
  const last = await harness.post()
  for (const { id } of others) await harness.done(harness.gateway.gate.cancel('default', id))
  refuses = true
  await harness.runFor(11 * second)
  assert.equal(refuses, false, 'its turn was refused')
  const sent = harness.sent().find(({ id }) => id === last.id)
  assert.ok(
    sent !== undefined,
    `it is sent within a second of its turn: ${last.dueAt - harness.clock.now()} ms before its due time`,
  )
  await harness.check()
  await harness.stop()
})

test('a refused commit leaves the place to the writer that has it on record', async () => {
  let onCommit: (() => Promise<unknown>) | undefined
  const lost: SendResult = { outcome: 'unknown', detail: 'reset' }
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'few', for: 'any', max: ['1/h'], over: 'delay' }] },
    parts: { providers: [createScripted((number) => (number === 1 ? lost : delivered)).provider] },
    wrap: (store: Store) => ({
      ...store,
      async commit(change) {
        const act = onCommit
        if ((change.moves?.length ?? 0) > 0 && act !== undefined) {
          onCommit = undefined
          await act()
        }
        return store.commit(change)
      },
    }),
  })
  const { id } = await harness.post()
  await harness.runFor(minute)
  assert.equal((await harness.notification(id)).status, 'dead')
  const { gate } = harness.gateway
  onCommit = () => gate.redrive({ all: true })
  await harness.done(gate.redrive({ all: true }))
  const { status, dueAt } = await harness.notification(id)
  assert.equal(status, 'scheduled', 'the other writer has it on record')
  const newcomer = await harness.post()
  assert.ok(
    newcomer.dueAt >= dueAt + hour,
    `the newcomer has the place after it: ${newcomer.dueAt - dueAt} ms`,
  )
  await harness.stop()
})

const rules = [limit('all', '1/s')]
const subject = { key: 'default:ada', tenant: 'default', recipient: 'ada' }
const request = { subject, id: '1', rules }

/** A state whose subject is read from the record, which takes some awaits. */
const fromRecord = () =>
  createMemoryState({
    clock: { now: () => 0 } as Clock,
    marginMs: 0,
    recover: async () => ({ entries: [], fingerprints: [], waitlist: [] }),
  })

test('a count that is fired at any await of giving a reservation back stays', async () => {
  for (let awaits = 0; awaits < 12; awaits += 1) {
    const state = fromRecord()
    const unlessFired = { after: Number.NEGATIVE_INFINITY, rules }
    if (awaits % 2 === 0) await state.reserve([request])
    const taken = state.cancel([{ subject, id: '1', unlessFired }])
    for (let count = 0; count < awaits / 2; count += 1) await Promise.resolve()
    await state.fire([request])
    await taken
    const [next] = await state.preview([{ ...request, id: '2' }])
    assert.equal(next!.at, second, `${awaits} awaits`)
  }
})

test('giving back takes a count that its caller knows of, and one that was not fired', async () => {
  for (const isFired of [true, false]) {
    const state = fromRecord()
    await state.reserve([request])
    if (isFired) await state.fire([request])
    await state.cancel([{ subject, id: '1', unlessFired: { after: 0, rules } }])
    assert.equal((await state.preview([{ ...request, id: '2' }]))[0]!.at, 0)
  }
})

test('a notification whose new decision the store refuses is in memory once, and is sent once', async () => {
  let isAway = false
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    wrap: (store) =>
      overriding(store, {
        async commit(change) {
          if (isAway && change.moves !== undefined) throw new SluiceError('STORE_UNAVAILABLE', 'away')
          return store.commit(change)
        },
      }),
  })
  const { gateway, start } = harness
  const { id } = await harness.post({ sendAt: start + 1_500 })
  await harness.runFor(10)
  const ada = { tenant: 'default', id: 'ada' }
  isAway = true
  const optingOut = gateway.gate.saveRecipient({ ...ada, optOuts: [{ category: 'product' }] })
  await assert.rejects(harness.done(optingOut), { code: 'STORE_UNAVAILABLE' })
  isAway = false
  await harness.done(gateway.gate.saveRecipient({ ...ada, optOuts: [] }))
  await harness.runFor(60_000)
  assert.deepEqual(
    harness.sent().map((each) => each.id),
    [id],
  )
  await harness.check()
  await harness.stop()
})

test('a notification whose move to an earlier instant the store refuses is in memory once, and is sent once', async () => {
  let isAway = false
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/s'], over: 'delay' }] },
    wrap: (store: Store) => ({
      ...store,
      commit: (change) =>
        isAway && change.moves?.some(({ after }) => after.status === 'scheduled') === true
          ? Promise.reject(new SluiceError('STORE_UNAVAILABLE', 'away'))
          : store.commit(change),
    }),
  })
  const [, next, last] = [await harness.post(), await harness.post(), await harness.post()]
  await harness.runFor(500)
  isAway = true
  await harness.done(harness.gateway.gate.cancel('default', next!.id))
  await harness.runFor(10 * second)
  assert.equal(harness.sent().filter(({ id }) => id === last!.id).length, 1)
  await harness.check()
  await harness.stop()
})
