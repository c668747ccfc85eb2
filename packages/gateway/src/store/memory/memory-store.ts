/**
 * The in-memory store, for the simulator: maps and heaps behind the same port and the same conformance suite. Nothing
 * survives the process. Changes take effect at once, in the order of their commits; nothing is copied, because
 * notifications are never changed, only replaced. Several processes of a simulation may share one record
 * (memory-fleet.ts).
 */
import { type BacklogRow, backlogRowOf } from '../../backlog-cell.ts'
import { SluiceError } from '../../errors.ts'
import {
  type Digest,
  delayingLimit,
  type Job,
  type Move,
  type Notification,
  type Recipient,
  type Status,
} from '../../model.ts'
import type { DeliveredQuery } from '../../ports/traffic.ts'
import type {
  AdmissionQuery,
  AnswerKey,
  Change,
  CommitResult,
  CountedQuery,
  DeadLetterQuery,
  HeldName,
  ListQuery,
  Page,
  Pruned,
  RecipientKey,
  ScanQuery,
  Store,
  StoredAnswer,
  TakenOver,
  Tally,
  TimeLine,
} from '../../ports.ts'
import { admissionOf } from '../admission.ts'
import { isOnRecord } from '../commit-lookup.ts'
import { MemoryAccounts, MemoryHolds } from './memory-accounts.ts'
import { countedPage, newestAdmissions, waits } from './memory-admissions.ts'
import { type ConflictParts, conflictsOf } from './memory-conflicts.ts'
import { MemoryCounts } from './memory-counts.ts'
import { createMemoryTotals, deliveredIn, endedSince } from './memory-delivered.ts'
import { MemoryDigests } from './memory-digests.ts'
import { MemoryDueCursor } from './memory-due-cursor.ts'
import { MemoryErasures } from './memory-erasures.ts'
import { MemoryFeedback } from './memory-feedback.ts'
import { MemoryFleet, type MemoryMember, passedBy } from './memory-fleet.ts'
import { MemoryIntake } from './memory-intake.ts'
import { MemoryItems } from './memory-items.ts'
import { MemoryJobs } from './memory-jobs.ts'
import { answerKey, type Group, keyOf } from './memory-keys.ts'
import { prune } from './memory-prune.ts'
import { byDue, byId, checkPaths, deadLetters, entry, listed, rightsFor, scan } from './memory-rows.ts'

const applied: CommitResult = { applied: true }
const unsettled: ReadonlySet<Status> = new Set<Status>(['scheduled', 'queued', 'digesting'])

export class MemoryStore implements Store {
  /** Notifications by tenant, then by id. */
  readonly #tenants = new Map<string, Map<string, Notification>>()
  readonly #byRecipient = new Map<string, Map<string, Set<string>>>()
  readonly #recipients = new Map<string, Recipient>()
  readonly #answers = new Map<string, StoredAnswer>()
  readonly #jobs = new MemoryJobs()
  readonly #accounts = new MemoryAccounts()
  readonly #holds = new MemoryHolds()
  #timeLine: TimeLine | undefined
  readonly unsettled = false // The store ends with its process.
  readonly #open = new MemoryDigests()
  readonly #items = new MemoryItems()
  /** Absent in a store of one process. */
  readonly fleet: MemoryFleet | undefined
  readonly isVersioned: boolean
  readonly othersCallForMs: number
  readonly #dueCursor = new MemoryDueCursor((row) => {
    const found = this.#find(row)
    return found !== undefined && this.fleet?.isFree(found) === false ? undefined : found
  })
  readonly #counts = new MemoryCounts((tenant, by) => this.fleet?.count(tenant, by))
  readonly feedback = new MemoryFeedback(this.#tenants, (...of) => this.#erasures.pendingNameOf(...of))
  readonly deliveryTotals?: NonNullable<Store['deliveryTotals']>
  readonly intake = new MemoryIntake()
  readonly #kept = {
    tenants: this.#tenants,
    answers: this.#answers,
    jobs: this.#jobs,
    counts: this.#counts,
    feedback: this.feedback,
  }
  readonly #erasures = new MemoryErasures({
    ...this.#kept,
    byRecipient: this.#byRecipient,
    recipients: this.#recipients,
    open: this.#open,
    versioned: (recipient) => this.#versioned(recipient),
  })
  readonly #conflicting: ConflictParts = {
    find: (of) => this.#find(of),
    open: this.#open,
    items: this.#items,
    jobs: this.#jobs,
    counts: this.#counts,
    answers: this.#answers,
    erasures: this.#erasures,
  }
  #closed = false
  readonly #versioned = (recipient: Recipient) => this.fleet?.versioned(recipient) ?? recipient

  /** @param rightMs how long a right to send lasts; absent: one process has the record for itself */
  constructor(rightMs: number | undefined) {
    this.isVersioned = rightMs !== undefined
    this.othersCallForMs = rightMs ?? 0
    if (rightMs === undefined) return
    this.deliveryTotals = createMemoryTotals(this.#tenants, this.feedback)
    this.fleet = new MemoryFleet({
      rightMs,
      lookup: {
        notification: (of) => this.#find(of),
        recipient: (tenant, id) => this.#erasures.recipient(tenant, id),
        markOfHolds: () => this.#holds.mark,
      },
    })
  }

  /** Performs one call of a process; each call takes effect before it returns. */
  as<T>(member: MemoryMember, perform: () => T): T {
    this.fleet!.caller = member
    this.#dueCursor.claimedUntil = member.claimedUntil
    try {
      return perform()
    } finally {
      member.claimedUntil = this.#dueCursor.claimedUntil
    }
  }

  async commit(change: Change): Promise<CommitResult> {
    if (this.#closed) throw new SluiceError('STORE_UNAVAILABLE', 'The store is closed.')
    const { accept = [], moves = [], digests = [], recipients = [], answer, jobs = [] } = change
    checkPaths(change)
    const conflicts = [...conflictsOf(change, this.#conflicting), ...(this.fleet?.conflictsOf(change) ?? [])]
    if (conflicts.length > 0) return { applied: false, conflicts }
    this.fleet?.flush()
    for (const content of change.contents ?? []) this.#counts.put(content)
    for (const { kind, digest } of digests) this.#open.write(kind, digest)
    for (const notification of accept) this.#insert(notification)
    for (const move of moves) this.#replace(this.#find(move.before)!, move)
    for (const recipient of recipients)
      this.#recipients.set(keyOf(recipient.tenant, recipient.id), this.#versioned(recipient))
    if (answer !== undefined) this.#answers.set(answerKey(answer), answer)
    for (const write of jobs) this.#counts.job(write)
    for (const write of jobs) this.#jobs.write(write)
    for (const record of change.accounts ?? []) this.#accounts.write(record)
    for (const write of change.holds ?? []) this.#holds.write(write)
    return applied
  }

  readonly isApplied = (change: Change) => isOnRecord(this, change, this.fleet?.written)

  #find({ tenant, id }: Pick<Notification, 'tenant' | 'id'>): Notification | undefined {
    return this.#tenants.get(tenant)?.get(id)
  }

  #insert(notification: Notification): void {
    const { tenant, id, to } = notification
    entry(this.#tenants, tenant, () => new Map()).set(id, notification)
    const ofTenant = entry(this.#byRecipient, tenant, () => new Map())
    entry(ofTenant, to.id, () => new Set()).add(id)
    if (notification.job !== undefined) this.#jobs.join(notification.job, id)
    this.#counts.add(notification, 1)
    this.fleet?.wrote(notification)
    this.#file(notification)
  }

  #replace(before: Notification, move: Move): void {
    // Fields that never change may be missing in `after`; they stay.
    const after = before === move.before ? move.after : { ...before, ...move.after }
    this.#tenants.get(after.tenant)!.set(after.id, after)
    this.#counts.move(before, after)
    this.fleet?.wrote(after)
    const stays = after.status === 'digesting' && after.digestId === before.digestId
    if (before.status === 'digesting' && !stays) this.#items.delete(before)
    // A move that keeps its place in the due order stays claimed by its holder, or free.
    const isFree = waits.has(before.status) && this.fleet?.isFree(before) === true
    if (after.dueAt !== before.dueAt || !isFree || !waits.has(after.status)) this.#file(after)
    else if (after.dueAt > this.#dueCursor.claimedUntil) this.#dueCursor.push(after)
  }

  #file(notification: Notification): void {
    const isDueLater = notification.dueAt > this.#dueCursor.claimedUntil
    if (notification.status === 'digesting') this.#items.put(notification)
    if (!waits.has(notification.status)) this.fleet?.free(notification)
    else if (isDueLater) this.#release(notification)
    else this.fleet?.hold([notification])
  }

  /** Gives a notification back to whoever claims what is due. */
  #release(notification: Notification): void {
    this.fleet?.free(notification)
    this.#dueCursor.push(notification)
  }

  /** Shows a notification as the caller may see it. */
  readonly #shown = (row: Notification): Notification => this.fleet?.shown(row) ?? row

  async notification(tenant: string, id: string): Promise<Notification | undefined> {
    const found = this.#find({ tenant, id })
    return found && this.#shown(found)
  }

  async list(query: ListQuery): Promise<Page<Notification>> {
    return listed(this.#of(query.tenant, query.recipient).map(this.#shown), query)
  }

  readonly deadLetters = async (query: DeadLetterQuery) => deadLetters(this.#tenants, query)

  async scan(query: ScanQuery): Promise<Page<Notification>> {
    const rows = [...this.#tenants.values()].flatMap((each) => [...each.values()])
    return scan(rows.map(this.#shown).sort(byId), query)
  }

  mayHave(what: 'preferences' | 'notifications', tenant: string, recipient: string): boolean {
    if (this.fleet !== undefined) return true
    const names = [recipient, this.#erasures.nameOf(tenant, recipient)].filter((name) => name !== undefined)
    if (what === 'notifications') return names.some((name) => this.#byRecipient.get(tenant)?.has(name))
    return names.some((name) => this.#recipients.has(keyOf(tenant, name)))
  }

  /** Notifications by tenant, then by id in the order of their acceptance. */
  readonly rows: ReadonlyMap<string, ReadonlyMap<string, Notification>> = this.#tenants

  readonly begin: Store['begin'] = (of) => this.fleet?.begin(of) ?? rightsFor(of, (each) => this.#find(each))
  readonly recipient = async (tenant: string, id: string) => this.#erasures.recipient(tenant, id)
  readonly recipients = async (keys: readonly RecipientKey[]) =>
    keys.map(({ tenant, recipient }) => this.#erasures.recipient(tenant, recipient))
  readonly beginErasure = async (tenant: string, id: string) => this.#erasures.begin(tenant, id)
  readonly erase = async (tenant: string, id: string) => this.#erasures.end(tenant, id)
  readonly erasures = async () => this.#erasures.pending()

  async waiting(
    tenant: string,
    recipient: string,
    cursor: string | null,
    limit: number,
  ): Promise<Page<Notification>> {
    const behind = this.#of(tenant, recipient)
      .map(this.#shown)
      .filter((row) => unsettled.has(row.status) && row.id > (cursor ?? ''))
      .sort(byId)
    const items = behind.slice(0, limit)
    return { items, nextCursor: behind.length > limit ? items.at(-1)!.id : null }
  }

  #of(tenant: string, recipient: string | undefined): Notification[] {
    const rows = this.#tenants.get(tenant)
    if (recipient === undefined) return [...(rows?.values() ?? [])]
    const ids = this.#byRecipient.get(tenant)?.get(recipient) ?? []
    return Array.from(ids, (id) => rows!.get(id)!).filter(Boolean)
  }

  #withErased({ tenant, recipient }: Pick<AdmissionQuery, 'tenant' | 'recipient'>): Notification[] {
    const name = recipient === undefined ? undefined : this.#erasures.nameOf(tenant, recipient)
    const left = name === undefined ? [] : this.#of(tenant, name)
    const rows = [...left.map((row) => ({ ...row, to: { id: recipient! } })), ...this.#of(tenant, recipient)]
    return rows.map(this.#shown)
  }

  readonly admissions = async (query: AdmissionQuery) => newestAdmissions(this.#withErased(query), query)
  readonly counted = async (query: CountedQuery) => countedPage(this.#withErased(query), query)

  async inThrottleQueue({ after = '', limit }: { readonly after?: string; readonly limit: number }) {
    const found = [...this.#tenants.values()]
      .flatMap((rows) => [...rows.values()])
      .filter((row) => delayingLimit(row) !== undefined && row.id > after)
    return found.sort(byId).slice(0, limit).map(admissionOf)
  }

  readonly claimDue: Store['claimDue'] = async (until, limit, without = [], passed = [], missing = []) => {
    this.fleet?.mustLive()
    const isPassed = passedBy(passed, missing, (row) => this.#counts.hasText(row))
    const taken = this.#dueCursor.take(until, limit, new Set(without), isPassed)
    this.fleet?.claim(taken)
    return taken
  }

  claimedUntil(): number {
    return this.#dueCursor.claimedUntil
  }

  async releaseDue(notifications: readonly Notification[]): Promise<void> {
    this.fleet?.mustLive()
    this.giveBack(notifications)
  }

  /** Frees of these what the caller holds; in a store of one process, all of them. */
  giveBack(notifications: readonly Notification[]): void {
    for (const notification of notifications)
      if (this.fleet === undefined) this.#dueCursor.push(notification)
      else if (this.fleet.isHeldByCaller(notification)) this.#release(this.#find(notification)!)
  }

  async takeOver(at: number, limit: number, without: Iterable<string> = []): Promise<readonly TakenOver[]> {
    this.fleet?.mustLive()
    const left = this.fleet?.leftByDead(new Set(without)) ?? []
    return left.slice(0, limit).map((notification) => this.#takeOver(notification, at))
  }

  async takeBack(at: number, names: readonly HeldName[]): Promise<readonly TakenOver[]> {
    this.fleet?.mustLive()
    const own = new Set(names.map(({ id }) => id))
    const held = this.fleet?.heldByCaller().filter(({ id }) => own.has(id)) ?? []
    return held.map((notification) => this.#takeOver(notification, at))
  }

  #takeOver(notification: Notification, at: number): TakenOver {
    const mayHaveLeft = this.fleet!.takeOver(notification)
    if (!mayHaveLeft) return { notification, mayHaveLeft }
    const suspect = { ...notification, suspects: [...(notification.suspects ?? []), at] }
    this.#tenants.get(notification.tenant)!.set(notification.id, suspect)
    return { notification: suspect, mayHaveLeft }
  }

  async heldOnRecord(dueBy: number, after: HeldName | null, limit: number): Promise<readonly HeldName[]> {
    const held = (this.fleet?.heldByCaller() ?? []).sort(byDue)
    const due = held.filter((each) => each.dueAt <= dueBy && (after === null || byDue(each, after) > 0))
    return due.slice(0, limit).map((each) => this.fleet!.named(each))
  }

  readonly endedSince = async (at: number, limit: number) => endedSince(this.#tenants, at, limit)
  readonly endRights = async (unused: readonly HeldName[]) => this.fleet?.endRights(unused)

  readonly digest = async (id: string) => this.#open.byId(id)
  readonly openDigest = async (of: Group) => this.#open.of(of)
  readonly dueDigests = async (until: number, limit: number) => this.#open.due(until, limit)

  async digestItems({ id }: Pick<Digest, 'id'>, cursor: string | null, limit: number) {
    return this.#items.page(id, cursor, limit)
  }

  async orphans(cursor: string | null, limit: number): Promise<Page<Notification>> {
    const open = new Set(this.#open.all().map(({ id }) => id))
    const orphan = this.#items.digests().find((id) => !open.has(id) && id > (cursor ?? ''))
    if (orphan === undefined) return { items: [], nextCursor: null }
    return { items: this.#items.page(orphan, null, limit).items, nextCursor: orphan }
  }

  async nextDueAt(): Promise<number | undefined> {
    return this.#dueCursor.earliest()
  }

  readonly nextDigestAt = async () => this.#open.earliest()

  readonly answer = async (key: AnswerKey) => this.#answers.get(answerKey(key))

  readonly job = async (tenant: string, id: string) => this.#jobs.find({ tenant, id })?.job
  readonly jobWork = async (name: Pick<Job, 'tenant' | 'id'>) => this.#jobs.find(name)?.work
  readonly runningJobs = async () => this.#jobs.running()

  async jobMembers({ tenant, id }: Pick<Job, 'tenant' | 'id'>): Promise<readonly Notification[]> {
    const members = this.#jobs.membersOf(id).map((member) => this.#find({ tenant, id: member }))
    return members.filter((row) => row !== undefined).map(this.#shown)
  }

  readonly accounts = async () => this.#accounts.all()
  readonly holds = async () => this.#holds.all()
  readonly timeLine = async () => this.#timeLine

  async keepTimeLine(line: TimeLine): Promise<void> {
    this.#timeLine = line
  }

  async backlog(): Promise<readonly BacklogRow[]> {
    const rows = [...this.#tenants.values()].flatMap((tenant) => [...tenant.values()].map(backlogRowOf))
    return rows.filter((row) => row !== undefined).map((row) => ({ ...row, count: 1 }))
  }

  readonly delivered = async (query: DeliveredQuery) => deliveredIn(this.#tenants, query)
  readonly tallies = async (): Promise<readonly Tally[]> => this.#counts.tallies()

  readonly content = async (tenant: string, id: string) => this.#counts.find(tenant, id)
  readonly waitingContents = async () => this.#counts.waiting()

  async ping(): Promise<void> {
    if (this.#closed) throw new SluiceError('STORE_UNAVAILABLE', 'The store is closed.')
  }

  async prune(before: Parameters<Store['prune']>[0]): Promise<Pruned> {
    this.fleet?.mustLive()
    return prune(this.#kept, before)
  }

  async close(isSettled = true): Promise<void> {
    if (this.fleet === undefined) this.#closed = true
    // Nothing that a clean end leaves behind was sent, whatever right there was to send it.
    if (isSettled) for (const each of this.fleet?.heldByCaller() ?? []) this.#release(each)
    this.fleet?.leave(isSettled)
  }
}
