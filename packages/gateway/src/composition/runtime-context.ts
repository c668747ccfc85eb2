/**
 * The context that every part of the gateway is given: configuration, clock, randomness, logger and error
 * report.
 */
import { createSystemClock } from '../adapters/clock.ts'
import { createLocalHints, createOneMember } from '../adapters/one-process.ts'
import { createRandom } from '../adapters/random.ts'
import type { Config } from '../config/config.ts'
import type { PoolOptions } from '../delivery/pools/pool.ts'
import { createLog, type OperatorLog } from '../log.ts'
import { createNameRecipient, maskText, type NameRecipient } from '../observability/masking.ts'
import { createStoreOutage, type StoreOutage } from '../observability/store-outage.ts'
import { createLivePolicy, type LivePolicy } from '../policy/live-policy.ts'
import type { Members, Notifier } from '../ports/fleet.ts'
import type { Registrations } from '../ports/limiter.ts'
import type { RoomState, ThrottleState } from '../ports/tenants.ts'
import type { Clock, LimitState, Provider, Queue, Random, Store, Templates } from '../ports.ts'
import type { SandboxOptions } from '../providers/sandbox/adapter.ts'
import { createMemoryStore } from '../store/memory/memory.ts'
import type { Fleet, OpenedRedis, SharedState } from './fleet-parts.ts'
import type { SecretKeys } from './secret-keys.ts'

/** Parts that the simulator and tests replace. */
export interface GatewayParts {
  readonly clock?: Clock
  readonly random?: Random
  readonly store?: Store
  /** @defaultValue this process alone */
  readonly members?: Members
  /** @defaultValue this process alone */
  readonly notifier?: Notifier
  /** Opens the engines of a fleet in the place of those of the configuration. @defaultValue `openFleet` */
  readonly openFleet?: (
    context: Pick<RuntimeContext, 'config' | 'clock' | 'errorsOf' | 'log' | 'policy'>,
  ) => Promise<Fleet>
  /**
   * Opens the server of the limits of a gateway that has its record for itself. @defaultValue that of the configuration,
   * beside a file
   */
  readonly openLimitServer?: (registrations: Registrations) => OpenedRedis
  readonly providers?: readonly Provider[]
  readonly templates?: Templates
  /** Subjects that the limiter's state keeps in full: `MemoryStateOptions.subjectsMax`. @defaultValue 25_000 */
  readonly subjectsMax?: number
  /** Rows of the record that the limiter's state reads at once: `LimiterRecoveryOptions.pageRows`. @defaultValue 1_000 */
  readonly recoveryRows?: number
  /** Makes the state of recipients' limits. @defaultValue in Redis with others, else in memory */
  readonly limitsOf?: SharedState['limits']
  /** Stands between the gateway and its limiter state. */
  readonly wrapState?: (state: LimitState) => LimitState
  /** Stands between the gateway and the state of its tenants' limits. */
  readonly wrapThrottle?: (state: ThrottleState) => ThrottleState
  /** Stands between the gateway and the room of its tenants. */
  readonly wrapRoom?: (state: RoomState) => RoomState
  /** Makes the state of an account. @defaultValue one that knows the calls of this process only */
  readonly accountStateOf?: PoolOptions['stateOf']
  /** Stands between the gateway and its queue. */
  readonly wrapQueue?: (queue: Queue) => Queue
  /**
   * True leaves out metrics and lines of the log from then on: the benchmark of their cost compares both within one
   * process. @defaultValue always false
   */
  readonly unobserved?: () => boolean
  /** Called when the other gateways have declared this one dead: it is to end. @defaultValue nothing */
  readonly onDeclaredDead?: () => void
  /** Time between two beats of a gateway that has a record with others, ms. @defaultValue 2000 */
  readonly beatMs?: number
  /** Starts although the store misses commits that were acknowledged. @defaultValue false */
  readonly acceptLoss?: boolean
  /** Hooks of the sandbox beside the behaviour of its accounts. */
  readonly sandbox?: Pick<SandboxOptions, 'phases' | 'script'>
}

/** Seeded randomness and a store without a disk: with a virtual clock, all that a simulation needs. */
export function virtualParts(chance: () => number): Pick<GatewayParts, 'random' | 'store'> {
  return { random: createRandom(chance), store: createMemoryStore() }
}

export interface RuntimeContext {
  /** The configuration of the start; of its policy the version at the start. */
  readonly config: Config
  /** The policy in force. */
  readonly policy: LivePolicy
  readonly parts: GatewayParts
  readonly clock: Clock
  readonly random: Random
  readonly members: Members
  readonly notifier: Notifier
  /** Absent where this process has its record for itself. */
  readonly fleet?: Fleet
  readonly log: OperatorLog
  /** Names a recipient in a line of the log. */
  readonly nameRecipient: NameRecipient
  /** Errors, by the part of the gateway that met them. */
  readonly errorCounts: ReadonlyMap<string, number>
  /** Watches a store that is a server; what its absence makes is not told beside it. */
  readonly storeOutage: StoreOutage
  /** Returns the error report of one part of the gateway. */
  readonly errorsOf: (component: Component) => (what: string, error: unknown) => void
}

/** A part of the gateway that reports errors of its own. */
const components = ['gateway', 'http', 'intake', 'admission', 'delivery', 'store'] as const
type Component = (typeof components)[number]

export function runtimeContextOf(config: Config, parts: GatewayParts, keys: SecretKeys): RuntimeContext {
  const log = createLog(config.log)
  const errorCounts = new Map<string, number>(components.map((component) => [component, 0]))
  const { clock = createSystemClock(), random = createRandom() } = parts
  const storeOutage = createStoreOutage({ clock, log })
  return {
    config,
    policy: createLivePolicy(config.policy.compiled),
    parts,
    clock,
    random,
    members: parts.members ?? createOneMember(random, clock),
    notifier: parts.notifier ?? createLocalHints().join(),
    log,
    nameRecipient: createNameRecipient(config.log.recipient ?? 'hash', () => keys('log')),
    errorCounts,
    storeOutage,
    errorsOf: (component) => (what, error) => {
      errorCounts.set(component, errorCounts.get(component)! + 1)
      if (!storeOutage.covers(error))
        log.error({ event: 'gateway.error', component, what: maskText(what), err: error })
    },
  }
}
