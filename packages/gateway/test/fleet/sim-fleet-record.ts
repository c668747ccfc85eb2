/**
 * The record that the processes of a run share: a record in memory (store/memory), with what PostgreSQL knows of members,
 * their roles and the servers of limits. It outlives them all.
 */
import { SluiceError } from '../../src/errors.ts'
import type { Channel } from '../../src/model.ts'
import type { Role } from '../../src/ports/fleet.ts'
import type { TenantRecords } from '../../src/ports/tenants.ts'
import type { GivenRights, Store } from '../../src/ports.ts'
import { createMemoryRecord } from '../../src/store/memory/memory.ts'
import type { BeatAnswer, MemberRecord } from '../../src/store/postgres/fleet/members.ts'
import type { RegistrationRecord } from '../../src/store/postgres/fleet/registrations.ts'
import { copyOf } from './copy.ts'
import type { SimRecord } from './sim-record.ts'
import type { World } from './world.ts'

/** How long a right to send lasts, ms. */
export const rightMs = 250

/** The ports of the record for one process. */
interface ProcessRecord {
  readonly store: Store
  readonly members: Omit<MemberRecord, 'isOpen' | 'close'>
  readonly registrations: RegistrationRecord
  readonly records: TenantRecords
}

export interface SimFleetRecord extends Pick<SimRecord, 'observers' | 'timeLine'> {
  /** Registers a process, whose number no other one has or has had. */
  join(process: number, channels: readonly Channel[]): ProcessRecord
  /** Calls back with the number of each process that is declared dead. */
  onDeclaredDead(hear: (process: number) => void): void
  /** Calls back with each process that is given rights to send. */
  onRights(hear: (process: number) => void): void
  /** Restarts the engine after a crash: it is away for so long, and claims that were not flushed are lost. */
  crash(downMs: number): void
  /** Returns the erasures that were begun and are not complete. */
  erasures: Store['erasures']
}

interface Member {
  readonly process: number
  readonly channels: readonly Channel[]
  beat: number
  /** 1 alive, 2 leaving, 3 dead, 4 ended. */
  state: 1 | 2 | 3 | 4
  /** Versions as of its last beat. */
  policies: readonly string[]
}

const writes: ReadonlySet<string> = new Set(['commit', 'beginErasure', 'erase', 'prune'])

export function createSimFleetRecord(world: World): SimFleetRecord {
  const record = createMemoryRecord(rightMs)
  const observers: SimRecord['observers'] = new Set()
  const members = new Map<string, Member>()
  const mourners = new Set<(process: number) => void>()
  const rightsHeard = new Set<(process: number) => void>()
  const holders = new Map<Role, string>()
  /** How often members have left each policy. */
  const departures = new Map<string, number>()
  const servers = new Map<string, { life: string; number: number; isSettled: boolean }>()
  let registrations = 0
  let awayUntil = 0

  const mustAnswer = (): void => {
    if (world.now() < awayUntil) throw new SluiceError('STORE_UNAVAILABLE', 'The server is away.')
  }
  const isAlive = (member: string | undefined): boolean => members.get(member ?? '')?.state === 1
  const newest = (): ReadonlyMap<string, number> =>
    new Map(Array.from(servers, ([node, { number }]) => [node, number]))

  function noteDepartures(left: readonly string[]): void {
    for (const policy of left) departures.set(policy, (departures.get(policy) ?? 0) + 1)
  }

  function beat(member: string, wanted: readonly Role[], policies: readonly string[]): BeatAnswer {
    const own = members.get(member)!
    const living = own.state === 1
    if (living) {
      own.beat += 1
      noteDepartures(own.policies.filter((policy) => !policies.includes(policy)))
      own.policies = policies
    }
    for (const role of living ? wanted : []) if (!isAlive(holders.get(role))) holders.set(role, member)
    return {
      living,
      roles: [...holders].filter(([, holder]) => holder === member).map(([role]) => role),
      members: [...members]
        .filter(([id, { state }]) => id !== member && state !== 4)
        .map(([id, { beat: last, state, channels }]) => ({
          id,
          beat: last,
          state: state as 1 | 2 | 3,
          channels,
        })),
      policiesLeft: [...departures].filter(([policy]) => policy !== policies[0]).join(),
    }
  }

  function declareDead(id: string, seen: number): boolean {
    const member = members.get(id)
    if (member === undefined || member.beat !== seen || member.state > 2) return false
    world.trace({ kind: 'declared dead', member: id })
    member.state = 3
    noteDepartures(member.policies)
    record.declareDead(id)
    for (const mourner of mourners) mourner(member.process)
    return true
  }

  /** The store of a process as a plain object, as that of PostgreSQL is. */
  function storeOf(member: string): Store {
    const inner = record.open(member)
    const names = new Set<string>()
    for (
      let of: object | null = inner;
      of !== null && of !== Object.prototype;
      of = Object.getPrototypeOf(of)
    )
      for (const name of Object.getOwnPropertyNames(of)) names.add(name)
    names.delete('constructor')
    const store: Record<string, unknown> = {}
    for (const name of names) {
      const value = Reflect.get(inner, name) as unknown
      store[name] =
        typeof value === 'function' ? methodOf(name, value as Method, members.get(member)!.process) : value
    }
    store.close = async (isSettled = true) => {
      await inner.close(isSettled)
      const own = members.get(member)!
      if (own.state < 3) noteDepartures(own.policies)
      own.state = isSettled ? 4 : 3
    }
    return store as never as Store
  }

  type Method = (...args: unknown[]) => unknown

  function methodOf(name: string, method: Method, process: number): Method {
    if (name === 'mayHave' || name === 'claimedUntil') return method
    return (...args) => {
      mustAnswer()
      // It takes effect within the call, so nothing comes between it and its note.
      const result = Promise.resolve(method(...args))
      return result.then((value) => {
        const isRefused = (value as { applied?: boolean } | undefined)?.applied === false
        if (writes.has(name) && !isRefused)
          for (const observer of observers) observer({ method: name as 'commit', args, process })
        if (name === 'begin') {
          const given = value as GivenRights
          if ((args[0] as readonly unknown[]).length > given.refused.size)
            for (const hear of rightsHeard) hear(process)
          return { ...given, servers: newest() }
        }
        // The answer of an engine across a network shares no object with it.
        return copyOf(value)
      })
    }
  }

  return {
    observers,
    timeLine: undefined,
    erasures: () => record.open('oracle').erasures(),
    onDeclaredDead: (hear) => void mourners.add(hear),
    onRights: (hear) => void rightsHeard.add(hear),
    join(process, channels) {
      const member = `m${process}`
      members.set(member, { process, channels, beat: 0, state: 1, policies: [] })
      const answering =
        <Args extends readonly unknown[], T>(work: (...args: Args) => T) =>
        async (...args: Args): Promise<T> => {
          mustAnswer()
          return work(...args)
        }
      return {
        store: storeOf(member),
        members: {
          beat: answering(beat),
          declareDead: answering(declareDead),
          settle: answering((id: string) => {
            if (record.settleDead(id)) members.get(id)!.state = 4
          }),
          leave: answering((id: string) => {
            const own = members.get(id)!
            if (own.state === 1) own.state = 2
          }),
        },
        registrations: {
          newest: answering(newest),
          renumber: answering(() => {
            for (const [node, { isSettled }] of servers) {
              if (!isSettled) continue
              registrations += 1
              servers.set(node, { life: 'renumbered', number: registrations, isSettled: false })
            }
          }),
          register: answering(({ node, runId, replicationId }) => {
            const life = `${runId} ${replicationId}`
            const known = servers.get(node)
            if (known?.life === life) return known
            registrations += 1
            const made = { life, number: registrations, isSettled: false }
            servers.set(node, made)
            return made
          }),
          settle: answering((number: number) => {
            for (const known of servers.values()) if (known.number === number) known.isSettled = true
          }),
        },
        records: Object.fromEntries(
          Object.entries(record.records).map(([name, method]) => [
            name,
            methodOf(name, method as Method, process),
          ]),
        ) as never as TenantRecords,
      }
    },
    crash(downMs) {
      world.trace({ kind: 'record crashes', downMs })
      awayUntil = world.now() + downMs
      record.crash()
    },
  }
}
