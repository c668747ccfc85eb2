/**
 * The room of tenants over all processes, in Redis. Each process writes what it uses itself, in absolute numbers, whenever it
 * asks for room, and within a second after another change; the script adds the uses of all processes to a request. One
 * question of a tenant is under way at a time: requests that come meanwhile go together in the next one. Where single
 * notifications come one after the other, a question also takes as many places ahead as came lately, for a moment: they
 * are counted as used, so no bound is exceeded, and nobody has any above half a bound.
 */

import { isStateAway } from '../../../errors.ts'
import type { Occupancy, Room, RoomState, RoomTaken } from '../../../ports/tenants.ts'
import type { Clock } from '../../../ports.ts'
import { fullBound } from '../memory-room.ts'
import type { Reply } from './redis-answers.ts'
import type { RedisState } from './redis-state.ts'
import { roomScript } from './scripts.ts'
import {
  type Ahead,
  aheadGivenBackMs,
  aheadOf,
  fitsWithoutAhead,
  isSingle,
  loseAhead,
  newTenant,
  nothing,
  occupancyOf,
  type RoomRequest,
  type Tenant,
  type Use,
  useOf,
} from './tenant-room.ts'
import { createTenantValue } from './tenant-value.ts'

/** The record of the store from which a lost room is filled. */
export interface RoomRecord {
  /** Gives the room of a tenant its next generation; changes decided under an earlier one are refused from now on. */
  nextRoomGeneration(tenant: string): Promise<number>
  /** Reads what each member has on record. */
  tallies(tenant: string): Promise<readonly (Occupancy & { readonly member: string })[]>
}

export interface RedisRoomOptions {
  readonly redis: RedisState
  readonly record: RoomRecord
  readonly clock: Pick<Clock, 'monotonic'>
  /** The name of this process, as no other process has it. */
  readonly member: string
  /** The name of the room behind the tenant in the key. @defaultValue 'room' */
  readonly name?: string | undefined
  /** False where nothing is on record that a killed process may not have told. @defaultValue true */
  readonly isFilledAtFirst?: boolean
  readonly onError?: ((error: unknown) => void) | undefined
}

export interface RedisRoom extends RoomState {
  /** Returns what this process alone uses, with what it is asking for. */
  own(tenant: string): Occupancy
  /** Returns what this process alone uses, without what it is asking for. */
  taken(tenant: string): Occupancy
  /** Takes the room from processes that have gone: each tenant's is filled anew when it is asked for next. */
  noteGone(members: readonly string[]): void
  /** Hears the newest generation of a tenant's room on record. A room of an earlier one is filled anew. */
  expect(tenant: string, generation: number): void
  /** Tells the last changes, and then nothing any more. */
  close(): Promise<void>
}

const bounds = ['queue', 'waiting', 'bytes'] as const
/** A change without a request is told so late at most, ms. */
const tellMs = 1_000
/** The name under which the record counts for all processes that have gone. */
const goneMember = '0'
/** The most processes that have gone, the last ones, that are looked for in the room of each tenant. */
const goneMax = 16
/** The most requests in one question. */
const togetherMax = 256

export function createRedisRoom(options: RedisRoomOptions): RedisRoom {
  const { redis, record, clock, member, name: roomName = 'room', isFilledAtFirst = true, onError } = options
  /** Tenants of which something waits, here or at the last answer elsewhere. */
  const tenants = new Map<string, Tenant>()
  const gone = new Set<string>()
  const value = createTenantValue({
    redis,
    clock,
    script: roomScript,
    name: roomName,
    onError,
    async read(tenant) {
      const g = await record.nextRoomGeneration(tenant)
      const tallies = await record.tallies(tenant)
      const uses = new Map<string, Use>()
      for (const each of tallies) {
        const name = gone.has(each.member) ? goneMember : each.member
        const use = uses.get(name) ?? { ...nothing }
        for (const bound of bounds) use[bound] += each[bound]
        uses.set(name, use)
      }
      const w = Array.from(uses, ([name, { queue, waiting, bytes }]) => [name, queue, waiting, bytes])
      return [JSON.stringify({ g, m: member, w, d: [...gone] })]
    },
  })
  let words = 0
  let isClosed = false

  function tenantOf(name: string): Tenant {
    const tenant = tenants.get(name) ?? newTenant()
    tenants.set(name, tenant)
    return tenant
  }

  function add(tenant: Tenant, by: Partial<Occupancy>, sign: 1 | -1): void {
    for (const bound of bounds) tenant.own[bound] += sign * (by[bound] ?? 0)
  }

  function takenOf(tenant: Tenant, room: Room, generation?: number): RoomTaken {
    const use = useOf(room)
    add(tenant, use, 1)
    tenant.taken += 1
    let isGiven = false
    return {
      ...(generation === undefined ? {} : { generation }),
      giveBack() {
        if (isGiven) return
        isGiven = true
        add(tenant, use, -1)
        tenant.taken -= 1
        tenant.hasChanged = true
      },
    }
  }

  /** Asks for all that waits of a tenant, until nothing does. */
  async function ask(name: string, tenant: Tenant): Promise<void> {
    tenant.isAsking = true
    do {
      const requests = tenant.waiting.splice(0, togetherMax)
      tenant.asked = requests
      words += 1
      const { own } = tenant
      const ahead = aheadOf(tenant, clock.monotonic())
      Object.assign(tenant, { ahead: undefined, singles: 0, singleBytes: 0, askedAt: clock.monotonic() })
      tenant.hasChanged = false
      const payload = JSON.stringify({
        m: member,
        s: words,
        o: [own.queue, own.waiting, own.bytes],
        b: [tenant.bounds.queueMax, tenant.bounds.waitingMax, tenant.bounds.bytesMax],
        d: [...gone],
        r: requests.map(({ room }) => [room.queue, room.critical, room.waiting, room.bytes ?? 0]),
        a: [ahead.queue, ahead.bytes],
        n: isFilledAtFirst && !tenant.isMet ? 1 : undefined,
      })
      try {
        const { generation, rest } = await value.ask(name, 'take', payload)
        tenant.isMet = true
        const [others, answers, hasAhead] = rest as readonly [readonly Reply[], readonly Reply[], Reply]
        const [aheadQueue, aheadBytes] = [Number(others[3]), Number(others[4])]
        tenant.others = {
          queue: Number(others[0]) - aheadQueue,
          waiting: Number(others[1]),
          bytes: Number(others[2]) - aheadBytes,
        }
        if (hasAhead === 1) keepAhead(name, tenant, { ...ahead, generation })
        for (const [index, request] of requests.entries()) {
          const full = bounds[Number(answers[2 * index]) - 1]
          if (full === undefined) request.resolve(takenOf(tenant, request.room, generation))
          else if (aheadQueue > 0 && fitsWithoutAhead(tenant, request)) askLater(name, tenant, request)
          else request.resolve({ full, used: Number(answers[2 * index + 1]) })
        }
      } catch (error) {
        // The room may have been taken there: the next word says what is used.
        tenant.hasChanged = true
        if (isStateAway(error)) await takeByRecord(name, tenant, requests)
        else for (const { reject } of requests) reject(error)
        if (requests.length === 0) onError?.(error)
      }
      tenant.asked = []
    } while (tenant.waiting.length > 0)
    tenant.isAsking = false
  }

  /** Keeps places ahead until they are taken, or their time is over. */
  function keepAhead(name: string, tenant: Tenant, ahead: Ahead): void {
    tenant.ahead = ahead
    const giveBack = (): void => {
      if (tenant.ahead !== ahead || isClosed) return
      tenant.ahead = undefined
      if (ahead.queue === 0) return
      tenant.hasChanged = true
      if (!tenant.isAsking) void ask(name, tenant)
    }
    // An answer may come when their time is over.
    setTimeout(giveBack, Math.max(0, ahead.endsAt - clock.monotonic())).unref()
  }

  /** Takes a place of those that this process has ahead. */
  function takeAhead(tenant: Tenant, room: Room): RoomTaken | undefined {
    const { ahead } = tenant
    const { bytes = 0 } = room
    if (ahead === undefined || ahead.queue === 0 || ahead.bytes < bytes || clock.monotonic() >= ahead.endsAt)
      return
    ahead.queue -= 1
    ahead.bytes -= bytes
    return takenOf(tenant, room, ahead.generation)
  }

  function askLater(name: string, tenant: Tenant, request: RoomRequest): void {
    request.tries += 1
    setTimeout(() => {
      const present = tenantOf(name)
      present.bounds = tenant.bounds
      present.waiting.unshift(request)
      if (!present.isAsking) void ask(name, present)
    }, aheadGivenBackMs)
  }

  /**
   * Takes room where the server does not answer: beside what all processes have on record, so no process takes any while
   * that is at its bound. Each process may take what is left of it at that moment. The record may answer late. What has
   * ended here since it was read leaves no room, for another process may have taken it: this process counts as it does on
   * record, or as it does here with the room that it has taken, whichever is more.
   */
  async function takeByRecord(name: string, tenant: Tenant, requests: readonly RoomRequest[]): Promise<void> {
    if (requests.length === 0) return
    try {
      const tallies = await record.tallies(name)
      const [own, others]: [Use, Use] = [{ ...nothing }, { ...nothing }]
      for (const tally of tallies) {
        const use = tally.member === member ? own : others
        for (const bound of bounds) use[bound] += tally[bound]
      }
      tenant.others = others
      for (const { room, resolve } of requests) {
        const used: Use = { ...nothing }
        for (const bound of bounds) used[bound] = others[bound] + Math.max(own[bound], tenant.own[bound])
        const full = fullBound(used, room, tenant.bounds)
        if (full === undefined) resolve(takenOf(tenant, room))
        else resolve({ full, used: used[full] })
      }
    } catch (error) {
      for (const { reject } of requests) reject(error)
    }
  }

  async function tell(): Promise<void> {
    await Promise.all(
      Array.from(tenants, async ([name, tenant]) => {
        if (tenant.isAsking) return
        if (tenant.hasChanged) await ask(name, tenant)
        const { queue, waiting, bytes } = tenant.own
        const isBusy = tenant.isAsking || tenant.hasChanged || tenant.taken > 0 || tenant.ahead !== undefined
        if (!isBusy && queue === 0 && waiting === 0 && bytes === 0) tenants.delete(name)
      }),
    )
  }

  const telling = setInterval(() => void tell(), tellMs)
  telling.unref()

  return {
    isShared: true,
    count(name, by) {
      const tenant = tenantOf(name)
      add(tenant, by, 1)
      tenant.hasChanged = true
    },
    take(name, room, given) {
      const tenant = tenantOf(name)
      tenant.bounds = given
      if (isSingle(room)) {
        tenant.singles += 1
        tenant.singleBytes = Math.max(tenant.singleBytes, room.bytes ?? 0)
        const taken = takeAhead(tenant, room)
        if (taken !== undefined) return taken
      }
      return new Promise<RoomTaken>((resolve, reject) => {
        tenant.waiting.push({ room, tries: 0, resolve, reject })
        if (!tenant.isAsking) void ask(name, tenant)
      })
    },
    of(name) {
      const tenant = tenants.get(name)
      return tenant === undefined ? nothing : occupancyOf(tenant)
    },
    own(name) {
      const tenant = tenants.get(name)
      if (tenant === undefined) return nothing
      const own = { ...tenant.own }
      for (const { room } of [...tenant.asked, ...tenant.waiting]) {
        const use = useOf(room)
        for (const bound of bounds) own[bound] += use[bound]
      }
      return own
    },
    taken: (name) => ({ ...(tenants.get(name)?.own ?? nothing) }),
    noteGone(members) {
      for (const id of members) gone.add(id)
      for (const id of gone) if (gone.size > goneMax) gone.delete(id)
      for (const tenant of tenants.values()) loseAhead(tenant)
    },
    expect(name, generation) {
      const tenant = tenants.get(name)
      if (tenant?.ahead !== undefined && tenant.ahead.generation < generation) loseAhead(tenant)
      value.expect(name, generation)
    },
    async close() {
      clearInterval(telling)
      isClosed = true
      await tell()
    },
  }
}
