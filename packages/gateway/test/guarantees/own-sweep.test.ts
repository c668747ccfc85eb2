/**
 * A gateway whose store loses answers, in virtual time over a record in memory: what the process holds on record and does
 * not know of is found by its own sweep, and leaves within seconds.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import type { GatewayParts } from '../../src/gateway.ts'
import type { Notification } from '../../src/model.ts'
import type { Members } from '../../src/ports/fleet.ts'
import type { LimitState, Provider, SendResult, Store } from '../../src/ports.ts'
import { createVirtualClock } from '../../src/simulation/clock.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import { createHarness, second } from '../harness.ts'

const tenant = 'default'
const config = {
  pools: {
    email: { provider: 'sandbox', shedAfter: '1h', accounts: [{ id: 'a' }] },
    websocket: { provider: 'sandbox' },
  },
}
/** A notification that is due for longer than a second is missed by two looks, five seconds and one apart. */
const foundMs = 8 * second

const lost = (): SluiceError =>
  new SluiceError('STORE_UNAVAILABLE', 'The answer was lost.', { isUncertain: true })

type Losable = 'claimDue' | 'takeOver' | 'takeBack' | 'begin' | 'commit'

/** Performs each call, and loses the answers to the next ones of a kind that are not empty. */
function losingAnswers(store: Store) {
  const losing = new Map<Losable, number>()
  let losses = 0
  const losable: readonly Losable[] = ['claimDue', 'takeOver', 'takeBack', 'begin', 'commit']
  const proxy = new Proxy(store, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key, target)
      if (typeof value !== 'function') return value
      return async (...args: unknown[]) => {
        const answer: unknown = await value.apply(target, args)
        const name = key as Losable
        const left = losing.get(name) ?? 0
        const isEmpty = Array.isArray(answer) && answer.length === 0
        if (!losable.includes(name) || left === 0 || isEmpty) return answer
        losing.set(name, left - 1)
        losses += 1
        throw lost()
      }
    },
  })
  // Questions that are answered without a promise stay so.
  const own: Store = Object.assign(Object.create(proxy) as Store, {
    claimedUntil: () => store.claimedUntil(),
    mayHave: (...args: Parameters<Store['mayHave']>) => store.mayHave(...args),
  })
  return {
    store: own,
    lose: (name: Losable, times = 1) => void losing.set(name, times),
    losses: () => losses,
  }
}

async function setUp(parts: Pick<GatewayParts, 'providers' | 'wrapState'> = {}) {
  const clock = createVirtualClock(Date.UTC(2026, 10, 21, 12))
  const record = createMemoryRecord(250)
  const losing = losingAnswers(record.open('a'))
  const listeners: ((gone: readonly string[]) => void)[] = []
  const members: Members = {
    id: 'a',
    count: () => 2,
    othersServe: () => true,
    policiesLeft: () => '',
    announcePolicy: async () => {},
    holds: () => true,
    onDeath(listener) {
      listeners.push(listener)
      return () => {}
    },
    close: async () => {},
  }
  const harness = await createHarness({ clock, config, parts: { ...parts, store: losing.store, members } })
  const declareDead = (id: string): void => {
    record.declareDead(id)
    for (const listener of listeners) listener([id])
  }
  const until = async (instant: number): Promise<void> => {
    await harness.runUntil(instant)
  }
  const idsSent = () => harness.sent().map(({ id }) => id)
  const delivered = async (list: readonly Notification[]): Promise<void> => {
    for (const { id } of list)
      assert.equal((await harness.gateway.store.notification(tenant, id))?.status, 'delivered')
    assert.deepEqual(idsSent().toSorted(), list.map(({ id }) => id).toSorted(), 'each is sent once')
  }
  return { clock, record, declareDead, harness, until, delivered, ...losing }
}

test('what a lost claim took leaves within seconds', async () => {
  const { clock, harness, until, delivered, lose, losses } = await setUp()
  const sendAt = clock.now() + 10 * second
  const posted = await harness.postMany(
    Array.from({ length: 20 }, (_, n) => ({ to: { id: `r${n}`, email: `r${n}@example.com` }, sendAt })),
  )
  await until(sendAt - 5 * second)
  lose('claimDue')
  await until(sendAt + foundMs)
  assert.ok(losses() > 0)
  await delivered(posted)
  await harness.stop()
})

test('what a lost takeover took leaves within seconds, and again if the taking back is lost', async () => {
  const { clock, record, declareDead, harness, until, delivered, lose, losses } = await setUp()
  const dead = record.open('dead')
  const sendAt = clock.now() + 10 * second
  const posted = await harness.postMany(
    Array.from({ length: 20 }, (_, n) => ({ to: { id: `r${n}`, email: `r${n}@example.com` }, sendAt })),
  )
  await dead.claimDue(sendAt, 100)
  lose('takeOver')
  lose('takeBack')
  declareDead('dead')
  await until(sendAt + 2 * foundMs)
  assert.equal(losses(), 2)
  await delivered(posted)
  await harness.stop()
})

test('a lost commit and a lost right to send leave nothing on record that nobody knows of', async () => {
  const { clock, harness, until, lose, losses } = await setUp()
  const posted: Notification[] = []
  for (const name of ['begin', 'commit'] as const) {
    for (let round = 0; round < 5; round += 1) {
      posted.push(await harness.post({ recipient: `${name}-${round}` }))
      lose(name)
      await until(clock.now() + 2 * second)
    }
  }
  await until(clock.now() + foundMs)
  assert.ok(losses() >= 8)
  for (const { id } of posted)
    assert.equal((await harness.gateway.store.notification(tenant, id))?.status, 'delivered')
  assert.deepEqual(await harness.gateway.store.heldOnRecord(clock.now(), null, 100), [])
  await harness.stop()
})

test('what was to be sent when its only account went out is shown as waiting to the others, who can cancel it', async () => {
  let wait = (_ms: number): Promise<void> => Promise.resolve()
  const provider: Provider = {
    name: 'sandbox',
    idempotent: false,
    channels: ['email'],
    async send(): Promise<SendResult> {
      await wait(100)
      return { outcome: 'rate_limited', retryAfter: '600', detail: 'not now' }
    },
    close: async () => {},
  }
  let fired = 0
  const wrapState = (state: LimitState): LimitState => ({
    ...state,
    async fire(...asked) {
      fired += 1
      if (fired === 2) await wait(200)
      return state.fire(...asked)
    },
  })
  const { clock, record, harness, until } = await setUp({ providers: [provider], wrapState })
  wait = (ms) => new Promise((resolve) => clock.at(clock.now() + ms, resolve))
  const other = record.open('b')
  await harness.post({ recipient: 'one' })
  const { id } = await harness.post({ recipient: 'two' })
  await until(clock.now() + 150)
  assert.equal((await other.notification(tenant, id))?.status, 'sending')
  await until(clock.now() + foundMs)
  assert.equal(fired, 2)
  assert.equal((await other.notification(tenant, id))?.status, 'queued')
  await harness.stop()
})
