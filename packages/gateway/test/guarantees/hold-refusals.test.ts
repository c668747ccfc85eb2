/**
 * Holds of notifications while the store fails one call: whichever call it is, the notifications leave in the order of
 * acceptance, and no newcomer is before them.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { Store } from '../../src/ports.ts'
import { createHarness, type Harness, hour, minute, second } from '../harness.ts'
import { postAll } from './flow-writers.ts'
import { areInOrder } from './waiting-flows.ts'

/** The limit of a recipient, and one over all recipients of a tenant. */
const [own, shared] = [{}, { per: ['tenant'] }].map((more) => ({
  version: 1,
  limits: [{ name: 'few', for: 'any', ...more, max: ['1/h'], over: 'delay' }],
})) as [object, object]
const hold = { name: 'all', category: 'product', reason: 'r' } as const
/** Calls of the store that answer at once, or are no part of a walk. */
const unmet = new Set(['mayHave', 'claimedUntil', 'close', 'counters', 'check'])

interface Failing {
  readonly wrap: (store: Store) => Store
  /** From here on calls are counted, and the n-th fails, or something else is done before it; none where it is 0. */
  arm(nth: number, before?: () => void): void
  /** Returns how many were made. */
  disarm(): number
}

function fail(): void {
  throw new SluiceError('STORE_UNAVAILABLE', 'Full.', { retryAfterMs: second })
}

function failing(): Failing {
  let calls = 0
  let fails: number | undefined
  let act = fail
  return {
    wrap: (store) =>
      new Proxy(store, {
        get(of, name) {
          const value = Reflect.get(of, name) as unknown
          if (typeof value !== 'function') return value
          const bound = value.bind(of) as (...args: unknown[]) => Promise<unknown>
          if (unmet.has(String(name))) return bound
          return async (...args: unknown[]) => {
            if (fails !== undefined) calls += 1
            if (calls === fails) {
              // Calls that this makes are not counted.
              fails = undefined
              act()
            }
            return bound(...args)
          }
        },
      }),
    arm(nth, before = fail) {
      calls = 0
      fails = nth
      act = before
    },
    disarm() {
      fails = undefined
      return calls
    },
  }
}

/** Asks until it is done: an operator is told that it is not. */
async function again(harness: Harness, ask: () => Promise<unknown>): Promise<void> {
  await harness.done(ask()).catch(() => harness.done(ask()))
}

/** Posts another one, again where the store refuses it. */
async function newcomer(harness: Harness): Promise<string> {
  for (;;) {
    try {
      return (await harness.post({ recipient: 'a' })).id
    } catch (error) {
      assert.equal((error as SluiceError).code, 'STORE_UNAVAILABLE')
      await harness.runFor(second)
    }
  }
}

const four = (harness: Harness): Promise<readonly string[]> =>
  postAll(
    harness,
    [0, 1, 2, 3].map(() => ({ recipient: 'a' })),
  )

/** Runs a change of holds with each of its calls failing in turn; with none at first, to count them. */
async function atEachCall(
  run: (policy: object, store: Failing, nth: number) => Promise<number>,
  policies: readonly object[] = [own],
): Promise<void> {
  for (const policy of policies) {
    const calls = await run(policy, failing(), 0)
    assert.ok(calls >= 8, `${calls} calls`)
    for (let nth = 1; nth <= calls; nth += 1)
      await run(policy, failing(), nth).catch((cause: unknown) => {
        throw new Error(`call ${nth} of ${calls} fails: ${JSON.stringify(policy)}`, { cause })
      })
  }
}

test('a hold stops those who wait in the order of acceptance, whichever call of its walk the store fails', () =>
  atEachCall(
    async (policy, store, nth) => {
      const harness = await createHarness({ policy, wrap: store.wrap })
      const ids = await four(harness)
      await harness.runFor(second)
      const until = harness.start + 90 * minute
      store.arm(nth)
      await again(harness, () => harness.gateway.holds.put({ ...hold, until }))
      await harness.runFor(500)
      const calls = store.disarm()
      const late = await newcomer(harness)
      await harness.runFor(9 * hour)
      assert.deepEqual(
        harness.sent().map(({ id }) => id),
        [...ids, late],
      )
      assert.deepEqual(
        harness
          .sent()
          .slice(1)
          .map(({ at }) => Math.floor((at - until) / second)),
        [0, 3600, 7200, 10_800],
      )
      await harness.check()
      await harness.stop()
      return calls
    },
    [own, shared],
  ))

test('a newcomer is behind those whom a hold stops, whichever of its calls the store fails', () =>
  atEachCall(async (policy, store, nth) => {
    const harness = await createHarness({ policy, wrap: store.wrap })
    const ids = await four(harness)
    await harness.runFor(second)
    const until = harness.start + 90 * minute
    store.arm(nth)
    const held = again(harness, () => harness.gateway.holds.put({ ...hold, until }))
    const late = await newcomer(harness)
    await held
    const calls = store.disarm()
    await harness.runFor(9 * hour)
    assert.deepEqual(
      harness.sent().map(({ id }) => id),
      [...ids, late],
    )
    await harness.check()
    await harness.stop()
    return calls
  }))

test('those who waited for a hold leave in the order of acceptance when it ends, whichever call the store fails', () =>
  atEachCall(async (policy, store, nth) => {
    const harness = await createHarness({ policy, wrap: store.wrap })
    const { gateway, start } = harness
    await harness.done(gateway.holds.put({ ...hold, until: start + 4 * hour }))
    const ids = await four(harness)
    await harness.runFor(2 * minute)
    store.arm(nth)
    await again(harness, () => gateway.holds.end(hold.name))
    await harness.runFor(500)
    const calls = store.disarm()
    const late = await newcomer(harness)
    await harness.runFor(9 * hour)
    await areInOrder(harness, [...ids, late])
    const ended = start + 2 * minute
    assert.deepEqual(
      harness.sent().map(({ at }) => Math.floor((at - ended) / (5 * second))),
      [0, 720, 1440, 2160, 2880],
    )
    await harness.check()
    await harness.stop()
    return calls
  }))

test('a hold that is prolonged during its walk keeps the order of acceptance, at whichever call', () =>
  atEachCall(async (policy, store, nth) => {
    const harness = await createHarness({ policy, wrap: store.wrap })
    const { gateway, start } = harness
    const ids = await four(harness)
    await harness.runFor(second)
    const until = start + 100 * minute
    store.arm(nth, () => void gateway.holds.put({ ...hold, until }))
    await harness.done(gateway.holds.put({ ...hold, until: start + 90 * minute }))
    await harness.runFor(500)
    const calls = store.disarm()
    await harness.runFor(9 * hour)
    assert.deepEqual(
      harness.sent().map(({ id }) => id),
      ids,
    )
    if (nth > 0) assert.ok(harness.sent()[1]!.at >= until)
    await harness.check()
    await harness.stop()
    return calls
  }))
