/** Notifications whose turn came while an engine was away: they are decided soon after it is back, however long it was away. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { ThrottleState } from '../../src/ports/tenants.ts'
import type { Store } from '../../src/ports.ts'
import { createHarness, minute, second } from '../harness.ts'

const away = (code: 'STORE_UNAVAILABLE' | 'STATE_UNAVAILABLE') =>
  Promise.reject(new SluiceError(code, 'Away.', { retryAfterMs: 1_000 }))

for (const engine of ['the record', 'the server of the limits'] as const)
  test(`a turn that came while ${engine} was away is taken within three seconds of its return`, async () => {
    let isAway = false
    const wrap = (store: Store): Store =>
      Object.assign(Object.create(store) as Store, {
        commit: (change: Parameters<Store['commit']>[0]) =>
          isAway && engine === 'the record' ? away('STORE_UNAVAILABLE') : store.commit(change),
      })
    const wrapThrottle = (state: ThrottleState): ThrottleState => ({
      ...state,
      turn: (...asked) =>
        isAway && engine === 'the server of the limits' ? away('STATE_UNAVAILABLE') : state.turn(...asked),
    })
    const harness = await createHarness({
      wrap,
      parts: { wrapThrottle },
      policy: { version: 1, limits: [] },
      config: { tenants: { default: { rate: '1/min', modules: 'unlimited' } } },
    })
    await harness.post()
    const { id } = await harness.post({ recipient: 'eve' })
    await harness.runFor(59 * second)
    isAway = true
    await harness.runFor(2 * minute)
    isAway = false
    await harness.runFor(3 * second)
    assert.equal((await harness.notification(id)).status, 'delivered')
    await harness.check()
    await harness.stop()
  })

test('a turn that the record refuses once behind the return of the limits is taken a second later', async () => {
  let [isAway, refused] = [false, 0]
  const wrap = (store: Store): Store =>
    Object.assign(Object.create(store) as Store, {
      async commit(change: Parameters<Store['commit']>[0]) {
        const before = change.moves?.[0]?.before
        if (refused > 0 || before === undefined || isAway) return store.commit(change)
        refused += 1
        return { applied: false, conflicts: [{ kind: 'notification', key: before.id }] }
      },
    })
  const harness = await createHarness({
    wrap,
    parts: {
      wrapThrottle: (state) => ({
        ...state,
        turn: (...asked) => (isAway ? away('STATE_UNAVAILABLE') : state.turn(...asked)),
      }),
    },
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '1/min', modules: 'unlimited' } } },
  })
  refused = 1
  await harness.post()
  const { id } = await harness.post({ recipient: 'eve' })
  await harness.runFor(59 * second)
  isAway = true
  await harness.runFor(20 * second)
  refused = 0
  isAway = false
  await harness.runFor(3 * second)
  assert.equal(refused, 1, 'the store has refused it')
  assert.equal((await harness.notification(id)).status, 'delivered')
  await harness.stop()
})

for (const failing of ['looking at who waits', 'writing who moved up', 'giving the place back'] as const)
  test(`those who wait move up within three seconds of the return of the record, which was away for ${failing}`, async () => {
    let isAway = false
    const whileAway = <T>(step: typeof failing, work: () => Promise<T>): Promise<T> =>
      isAway && step === failing ? away('STORE_UNAVAILABLE') : work()
    const wrap = (store: Store): Store =>
      Object.assign(Object.create(store) as Store, {
        notification: (...asked: Parameters<Store['notification']>) =>
          whileAway('looking at who waits', () => store.notification(...asked)),
        async commit(change: Parameters<Store['commit']>[0]) {
          const result = await whileAway('writing who moved up', () => store.commit(change))
          isAway ||= change.moves?.[0]?.after.status === 'cancelled'
          return result
        },
      })
    const harness = await createHarness({
      wrap,
      parts: {
        wrapState: (state) => ({
          ...state,
          // The limits of a recipient that Redis has lost are filled from the record.
          cancel: (requests) => whileAway('giving the place back', () => state.cancel(requests)),
        }),
      },
      policy: { version: 1, limits: [{ name: 'one', for: 'any', max: ['1/h'], over: 'delay' }] },
    })
    const [, waiting, behind] = [await harness.post(), await harness.post(), await harness.post()]
    // The caller hears of a place that could not be given back yet.
    await harness.done(harness.gateway.gate.cancel('default', waiting.id).catch(() => undefined))
    assert.ok(isAway)
    await harness.runFor(130 * second)
    isAway = false
    await harness.runFor(3 * second)
    assert.equal((await harness.notification(behind.id)).dueAt, waiting.dueAt)
    await harness.stop()
  })
