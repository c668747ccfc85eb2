/**
 * The processes of a fleet that share one record in memory: which of them holds a notification, which has the right to
 * send it, which are dead, and the versions of recipients. It is the model by which the simulator and the conformance
 * suite know what an engine of several processes must do.
 *
 *     free ── claim, write, begin ──► held ── begin ──► right ── move, takeover ──► held or free
 *       ▲                              │
 *       └──── release, move to later ──┘
 */
import { SluiceError } from '../../errors.ts'
import type { Channel, Notification, Recipient } from '../../model.ts'
import type { Occupancy } from '../../ports/tenants.ts'
import type {
  Change,
  Conflict,
  GivenRights,
  HeldName,
  RightRequest,
  StoredRecipient,
  TenantGeneration,
} from '../../ports.ts'
import type { FindWritten } from '../commit-lookup.ts'
import { versionAsRead } from '../recipient-version.ts'
import { keyOf } from './memory-keys.ts'
import { sameVersion } from './memory-rows.ts'

/** One process, from its start to its death or its end. */
export interface MemoryMember {
  readonly id: string
  /** Its own `claimedUntil`, epoch ms. */
  claimedUntil: number
  /** A dead one is settled once nothing is held by it. The record takes nothing from either. */
  state: 'alive' | 'dead' | 'settled'
  /** The templates that it has told; absent: it may have any. */
  templates?: ReadonlySet<string>
}

/** Tells which notifications a claim passes over: of these channels, and rendered with these templates as they have no text. */
export function passedBy(
  channels: readonly Channel[],
  missing: readonly string[],
  hasText: (row: Notification) => boolean,
): (row: Notification) => boolean {
  const [ofChannels, ofTemplates] = [new Set(channels), new Set(missing)]
  return (row) =>
    ofChannels.has(row.channel) || (ofTemplates.has(`${row.template}/${row.channel}`) && !hasText(row))
}

type Name = Pick<HeldName, 'tenant' | 'id'>

/** Looks up what is on record now. */
export interface MemoryLookup {
  notification(of: Name): Notification | undefined
  recipient(tenant: string, id: string): StoredRecipient | undefined
  /** Changes with each write of a hold. */
  markOfHolds(): string
}

/** The name under which all processes count that have gone. */
const goneMember = '0'

export class MemoryFleet {
  /** How long a right to send lasts, ms. */
  readonly rightMs: number
  /** The process whose call is performed now. */
  caller: MemoryMember = { id: '', claimedUntil: Number.NEGATIVE_INFINITY, state: 'settled' }
  readonly #lookup: MemoryLookup
  /** Holders by the id of the notification; a free one has none. */
  readonly #holders = new Map<string, { readonly member: MemoryMember; readonly name: Name }>()
  /** The marks of the rights to send of holders, by the id of the notification. */
  readonly #rights = new Map<string, number>()
  /** Who has written the version of a notification that is on record, by its id. */
  readonly #writers = new Map<string, MemoryMember>()
  /** Ids of claims that a crash of the engine would lose: nothing was written synchronously since. */
  readonly #unflushed = new Set<string>()
  /** The use of the bounds of each tenant by each process: notifications that it has put on record, less those that it ended. */
  readonly #uses = new Map<string, Map<string, Occupancy>>()
  /** The newest generation of each value of limiter state: two a tenant at most. */
  readonly #generations = new Map<string, number>()
  #version = 0
  /** Rights that were given. */
  #begun = 0

  constructor(options: { readonly rightMs: number; readonly lookup: MemoryLookup }) {
    this.rightMs = options.rightMs
    this.#lookup = options.lookup
  }

  isFree({ id }: Pick<Notification, 'id'>): boolean {
    return !this.#holders.has(id)
  }

  /** Gives notifications to the caller. */
  hold(notifications: readonly Name[]): void {
    for (const { tenant, id } of notifications)
      this.#holders.set(id, { member: this.caller, name: { tenant, id } })
  }

  /** Gives what is due to the caller, whose claims are written in the background. */
  claim(notifications: readonly Name[]): void {
    this.hold(notifications)
    for (const { id } of notifications) this.#unflushed.add(id)
  }

  /** Notes that the engine has written all claims so far: its log is in order. */
  flush(): void {
    this.#unflushed.clear()
  }

  /** Returns the claims that a crash of the engine loses, by their holders. */
  unflushed(): readonly { readonly member: MemoryMember; readonly name: Name }[] {
    return [...this.#unflushed].map((id) => this.#holders.get(id)).filter((held) => held !== undefined)
  }

  /** Counts what the caller has put on record of a tenant, or taken off it. */
  count(tenant: string, by: Occupancy): void {
    this.#add(tenant, this.caller.id, by)
  }

  #add(tenant: string, member: string, { queue, waiting, bytes }: Occupancy): void {
    const uses = this.#uses.get(tenant) ?? new Map<string, Occupancy>()
    this.#uses.set(tenant, uses)
    const use = uses.get(member) ?? { queue: 0, waiting: 0, bytes: 0 }
    uses.set(member, {
      queue: use.queue + queue,
      waiting: use.waiting + waiting,
      bytes: use.bytes + bytes,
    })
  }

  /** Returns what each process has on record of a tenant. */
  usesOf(tenant: string): readonly (Occupancy & { readonly member: string })[] {
    return Array.from(this.#uses.get(tenant) ?? [], ([member, use]) => ({ member, ...use }))
  }

  /** Counts what a dead process has on record under one name for all of them, once nothing is held by it. */
  settleDead(member: MemoryMember): boolean {
    if (member.state !== 'dead' || this.#held((holder) => holder === member).length > 0) return false
    for (const [tenant, uses] of this.#uses) {
      const use = uses.get(member.id)
      if (use === undefined) continue
      uses.delete(member.id)
      this.#add(tenant, goneMember, use)
    }
    member.state = 'settled'
    return true
  }

  /** Ends the holding, and the right to send if there is one: the notification is free, or has ended. */
  free({ id }: Pick<Notification, 'id'>): void {
    this.#holders.delete(id)
    this.#rights.delete(id)
  }

  /** Notes that the caller has written a version: the right to send the one before has ended. */
  wrote({ id }: Pick<Notification, 'id'>): void {
    this.#rights.delete(id)
    this.#writers.set(id, this.caller)
  }

  /** Reads a notification with its writer. */
  readonly written: FindWritten = async (tenant, id) => {
    const notification = this.#lookup.notification({ tenant, id })
    return notification && { notification, isOthers: this.#writers.get(id) !== this.caller }
  }

  isHeldByCaller({ id }: Pick<Notification, 'id'>): boolean {
    return this.#holders.get(id)?.member === this.caller
  }

  /** Shows a notification to the caller: `sending` while another process has the right to send it. */
  shown(row: Notification): Notification {
    const isSent = this.#rights.has(row.id) && !this.isHeldByCaller(row)
    return isSent ? { ...row, status: 'sending' } : row
  }

  /** Throws STORE_UNAVAILABLE where the caller is dead. */
  mustLive(): void {
    if (this.caller.state !== 'alive')
      throw new SluiceError('STORE_UNAVAILABLE', 'This process was declared dead.')
  }

  /** Returns what an engine of one process does not compare. */
  conflictsOf(change: Change): readonly Conflict[] {
    const { moves = [], recipients = [], decidedFor = [], generations = [] } = change
    if (this.caller.state !== 'alive') return [{ kind: 'member', key: this.caller.id }]
    const conflicts: Conflict[] = []
    for (const { before } of moves)
      if (this.#rights.has(before.id) && !this.isHeldByCaller(before))
        conflicts.push({ kind: 'notification', key: before.id })
    for (const { tenant, id, version } of recipients)
      if (version !== undefined && version !== versionAsRead(this.#lookup.recipient(tenant, id)))
        conflicts.push({ kind: 'recipient', key: id })
    for (const { tenant, recipient, version } of decidedFor)
      if (version !== this.#versionOf(tenant, recipient))
        conflicts.push({ kind: 'recipient', key: recipient })
    for (const { tenant, state, number } of generations)
      if (number !== this.generationOf(tenant, state)) conflicts.push({ kind: 'generation', key: tenant })
    return conflicts
  }

  /** Gives a value of limiter state its next generation. */
  nextGeneration(tenant: string, state: TenantGeneration['state']): number {
    const next = this.generationOf(tenant, state) + 1
    this.#generations.set(keyOf(tenant, state), next)
    return next
  }

  /** Returns the present generation of a value; 0 where it was never filled. */
  generationOf(tenant: string, state: TenantGeneration['state']): number {
    return this.#generations.get(keyOf(tenant, state)) ?? 0
  }

  /** Gives a written recipient its version. */
  versioned(recipient: Recipient): Recipient {
    this.#version += 1
    return { ...recipient, version: this.#version }
  }

  #versionOf(tenant: string, id: string): number {
    return this.#lookup.recipient(tenant, id)?.version ?? 0
  }

  begin(requests: readonly RightRequest[]): GivenRights {
    this.mustLive()
    this.flush()
    const refused = new Set<string>()
    const outdated = new Set<string>()
    const seen = new Map<string, number>()
    for (const { notification, recipient } of requests) {
      const { id, tenant, to } = notification
      const now = this.#lookup.notification(notification)
      const isMine = this.isFree(notification) || this.isHeldByCaller(notification)
      if (now === undefined || !isMine || !sameVersion(now, notification)) {
        refused.add(id)
        continue
      }
      this.hold([notification])
      this.#begun += 1
      this.#rights.set(id, this.#begun)
      const key = keyOf(tenant, to.id)
      const version = seen.get(key) ?? versionAsRead(this.#lookup.recipient(tenant, to.id))
      seen.set(key, version)
      if (recipient !== undefined && versionAsRead(recipient) !== version) outdated.add(id)
    }
    return { refused, outdated, forMs: this.rightMs, holds: this.#lookup.markOfHolds() }
  }

  /** Notifications that dead processes hold, earliest due first. */
  leftByDead(without: ReadonlySet<string>): readonly Notification[] {
    const left = this.#held(({ state }) => state === 'dead')
    return left.filter(({ tenant }) => !without.has(tenant)).sort((a, b) => a.dueAt - b.dueAt)
  }

  /** Names what the caller holds. */
  named({ tenant, id, dueAt }: Notification): HeldName {
    const right = this.#rights.get(id)
    return right === undefined ? { tenant, id, dueAt } : { tenant, id, dueAt, right }
  }

  endRights(unused: readonly HeldName[]): void {
    for (const { id, right } of unused)
      if (this.isHeldByCaller({ id }) && this.#rights.get(id) === right) this.#rights.delete(id)
  }

  heldByCaller(): Notification[] {
    return this.#held((member) => member === this.caller)
  }

  #held(by: (member: MemoryMember) => boolean): Notification[] {
    const found: Notification[] = []
    for (const { member, name } of this.#holders.values())
      if (by(member)) found.push(this.#lookup.notification(name)!)
    return found
  }

  /** Takes a notification over for the caller; true if its holder had the right to send it. */
  takeOver(notification: Notification): boolean {
    this.hold([notification])
    return this.#rights.delete(notification.id)
  }

  /** Ends the caller's part in the fleet. Where it leaves something behind, the others take that over. */
  leave(isSettled: boolean): void {
    if (this.caller.state === 'alive') this.caller.state = 'dead'
    if (isSettled) this.settleDead(this.caller)
  }
}
