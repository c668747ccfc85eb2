/**
 * The in-memory store, for the simulator: maps and heaps behind the same port and the same conformance suite. Nothing
 * survives the process. Changes take effect at once, in the order of their commits; nothing is copied, because
 * notifications are never changed, only replaced.
 */
import { type BacklogRow, backlogRowOf } from '../../backlog-cell.ts'
import { SluiceError } from '../../errors.ts'
import { Heap } from '../../heap.ts'
import {
  type Digest,
  delayingLimit,
  type Job,
  type Move,
  type Notification,
  type Recipient,
  type SharedContent,
  type Status,
} from '../../model.ts'
import type {
  AccountRecord,
  AdmissionQuery,
  AnswerKey,
  Change,
  CommitResult,
  Conflict,
  CountedQuery,
  DeadLetterQuery,
  HoldRecord,
  JobWork,
  ListQuery,
  Page,
  Pruned,
  RecipientKey,
  ScanQuery,
  Store,
  StoredAnswer,
  Tally,
  TimeLine,
  WaitingContent,
} from '../../ports.ts'
import { admissionOf } from '../admission.ts'
import { isOnRecord } from '../commit-lookup.ts'
import { MemoryAccounts } from './memory-accounts.ts'
import { countedPage, newestAdmissions, waits } from './memory-admissions.ts'
import { MemoryCounts } from './memory-counts.ts'
import { MemoryDueCursor } from './memory-due-cursor.ts'
import { MemoryErasures } from './memory-erasures.ts'
import { MemoryHolds } from './memory-holds.ts'
import { MemoryItems } from './memory-items.ts'
import { MemoryJobs } from './memory-jobs.ts'
import { answerKey, type Group, groupKey, keyOf } from './memory-keys.ts'
import {
  byId,
  checkPaths,
  ended,
  entry,
  isDeadLetter,
  isListed,
  page,
  rightsFor,
  sameVersion,
  scan,
} from './memory-rows.ts'

const applied: CommitResult = { applied: true }
const unsettled: ReadonlySet<Status> = new Set<Status>(['scheduled', 'queued', 'digesting'])

export function createMemoryStore(): Store {
  return new MemoryStore()
}

class MemoryStore implements Store {
  /** Notifications by tenant, then by id. */
  readonly #tenants = new Map<string, Map<string, Notification>>()
  readonly #byRecipient = new Map<string, Map<string, string[]>>()
  readonly #recipients = new Map<string, Recipient>()
  readonly #answers = new Map<string, StoredAnswer>()
  readonly #jobs = new MemoryJobs()
  readonly #accounts = new MemoryAccounts()
  readonly #holds = new MemoryHolds()
  #timeLine: TimeLine | undefined
  /** Always false: the store ends with its process. */
  readonly unsettled = false
  readonly #open = new Map<string, Digest>()
  readonly #items = new MemoryItems()
  readonly #closing = new Heap<Digest>()
  readonly #dueCursor = new MemoryDueCursor((row) => this.#find(row))
  readonly #counts = new MemoryCounts()
  readonly #erasures = new MemoryErasures({
    tenants: this.#tenants,
    byRecipient: this.#byRecipient,
    recipients: this.#recipients,
    answers: this.#answers,
    jobs: this.#jobs,
    counts: this.#counts,
  })
  #closed = false

  async commit(change: Change): Promise<CommitResult> {
    if (this.#closed) throw new SluiceError('STORE_UNAVAILABLE', 'The store is closed.')
    const { accept = [], moves = [], digests = [], recipients = [], answer, jobs = [] } = change
    checkPaths(change)
    const conflicts = this.#conflictsOf(change)
    if (conflicts.length > 0) return { applied: false, conflicts }
    for (const content of change.contents ?? []) this.#counts.put(content)
    for (const { kind, digest } of digests) this.#writeDigest(kind, digest)
    for (const notification of accept) this.#insert(notification)
    for (const move of moves) this.#replace(this.#find(move.before)!, move)
    for (const recipient of recipients) this.#recipients.set(keyOf(recipient.tenant, recipient.id), recipient)
    if (answer !== undefined) this.#answers.set(answerKey(answer), answer)
    for (const write of jobs) this.#counts.job(write)
    for (const write of jobs) this.#jobs.write(write)
    for (const record of change.accounts ?? []) this.#accounts.write(record)
    for (const write of change.holds ?? []) this.#holds.write(write)
    return applied
  }

  readonly isApplied = (change: Change) => isOnRecord(this, change)

  #conflictsOf(change: Change): readonly Conflict[] {
    const { accept = [], moves = [], digests = [], answer, jobs = [], contents = [] } = change
    const conflicts: Conflict[] = this.#jobs.conflictsOf(jobs)
    const note = (kind: Conflict['kind'], key: string): void => void conflicts.push({ kind, key })
    for (const notification of accept)
      if (this.#find(notification) !== undefined) note('notification', notification.id)
    for (const { before } of moves) {
      const now = this.#find(before)
      if (now === undefined || !sameVersion(now, before)) note('notification', before.id)
    }
    // The open digests as they would be after each of the preceding writes.
    const open = new Map<string, string | undefined>()
    for (const { kind, digest } of digests) {
      const key = groupKey(digest)
      const id = open.has(key) ? open.get(key) : this.#open.get(key)?.id
      // A closed digest may have become a notification, and is not opened again.
      const opens = kind === 'open' && id === undefined && this.#find(digest) === undefined
      if (!opens && id !== digest.id) note('digest', digest.id)
      open.set(key, kind === 'close' ? undefined : digest.id)
    }
    for (const { id } of contents) if (this.#counts.hasContent(id)) note('content', id)
    if (answer !== undefined && this.#answers.has(answerKey(answer))) note('answer', answer.key)
    if (conflicts.length > 0) return conflicts
    return digests
      .filter((write) => 'left' in write && write.left !== this.#leftIn(write.digest, change))
      .map(({ digest }) => ({ kind: 'digest', key: digest.id }))
  }

  /** The number of items that the digest collects once the change is written. */
  #leftIn({ id }: Digest, { accept = [], moves = [] }: Change): number {
    const isIn = ({ status, digestId }: Notification): boolean => status === 'digesting' && digestId === id
    const joins = accept.filter(isIn).length + moves.filter(({ after }) => isIn(after)).length
    const leaves = moves.filter(({ before }) => isIn(before)).length
    return this.#items.sizeOf(id) + joins - leaves
  }

  #find({ tenant, id }: Pick<Notification, 'tenant' | 'id'>): Notification | undefined {
    return this.#tenants.get(tenant)?.get(id)
  }

  #insert(notification: Notification): void {
    const { tenant, id, to } = notification
    entry(this.#tenants, tenant, () => new Map()).set(id, notification)
    entry(
      entry(this.#byRecipient, tenant, () => new Map()),
      to.id,
      () => [],
    ).push(id)
    if (notification.job !== undefined) this.#jobs.join(notification.job, id)
    this.#counts.add(notification, 1)
    this.#file(notification)
  }

  #replace(before: Notification, move: Move): void {
    // Fields that never change may be missing in `after`; they stay.
    const after = before === move.before ? move.after : { ...before, ...move.after }
    this.#tenants.get(after.tenant)!.set(after.id, after)
    this.#counts.move(before, after)
    const stays = after.status === 'digesting' && after.digestId === before.digestId
    if (before.status === 'digesting' && !stays) this.#items.delete(before)
    // A move that keeps its place in the due order stays claimed by its holder.
    this.#file(after)
  }

  #file(notification: Notification): void {
    if (notification.status === 'digesting') {
      this.#items.put(notification)
    } else if (waits.has(notification.status) && notification.dueAt > this.#dueCursor.claimedUntil) {
      this.#dueCursor.push(notification)
    }
  }

  #writeDigest(kind: 'open' | 'join' | 'postpone' | 'close', digest: Digest): void {
    const key = groupKey(digest)
    const open = this.#open.get(key)
    if (kind === 'close') {
      this.#open.delete(key)
    } else if (kind === 'postpone' || open === undefined || digest.closesAt < open.closesAt) {
      this.#open.set(key, digest)
      this.#closing.push(digest.closesAt, digest)
    }
  }

  async notification(tenant: string, id: string): Promise<Notification | undefined> {
    return this.#find({ tenant, id })
  }

  async list(query: ListQuery): Promise<Page<Notification>> {
    const found = this.#of(query.tenant, query.recipient).filter((row) => isListed(row, query))
    return page(found.reverse(), query.cursor, query.limit)
  }

  async deadLetters(query: DeadLetterQuery): Promise<Page<Notification>> {
    const tenants = query.tenant === undefined ? [...this.#tenants.keys()] : [query.tenant]
    const found = tenants
      .flatMap((tenant) => this.#of(tenant, undefined))
      .filter((row) => isDeadLetter(row, query))
    return page(found.sort(byId), query.cursor, query.limit)
  }

  async scan(query: ScanQuery): Promise<Page<Notification>> {
    return scan([...this.#tenants.values()].flatMap((rows) => [...rows.values()]).sort(byId), query)
  }

  mayHave(what: 'preferences' | 'notifications', tenant: string, recipient: string): boolean {
    const names = [recipient, this.#erasures.nameOf(tenant, recipient)].filter((name) => name !== undefined)
    if (what === 'notifications') return names.some((name) => this.#byRecipient.get(tenant)?.has(name))
    return names.some((name) => this.#recipients.has(keyOf(tenant, name)))
  }

  readonly begin: Store['begin'] = (of) => rightsFor(of, (each) => this.#find(each))
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
      .filter((row) => unsettled.has(row.status) && row.id > (cursor ?? ''))
      .sort(byId)
    const items = behind.slice(0, limit)
    return { items, nextCursor: behind.length > limit ? items.at(-1)!.id : null }
  }

  #of(tenant: string, recipient: string | undefined): Notification[] {
    const rows = this.#tenants.get(tenant)
    if (recipient === undefined) return [...(rows?.values() ?? [])]
    return (this.#byRecipient.get(tenant)?.get(recipient) ?? []).map((id) => rows!.get(id)!).filter(Boolean)
  }

  #withErased({ tenant, recipient }: Pick<AdmissionQuery, 'tenant' | 'recipient'>): Notification[] {
    const name = recipient === undefined ? undefined : this.#erasures.nameOf(tenant, recipient)
    const left = name === undefined ? [] : this.#of(tenant, name)
    return [...left.map((row) => ({ ...row, to: { id: recipient! } })), ...this.#of(tenant, recipient)]
  }

  readonly admissions = async (query: AdmissionQuery) => newestAdmissions(this.#withErased(query), query)
  readonly counted = async (query: CountedQuery) => countedPage(this.#withErased(query), query)

  async inThrottleQueue({ after = '', limit }: { readonly after?: string; readonly limit: number }) {
    const found = [...this.#tenants.values()]
      .flatMap((rows) => [...rows.values()])
      .filter((row) => delayingLimit(row) !== undefined && row.id > after)
    return found.sort(byId).slice(0, limit).map(admissionOf)
  }

  async claimDue(
    until: number,
    limit: number,
    without: Iterable<string> = [],
  ): Promise<readonly Notification[]> {
    return this.#dueCursor.take(until, limit, new Set(without))
  }

  claimedUntil(): number {
    return this.#dueCursor.claimedUntil
  }

  async releaseDue(notifications: readonly Notification[]): Promise<void> {
    for (const notification of notifications) this.#dueCursor.push(notification)
  }

  async digest(id: string): Promise<Digest | undefined> {
    return [...this.#open.values()].find((digest) => digest.id === id)
  }

  async openDigest(of: Group): Promise<Digest | undefined> {
    return this.#open.get(groupKey(of))
  }

  async dueDigests(until: number, limit: number): Promise<readonly Digest[]> {
    const due: Digest[] = []
    while (due.length < limit && this.#closing.leastKey !== undefined && this.#closing.leastKey <= until) {
      const digest = this.#closing.pop()!
      if (this.#open.get(groupKey(digest)) === digest) due.push(digest)
    }
    for (const digest of due) this.#closing.push(digest.closesAt, digest)
    return due
  }

  async digestItems({ id }: Pick<Digest, 'id'>, cursor: string | null, limit: number) {
    return this.#items.page(id, cursor, limit)
  }

  async orphans(cursor: string | null, limit: number): Promise<Page<Notification>> {
    const open = new Set([...this.#open.values()].map(({ id }) => id))
    const orphan = this.#items.digests().find((id) => !open.has(id) && id > (cursor ?? ''))
    if (orphan === undefined) return { items: [], nextCursor: null }
    return { items: this.#items.page(orphan, null, limit).items, nextCursor: orphan }
  }

  async nextDueAt(): Promise<number | undefined> {
    return this.#dueCursor.earliest()
  }

  async nextDigestAt(): Promise<number | undefined> {
    while (
      this.#closing.least !== undefined &&
      this.#open.get(groupKey(this.#closing.least)) !== this.#closing.least
    ) {
      this.#closing.pop()
    }
    return this.#closing.leastKey
  }

  readonly answer = async (key: AnswerKey) => this.#answers.get(answerKey(key))

  async job(tenant: string, id: string): Promise<Job | undefined> {
    return this.#jobs.find({ tenant, id })?.job
  }

  async jobWork(name: Pick<Job, 'tenant' | 'id'>): Promise<JobWork | undefined> {
    return this.#jobs.find(name)?.work
  }

  async runningJobs(): Promise<readonly Job[]> {
    return this.#jobs.running()
  }

  async jobMembers({ tenant, id }: Pick<Job, 'tenant' | 'id'>): Promise<readonly Notification[]> {
    const members = this.#jobs.membersOf(id).map((member) => this.#find({ tenant, id: member }))
    return members.filter((row) => row !== undefined)
  }

  accounts = async (): Promise<readonly AccountRecord[]> => this.#accounts.all()
  holds = async (): Promise<readonly HoldRecord[]> => this.#holds.all()

  timeLine = async (): Promise<TimeLine | undefined> => this.#timeLine

  async keepTimeLine(line: TimeLine): Promise<void> {
    this.#timeLine = line
  }

  async backlog(): Promise<readonly BacklogRow[]> {
    const rows = [...this.#tenants.values()].flatMap((tenant) => [...tenant.values()].map(backlogRowOf))
    return rows.filter((row) => row !== undefined).map((row) => ({ ...row, count: 1 }))
  }

  readonly tallies = async (): Promise<readonly Tally[]> => this.#counts.tallies()

  async content(tenant: string, id: string): Promise<SharedContent | undefined> {
    return this.#counts.find(tenant, id)
  }

  waitingContents = async (): Promise<readonly WaitingContent[]> => this.#counts.waiting()

  async ping(): Promise<void> {
    if (this.#closed) throw new SluiceError('STORE_UNAVAILABLE', 'The store is closed.')
  }

  async prune({ answers, notifications }: Parameters<Store['prune']>[0]): Promise<Pruned> {
    const tallies: Tally[] = []
    let pruned = 0
    for (const [key, answer] of this.#answers) {
      if (answer.createdAt < answers && this.#answers.delete(key)) pruned += 1
    }
    for (const rows of this.#tenants.values()) {
      for (const row of rows.values()) {
        // Rows are in the order of acceptance: none after this one can have ended earlier.
        if (row.createdAt >= notifications) break
        if (!ended(row) || (row.timeline.at(-1)?.at ?? row.createdAt) >= notifications) continue
        rows.delete(row.id)
        if (row.job !== undefined) this.#jobs.leave(row.job, row.id)
        this.#counts.add(row, -1)
        tallies.push({ tenant: row.tenant, status: row.status, throttled: false, count: 1, bytes: 0 })
      }
    }
    return { rows: pruned + tallies.length + this.#jobs.prune(notifications), tallies }
  }

  async close(): Promise<void> {
    this.#closed = true
  }
}
