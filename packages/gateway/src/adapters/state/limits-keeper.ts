/**
 * Keeps the limits of all gateways in the memory of one while their server answers none of them (`share` of the policy).
 *
 *   served ──away for a while──▶ pledged ──all have pledged──▶ keeping ──a server is back──▶ ending ──▶ pledged
 *      ▲────────────a server is registered─────┘
 *
 * A process that has pledged believes no server that it has not registered since, and none is registered while a process keeps
 * the limits. To begin and to end is a loss of everything that was counted: every value has another number and is filled
 * from the record, and no call is under way that was allowed before.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { SluiceError } from '../../errors.ts'
import type { Keeping, PlacedLife, Registrations, SharedCategories } from '../../ports/limiter.ts'
import type { Clock } from '../../ports.ts'
import type { RedisConnections, RedisState } from './redis/redis-state.ts'

export interface LimitsKeeperOptions {
  readonly registrations: Registrations
  readonly keeping: Keeping
  /** Opens the connections to the server, which is registered by what it is given. */
  readonly open: (registrations: Registrations) => Promise<ConnectedServer>
  /** The categories that the policy shares; undefined where it shares none. */
  readonly shared: () => SharedCategories | undefined
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  /** Asks the server anything: a process that is idle has to notice that it is away. */
  readonly ping: (state: RedisState) => Promise<unknown>
  readonly onError: (what: string, error: unknown) => void
}

interface ConnectedServer {
  readonly redis: RedisConnections
  /** The instant of `clock.monotonic` since which the server has not answered. */
  readonly awaySince: () => number | undefined
}

/** The process that keeps the limits. */
type Keeper = 'this process' | 'another process'

interface KeeperListener {
  /** The limits are kept from now on by this process, by another one, or by none. */
  readonly onKeeper?: (keeper: Keeper | undefined) => void
  /** Notifications of these ids were freed on record: the process that keeps the limits claims them. */
  readonly onHandedOver?: (ids: readonly string[]) => void
}

export interface LimitsKeeper {
  /** Asks the server, or the memory of this process while it keeps the limits. */
  readonly state: RedisState
  keeper(): Keeper | undefined
  /** True while this process has missed its server, whoever keeps the limits. */
  isAway(): boolean
  listen(listener: KeeperListener): void
  /** Ends the keeping, when nothing of this process is sent any more. */
  stop(): Promise<void>
}

/** Between two looks, ms. */
const lookMs = 250
/**
 * The server has not answered for so long before a process pledges, ms. The rights to send with which it has allowed calls
 * are over by then. A commit that it has led to and that takes longer is compared with the generations of its tenant, and a
 * notification asks the limits again before its call. The same holds for what the keeper has allowed.
 */
const overMs = 2_500
/** A server is back when it was reached so often in a row, one look after the other: one second. */
const backLooks = 4
/** A server that was reached so recently is there, ms. */
const reachedMs = 1_000
/** Who was refused a number for its server asks no earlier than this, ms. */
const refusedMs = 250
/** A right to send that was given before lasts so long, ms. The memory is filled when it is over. */
const rightMs = 250

export async function createLimitsKeeper(options: LimitsKeeperOptions): Promise<LimitsKeeper> {
  const { registrations, keeping, shared, clock, ping, onError } = options
  const isShared = (): boolean => shared() !== undefined
  let mode: 'served' | 'pledged' | 'keeping' | 'ending' = 'served'
  let own: { readonly number: number; readonly state: RedisState } | undefined
  let keptBy: Keeper | undefined
  /** Pledges and registrations go to the record one after the other: a pledge follows no registration that it ends. */
  let last: Promise<unknown> = Promise.resolve()
  /** The instants of `clock.monotonic` at which a server was last reached, and may be registered again. */
  let reachedAt = Number.NEGATIVE_INFINITY
  let refusedUntil = Number.NEGATIVE_INFINITY
  let refusal: unknown
  let reached = 0
  const listeners = new Set<KeeperListener>()
  let isStopped = false
  let looking: Promise<void> | undefined

  function oneByOne<T>(work: () => Promise<T>): Promise<T> {
    const next = last.then(work)
    last = next.catch(() => {})
    return next
  }

  function note(keeper: Keeper | undefined): void {
    if (keeper === keptBy) return
    keptBy = keeper
    for (const { onKeeper } of listeners) onKeeper?.(keeper)
  }

  async function refuse(error: unknown): Promise<never> {
    // A question asks again without a pause.
    await sleep(100)
    throw error
  }

  const refuseKept = (life: PlacedLife): Promise<never> =>
    refuse(
      new SluiceError('STATE_UNAVAILABLE', `${life.node} is not asked: this gateway keeps the limits.`, {
        retryAfterMs: 1_000,
      }),
    )

  async function register(life: PlacedLife): Promise<number> {
    reachedAt = clock.monotonic()
    if (mode === 'keeping' || mode === 'ending') return refuseKept(life)
    if (reachedAt < refusedUntil) return refuse(refusal)
    return oneByOne(async () => {
      if (mode === 'keeping' || mode === 'ending') return refuseKept(life)
      try {
        const number = await registrations.register(life)
        mode = 'served'
        note(undefined)
        return number
      } catch (error) {
        refusedUntil = clock.monotonic() + refusedMs
        refusal = error
        throw error
      }
    })
  }

  const server = await options.open({ register })

  const wasReached = (): boolean => clock.monotonic() - reachedAt < reachedMs

  /** True where the server has been away for so long that nothing is under way that it has allowed. */
  function isOver(): boolean {
    const since = server.awaySince()
    return since !== undefined && clock.monotonic() - since >= overMs && !wasReached()
  }

  async function pledge(): Promise<void> {
    const { number, keeper } = await oneByOne(async () => {
      // Between the look and its turn a server may have been registered.
      if (mode !== 'pledged' && !isOver()) return { number: undefined, keeper: undefined }
      // A connection that was opened since is registered before it counts, and may take longer than a look.
      if (mode !== 'pledged') server.redis.renew()
      mode = 'pledged'
      const answer = await keeping.standIn()
      // Nothing is registered in between.
      if (answer.number !== undefined) mode = 'keeping'
      return answer
    })
    if (number === undefined) {
      note(keeper === undefined ? undefined : 'another process')
      return
    }
    const [{ createInProcessState }] = await Promise.all([
      // The translator is loaded only where it is used.
      import('./lua/in-process-state.ts'),
      sleep(rightMs),
    ])
    const { deadlineMs } = server.redis
    own = { number, state: createInProcessState({ number, clock, deadlineMs }) }
    reached = 0
    note('this process')
  }

  async function keep(): Promise<void> {
    const { number, isReachable } = await keeping.standIn()
    if (own === undefined || number !== own.number) return drop()
    reached = isReachable || wasReached() ? reached + 1 : 0
    if (reached >= backLooks || !isShared()) await end()
  }

  /** This process keeps them no longer, whatever became of it. */
  function drop(): void {
    own?.state.close()
    own = undefined
    if (mode === 'keeping') mode = 'pledged'
    note(undefined)
  }

  async function end(): Promise<void> {
    mode = 'ending'
    drop()
    // Nobody else asks the server meanwhile, and who has not reached it lately would begin again after it.
    for (let waitedMs = 0; waitedMs < overMs; waitedMs += lookMs) {
      ping(server.redis).catch(() => {})
      await sleep(lookMs)
    }
    await oneByOne(keeping.stepDown)
    mode = 'pledged'
  }

  async function look(): Promise<void> {
    if (mode === 'ending') return end()
    if (isShared() || mode === 'keeping') ping(server.redis).catch(() => {})
    if (mode === 'keeping') return keep()
    if (mode === 'served' ? isShared() && isOver() : !wasReached()) await pledge()
    const categories = shared()
    if (keptBy !== 'another process' || categories === undefined) return
    const ids = await keeping.handOver(categories)
    if (ids.length > 0) for (const { onHandedOver } of listeners) onHandedOver?.(ids)
  }

  const timer = setInterval(() => {
    if (isStopped) return
    looking ??= look()
      .catch((error: unknown) => onError('look who keeps the limits', error))
      .finally(() => {
        looking = undefined
      })
  }, lookMs)
  timer.unref()

  return {
    state: {
      deadlineMs: server.redis.deadlineMs,
      async ask(...question) {
        if (own !== undefined) return own.state.ask(...question)
        if (mode === 'keeping' || mode === 'ending')
          throw new SluiceError('STATE_UNAVAILABLE', 'This gateway begins or ends to keep the limits.', {
            retryAfterMs: 1_000,
          })
        return server.redis.ask(...question)
      },
      expect(newest) {
        // A process of an earlier version may have registered a server without asking who keeps the limits.
        if (own !== undefined && [...newest.values()].some((number) => number > own!.number)) drop()
        return server.redis.expect(newest)
      },
      close() {
        own?.state.close()
        server.redis.close()
      },
    },
    keeper: () => keptBy,
    isAway: () => mode !== 'served',
    listen(listener) {
      listeners.add(listener)
    },
    async stop() {
      isStopped = true
      clearInterval(timer)
      await looking
      if (mode !== 'keeping' && mode !== 'ending') return
      drop()
      await oneByOne(keeping.stepDown).catch((error: unknown) => onError('keep the limits no longer', error))
    },
  }
}
