/** Opens the engines of a fleet for one process of a run, each at the end of a wire of its own. */
// The composition loads these when it needs them, which takes real time and no virtual one: here they are loaded before.
import '../../src/adapters/state/redis/redis-account-slots.ts'
import '../../src/adapters/state/redis/redis-connections.ts'
import '../../src/adapters/state/redis/redis-limits.ts'
import '../../src/adapters/state/redis/redis-notifier.ts'
import '../../src/adapters/state/redis/redis-once.ts'
import '../../src/adapters/state/redis/redis-peers.ts'
import '../../src/adapters/state/redis/redis-tenant-rate.ts'
import '../../src/adapters/state/redis/redis-room.ts'
import '../../src/adapters/state/redis/redis-throttle.ts'
import type { RedisBus } from '../../src/adapters/state/redis/redis-bus.ts'
import type { Fleet } from '../../src/composition/fleet-parts.ts'
import { composeFleet } from '../../src/composition/fleet-state.ts'
import type { RuntimeContext } from '../../src/composition/runtime-context.ts'
import { channelsOf } from '../../src/config/pools.ts'
import type { RightRequest } from '../../src/ports.ts'
import { type MemberRecord, openMembers } from '../../src/store/postgres/fleet/members.ts'
import { createRegistrations } from '../../src/store/postgres/fleet/registrations.ts'
import type { Faults, PortTerms } from './faults.ts'
import type { SimProcess } from './process.ts'
import { rightMs, type SimFleetRecord } from './sim-fleet-record.ts'
import type { SimServer } from './sim-server.ts'
import { type WireOptions, wired } from './wires.ts'

/** Every statement may be delayed, refused, or performed without an answer. */
const recordTerms: PortTerms = {
  usualMs: 2,
  requestMsMax: 3_000,
  answerMsMax: 3_000,
  mayBeRefused: true,
  mayBeLost: true,
}
/** Questions that run beside the writes, on connections of their own. */
const beside = new Set([
  'notification',
  'list',
  'deadLetters',
  'jobWork',
  'jobMembers',
  'content',
  'counted',
  'admissions',
])
const code = 'STORE_UNAVAILABLE'

export interface FleetProcessOptions {
  readonly process: SimProcess
  readonly faults: Faults
  readonly record: SimFleetRecord
  readonly server: SimServer
  readonly bus: SimBus
  /** Called when the process asks for rights to send, with the time until it has them. */
  readonly onBegin: (requests: readonly RightRequest[], tookMs: number) => void
  /** The time for which a lock at the record holds a call of a wire up, ms. */
  readonly lockedMs: (call: string) => number
}

export async function openFleetProcess(
  { process, faults, record, server, bus, onBegin, lockedMs }: FleetProcessOptions,
  context: Pick<RuntimeContext, 'clock' | 'config' | 'errorsOf' | 'policy'>,
): Promise<Fleet> {
  const member = `m${process.number}`
  const own = record.join(process.number, channelsOf(context.config.pools))
  const wire = <Port extends object>(
    name: string,
    port: Port,
    more: Partial<Pick<WireOptions<Port>, 'isInOrder' | 'direct' | 'onSent'>> = {},
  ): Port =>
    wired({
      name,
      process,
      faults,
      port,
      terms: recordTerms,
      code,
      direct: [],
      lockedMs: (method) => lockedMs(`${name}.${method}`),
      ...more,
    })
  const store = wire('store', own.store, {
    direct: ['mayHave', 'claimedUntil', 'close'],
    isInOrder: (method) => !beside.has(method),
    onSent(method, { requestMs, answerMs, failure }, [requests]) {
      if (method !== 'begin' || failure !== undefined) return
      onBegin(requests as readonly RightRequest[], requestMs + answerMs)
    },
  })
  const connection = wire('members', own.members, { isInOrder: () => true })
  const onError = context.errorsOf('store')
  const members = await openMembers({
    member,
    policy: () => context.policy.part.version,
    clock: process.clock,
    onDeclaredDead: () => process.end('kill', 'it was declared dead'),
    onError,
    connect: async () => connectionOf(connection),
  })
  const registrations = createRegistrations(wire('registrations', own.registrations), rightMs)
  return composeFleet(
    {
      store: { ...plain(own.store, store) },
      members,
      registrations,
      records: wire('records', own.records),
      redis: server.connect(process, faults, registrations),
      bus: bus.connect(process),
      health: { counts: () => [] as never, noteError() {} },
    },
    context,
  )
}

/** Copies the methods of a wire to an object: the composition replaces some of them. */
function plain<Port extends object>(names: Port, wire: Port): Port {
  return Object.fromEntries(Object.keys(names).map((name) => [name, Reflect.get(wire, name)])) as Port
}

/** A connection to the members that is lost with the first error. */
function connectionOf(port: Omit<MemberRecord, 'isOpen' | 'close'>): MemberRecord {
  let isOpen = true
  const until =
    <Args extends readonly unknown[], T>(method: (...args: Args) => Promise<T>) =>
    async (...args: Args): Promise<T> => {
      try {
        return await method(...args)
      } catch (error) {
        isOpen = false
        throw error
      }
    }
  return {
    get isOpen() {
      return isOpen
    },
    beat: until(port.beat),
    declareDead: until(port.declareDead),
    settle: until(port.settle),
    leave: until(port.leave),
    async close() {
      isOpen = false
    },
  }
}

/** Texts between the processes: they get lost, come late, and overtake each other. */
export interface SimBus {
  connect(process: SimProcess): RedisBus
}

const textMsMax = 2_000

export function createSimBus(faults: Faults): SimBus {
  const all = new Map<SimProcess, Map<string, Set<(text: string) => void>>>()
  return {
    connect(process) {
      const { world } = process
      const own = new Map<string, Set<(text: string) => void>>()
      all.set(process, own)
      process.onDeath(() => all.delete(process))
      let published = 0
      return {
        isReady: () => true,
        publish(channel, text) {
          published += 1
          for (const [other, subscriptions] of all) {
            const key = `${process.number} text ${published} to ${other.number}`
            if (faults.isDisturbed() && world.draw(`${key} lost`) < 0.3) continue
            const tookMs = faults.isDisturbed() ? Math.floor(world.draw(`${key} took`) ** 2 * textMsMax) : 1
            world.at(world.now() + tookMs, () =>
              other.run(() => {
                for (const hear of subscriptions.get(channel) ?? []) hear(text)
              }),
            )
          }
        },
        async subscribe(channel, hear) {
          const heard = own.get(channel) ?? new Set()
          own.set(channel, heard.add(hear))
        },
        close: () => void all.delete(process),
      }
    },
  }
}
