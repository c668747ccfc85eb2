/**
 * Delivery by itself in virtual time: real pools, queue, scheduler, ledger and completer over a store in memory. The
 * provider, the limits and the recipients are scripted. Tests queue notifications, let time pass, and look at the calls
 * that arrived, at what is on record, and at what is still held. When a test ends, the stage is drained and must hold
 * nothing any more.
 */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { parseWindow } from '@sluice/limits'
import { createMemoryRoom } from '../../src/adapters/state/memory-room.ts'
import { createDispatcher } from '../../src/delivery/dispatcher.ts'
import { Pool, type PoolOptions } from '../../src/delivery/pools/pool.ts'
import { Route } from '../../src/delivery/pools/route.ts'
import type { SendRules } from '../../src/delivery/send-rules.ts'
import { damagedRowOf } from '../../src/errors.ts'
import { createLedger } from '../../src/ledger/ledger.ts'
import { advance, type Notification, type Recipient } from '../../src/model.ts'
import type { Message, Provider, SendResult } from '../../src/ports.ts'
import { createEmbeddedQueue } from '../../src/queue/embedded.ts'
import { createScheduler } from '../../src/scheduler/scheduler.ts'
import { createVirtualClock, type VirtualClock } from '../../src/simulation/clock.ts'
import type { Ledger, RecipientLimiter, ReleaseRequest, ReservationRequest } from '../../src/stages.ts'
import { createMemoryStore } from '../../src/store/memory/memory.ts'
import { queuedAt } from '../queued.ts'
import { delivered } from './scripted.ts'

export const start = 1_000_000
export const second = 1_000

export interface SentCall {
  readonly id: string
  readonly account: string
  /** Instant of the call, ms after the start. */
  readonly at: number
}

export interface StageOptions {
  /** Rates of the accounts, named a, b, c …; '' is unlimited. @defaultValue three without a limit */
  readonly rates?: readonly string[]
  /** Calls at once of each account. @defaultValue 1_000 */
  readonly concurrency?: number
  readonly pool?: Partial<PoolOptions>
  /** Makes the state of an account. @defaultValue the embedded one */
  readonly stateOf?: (clock: VirtualClock) => NonNullable<PoolOptions['stateOf']>
  /** The provider's answers. @defaultValue each call is delivered at once */
  readonly answer?: (message: Message, account: string) => SendResult | Promise<SendResult>
  /** Calls the provider in place of `answer`. */
  readonly send?: Provider['send']
  readonly provider?: Partial<Provider>
  readonly rules?: Partial<SendRules>
  /** Instants before which the limits admit no send, ms after the start, by id. @defaultValue none */
  readonly limits?: Readonly<Record<string, number>>
  /** Runs while the limits are asked; it may return how old their answers are when they arrive, ms. */
  readonly whileFiring?: (ids: readonly string[]) => unknown
  /** Runs while the limits are told of a late call. */
  readonly whileCounting?: () => unknown
  /** True where other processes fire in the same limits. */
  readonly isShared?: boolean
  /** Reads a recipient. @defaultValue a recipient without preferences */
  readonly find?: (id: string) => Promise<Recipient | null>
  /** Instants at which the limits count a send of another gateway, ms after the start, by id. @defaultValue none */
  readonly firedElsewhere?: Readonly<Record<string, number>>
  /** Releasing a slot of the limits fails. */
  readonly keepsSlots?: boolean
  readonly templates?: () => never
  readonly wrapLedger?: (ledger: Ledger) => Ledger
  /** False where the test starts the workers. @defaultValue true */
  readonly started?: false
}

export interface Stage {
  readonly clock: VirtualClock
  readonly pool: Pool
  readonly ledger: Ledger
  /** Calls that reached the provider. */
  readonly calls: readonly SentCall[]
  /** Batches that the limits were asked for, each with the ids. */
  readonly fired: readonly (readonly string[])[]
  /** Instants at which the limits count a send, ms after the start, by id. */
  readonly counted: ReadonlyMap<string, number>
  /** Errors that were reported: where, and the message. */
  readonly errors: readonly string[]
  /** Queues notifications that are on record. */
  queue(...notifications: readonly Notification[]): Promise<void>
  start(): void
  runFor(ms: number): Promise<void>
  /** Resolves after this time. */
  wait(ms: number): Promise<void>
  /** Cancels a queued notification, as a client does. */
  cancel(id: string): Promise<void>
  /** A preference of a recipient was saved. */
  save(recipient: Recipient): void
  /** The state on record. */
  record(id: string): Promise<Notification>
  /** The last event on record: its status, its reason, and its instant in ms after the start. */
  last(id: string): Promise<readonly [status: string, reason: string | undefined, at: number]>
  stop(): Promise<void>
}

/** A queued email to a recipient of its own. */
export const queued = (id: string, more: Partial<Notification> = {}): Notification =>
  queuedAt(start, id, {
    to: { id: `to-${id}`, email: `${id}@example.com` },
    content: { subject: id, text: id },
    ...more,
  })

type SchedulerParts = Parameters<typeof createScheduler>[0]

/** A scheduler of one process in which nothing is held, suspected or without a pool. */
export function createLoneScheduler(
  parts: Pick<SchedulerParts, 'store' | 'ledger' | 'queue' | 'clock' | 'onError'>,
): ReturnType<typeof createScheduler> {
  return createScheduler({
    ...parts,
    members: { holds: () => true, count: () => 1 },
    releaseHolds: async () => {},
    pauseNewcomers: async () => async () => {},
    countSuspects: async () => {},
    unserved: { serves: () => true, left: () => [], giveUp: async () => {} },
  })
}

export async function createStage(t: TestContext, options: StageOptions = {}): Promise<Stage> {
  const { rates = ['', '', ''], limits = {}, answer = () => delivered } = options
  const clock = createVirtualClock(start)
  const calls: SentCall[] = []
  const fired: (readonly string[])[] = []
  const counted = new Map<string, number>(Object.entries(options.firedElsewhere ?? {}))
  const errors: string[] = []
  const onError = (what: string, error: unknown) => void errors.push(`${what}: ${(error as Error).message}`)
  const store = createMemoryStore()
  const boundsFor = () => ({ queueMax: 1e6, waitingMax: 1e6, bytesMax: 1e9 })
  const inner = await createLedger({ store, room: createMemoryRoom(), clock, boundsFor })
  const ledger = options.wrapLedger?.(inner) ?? inner
  const queue = createEmbeddedQueue({ clock })

  const recipients = new Map<string, Recipient>()
  let changes = 0
  const find = options.find ?? (async () => null)

  const limiter = {
    async fire(requests: readonly Pick<ReservationRequest, 'notification'>[]) {
      const ids = requests.map(({ notification: { id } }) => id)
      fired.push(ids)
      const age = await options.whileFiring?.(ids)
      const ageMs = typeof age === 'number' ? age : 0
      return ids.map((id) => {
        const at = start + (limits[id] ?? 0)
        const now = clock.now() - ageMs
        if (at > now) return { fired: false, at }
        counted.set(id, now - start)
        return { fired: true, at: now }
      })
    },
    async countAsSent({ notification: { id }, at = 0 }: Parameters<RecipientLimiter['countAsSent']>[0]) {
      await options.whileCounting?.()
      counted.set(id, Math.max(clock.now(), at) - start)
    },
    async cancel(requests: readonly Pick<ReservationRequest, 'notification'>[]) {
      if (options.keepsSlots === true) throw new Error('the disk is away')
      for (const { notification } of requests) counted.delete(notification.id)
    },
    async takeBack(requests: readonly ReleaseRequest[]) {
      for (const { notification } of requests) {
        const { id, firedAt = Number.NEGATIVE_INFINITY } = notification
        if (start + (counted.get(id) ?? 0) <= firedAt) counted.delete(id)
      }
    },
  } as unknown as Parameters<typeof createDispatcher>[0]['limiter']

  const scheduler = createLoneScheduler({ store, ledger, queue, clock, onError })

  const provider: Provider = {
    name: 'scripted',
    idempotent: false,
    channels: ['email'],
    async send(message, account, signal, onWritten) {
      calls.push({ id: message.id, account: account.id, at: clock.now() - start })
      return options.send === undefined
        ? answer(message, account.id)
        : options.send(message, account, signal, onWritten)
    },
    close: async () => {},
    ...options.provider,
  }
  const pool = new Pool({
    channel: 'email',
    provider,
    accounts: rates.map((rate, index) => ({
      account: { id: String.fromCharCode(97 + index), options: {} },
      windows: rate === '' ? [] : [parseWindow(rate)],
      rate: rate || 'unlimited',
      concurrencyMax: options.concurrency ?? 1_000,
    })),
    marginMs: 0,
    now: start,
    ...(options.stateOf === undefined ? {} : { stateOf: options.stateOf(clock) }),
    ...options.pool,
  })
  const dispatcher = createDispatcher({
    routes: [new Route([pool])],
    rules: {
      suppression: () => undefined,
      quietAt: () => undefined,
      policyVersion: () => 'one',
      isHeld: () => false,
      ...options.rules,
    },
    queue,
    store: options.isShared === true ? { ...store, isVersioned: true } : store,
    ledger,
    limiter,
    keysOf: ({ notification }) => [notification.to.id],
    shortestWindowMs: () => Number.POSITIVE_INFINITY,
    recipients: {
      cached: (_, id) => recipients.get(id) ?? (options.find === undefined ? null : undefined),
      find: (_, id) => find(id),
      findAll(keys) {
        const cached = keys.map(({ recipient: id }) => recipients.get(id) ?? null)
        if (options.find === undefined || !cached.includes(null)) return cached
        const orDamage = (error: Error): Error => {
          if (damagedRowOf(error) === undefined) throw error
          return error
        }
        return Promise.all(keys.map(({ recipient: id }) => find(id).catch(orDamage)))
      },
      forget(_, id) {
        recipients.delete(id)
        changes += 1
      },
      get changes() {
        return changes
      },
    },
    contents: { of: (notification) => notification },
    scheduler,
    members: { holds: () => true },
    composer: {
      templates: {
        has: () => true,
        hasSubject: () => true,
        render: options.templates ?? (() => assert.fail('no template is used')),
      },
    },
    clock,
    random: { next: () => 0.5, id: () => assert.fail('no id is needed') },
    releaseHolds: async () => {},
    onError,
  })
  let stopping: Promise<void> | undefined
  async function stop(): Promise<void> {
    stopping ??= Promise.all([dispatcher.drain(), scheduler.stop()]).then(() => {})
    // Calls under way come to their end.
    await clock.runUntil(clock.now() + 60 * second)
    await stopping
    assert.equal(pool.inFlight, 0, 'no lease is held')
  }
  const starting = scheduler.start({ resume: async () => {}, closeDigest: async () => {} })
  await clock.settle()
  await starting
  if (options.started !== false) dispatcher.start()
  t.after(stop)

  async function record(id: string): Promise<Notification> {
    const found = await store.notification('acme', id)
    assert.ok(found !== undefined, `${id} is on record`)
    return found
  }

  return {
    clock,
    pool,
    ledger,
    calls,
    fired,
    counted,
    errors,
    stop,
    record,
    start: () => dispatcher.start(),
    async queue(...notifications) {
      await ledger.commit({ accept: notifications })
      scheduler.place(notifications)
      await clock.settle()
    },
    wait: (ms) => new Promise((resolve) => void clock.at(clock.now() + ms, resolve)),
    runFor: (ms) => clock.runUntil(clock.now() + ms),
    async cancel(id) {
      const before = ledger.live(id)?.notification ?? (await record(id))
      ledger.release(before)
      await ledger.commit({ moves: [advance(before, [{ at: clock.now(), status: 'cancelled' }])] })
    },
    save(recipient) {
      recipients.set(recipient.id, recipient)
      changes += 1
    },
    async last(id) {
      const { status, reason, at } = (await record(id)).timeline.at(-1)!
      return [status, reason, at - start]
    },
  }
}
