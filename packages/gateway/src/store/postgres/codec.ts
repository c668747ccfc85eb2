/**
 * Converts changes to the JSON that `commit_group` takes, and rows to notifications. The fields that never change are
 * one JSON value, `body`; those that moves change are columns where a query selects by them, and else in `state`.
 */
import { dataOf } from '../../content.ts'
import type { Channel, Decision, Job, Move, Notification, TimelineEvent } from '../../model.ts'
import { isFinal, pendingBytesOf, pendingOf, revisionOf } from '../../model.ts'
import type { Change, JobWork, JobWrite } from '../../ports.ts'
import { logTextOf } from '../log-records.ts'
import { isCountedApart, statusCodes, statusOf, throttledFlag } from '../status-codes.ts'
import { storedJson } from '../stored-json.ts'
import { waitsOf } from './backlog.ts'
import type { PseudonymOf } from './pseudonyms.ts'

/** The fields that moves change and that have no column. */
type State = Pick<
  Notification,
  'requestedChannel' | 'decision' | 'digestId' | 'single' | 'undecided' | 'timeline' | 'omitted'
>

type Body = Omit<
  Notification,
  | keyof State
  | 'id'
  | 'tenant'
  | 'channel'
  | 'status'
  | 'dueAt'
  | 'attempts'
  | 'firedAt'
  | 'turnedAt'
  | 'suspects'
>

/** A row of the view `whole`. */
export interface WholeRow {
  readonly id: string
  readonly seq: number
  readonly tenant: string
  readonly recipient: string
  readonly created_at: number
  readonly body: Body
  readonly channel: Channel
  readonly status: number
  readonly due_at: number
  readonly attempts: number
  readonly fired_at: number | null
  readonly turned_at: number | null
  readonly suspects: readonly number[] | null
  readonly state: State
  /** The member that holds it, as a decimal number. */
  readonly owner: string | null
  /** The owner has the right to send it since. */
  readonly begun_at: number | null
}

/**
 * The part of a statement that reads notifications by the ids of a parameter, as `w`. Each is read by its id: a join may be
 * planned to read all of a table that was nearly empty when the server counted it last.
 */
export const wholeOf = (ids: string): string =>
  `unnest(${ids}::text[]) k(key) CROSS JOIN LATERAL (SELECT * FROM whole WHERE whole.id = k.key OFFSET 0) w`

/** Reads rows as one member sees them. */
export type ReadRow = (row: WholeRow) => Notification

/** A notification that another member may be sending is `sending`. */
export const readRowsFor =
  (member: string): ReadRow =>
  (row) => {
    const notification = notificationOf(row)
    return row.begun_at !== null && row.owner !== member
      ? { ...notification, status: 'sending', begunAt: row.begun_at }
      : notification
  }

function notificationOf(row: WholeRow): Notification {
  const { id, tenant, body, channel, status, due_at, attempts, fired_at, turned_at, suspects, state } = row
  return {
    id,
    tenant,
    ...body,
    channel,
    status: statusOf(status),
    dueAt: due_at,
    attempts,
    ...(fired_at === null ? {} : { firedAt: fired_at }),
    ...(turned_at === null ? {} : { turnedAt: turned_at }),
    ...(suspects === null ? {} : { suspects }),
    ...state,
  }
}

function stateOf(notification: Notification): State {
  const { requestedChannel, decision, digestId, single, undecided, timeline, omitted } = notification
  return {
    decision,
    timeline,
    ...(requestedChannel === undefined ? {} : { requestedChannel }),
    ...(digestId === undefined ? {} : { digestId }),
    ...(single === undefined ? {} : { single }),
    ...(undecided === undefined ? {} : { undecided }),
    ...(omitted === undefined ? {} : { omitted }),
  }
}

function bodyOf(notification: Notification): Body {
  const {
    id: _id,
    tenant: _tenant,
    channel: _channel,
    status: _status,
    dueAt: _dueAt,
    attempts: _attempts,
    firedAt: _firedAt,
    turnedAt: _turnedAt,
    suspects: _suspects,
    requestedChannel: _requestedChannel,
    decision: _decision,
    digestId: _digestId,
    single: _single,
    undecided: _undecided,
    timeline: _timeline,
    omitted: _omitted,
    ...body
  } = notification
  return body.data === undefined ? body : { ...body, data: dataOf(body.data) }
}

/** The tally in which a notification counts: see the migrations. */
function kindOf(notification: Notification): number {
  const code = statusCodes[notification.status]
  return code * 2 + (isCountedApart(code) && throttledFlag(notification) ? 1 : 0)
}

/** The columns of a notification that moves change. */
function movedColumns(notification: Notification) {
  const { id, channel, status, dueAt, attempts, firedAt, turnedAt, suspects, digestId, timeline, decision } =
    notification
  const last = timeline.at(-1)
  return {
    id,
    channel,
    status: statusCodes[status],
    kind: kindOf(notification),
    rev: revisionOf(notification),
    due_at: dueAt,
    attempts,
    fired_at: firedAt,
    turned_at: turnedAt,
    suspects,
    digest: status === 'digesting' ? (digestId ?? '') : undefined,
    cause: status === 'dead' ? last?.reason : undefined,
    waits: waitsOf(notification),
    policy: decision.policyVersion,
    ...(isFinal(status) ? { at: last?.at ?? notification.createdAt } : {}),
  }
}

/** A row of a group, and the JSON values that are only kept: each is one line of the group's texts. */
interface KeptRow {
  readonly row: object
  readonly texts: readonly string[]
}

/** The version of a notification that a move or a right was computed from. */
export function versionOf({ id, status, dueAt, attempts, ...of }: Notification) {
  return { id, status: statusCodes[status], rev: revisionOf(of), due_at: dueAt, attempts }
}

function acceptedRow(notification: Notification): KeptRow {
  const { tenant, to, category, priority, job, shared, createdAt, bytes = 0 } = notification
  const row = {
    ...movedColumns(notification),
    tenant,
    recipient: to.id,
    category,
    priority,
    job,
    shared: shared?.id,
    created_at: createdAt,
    bytes,
  }
  return { row, texts: [storedJson(bodyOf(notification)), storedJson(stateOf(notification))] }
}

/** A notification that ends with the decision it had before is written without it: the record has it. */
function movedRow({ before, after }: Move): KeptRow {
  const { decision, ...state } = stateOf(after)
  const isKnown = isFinal(after.status) && decision === before.decision
  return { row: movedColumns(after), texts: [storedJson(isKnown ? state : { decision, ...state })] }
}

/** The version that a move was computed from. */
function movedVersion({ before }: Move) {
  const { id, status, rev, due_at, attempts } = versionOf(before)
  return { id, b_status: status, b_rev: rev, b_due_at: due_at, b_attempts: attempts }
}

function deliveredRows(moves: readonly Move[]): readonly object[] {
  const delivered = moves.filter(
    ({ before, after }) => after.status === 'delivered' && before.status !== 'delivered',
  )
  const groups = Map.groupBy(delivered, ({ after: { tenant, category } }) =>
    JSON.stringify([tenant, category]),
  )
  return [...groups.values()].map((group) => {
    const { tenant, category } = group[0]!.after
    return { tenant, category, count: group.length }
  })
}

function jobRow(write: JobWrite) {
  const job: Job = write.kind === 'open' ? write.job : write.after
  const before = write.kind === 'open' ? undefined : write.before
  return {
    id: job.id,
    tenant: job.tenant,
    created_at: job.createdAt,
    status: job.status,
    taken: job.taken,
    shared: job.shared?.id,
    body: job,
    pending: pendingOf(job) - (before === undefined ? 0 : pendingOf(before)),
    pending_bytes: pendingBytesOf(job) - (before === undefined ? 0 : pendingBytesOf(before)),
    ...(before && { b_status: before.status, b_taken: before.taken, b_renamed: before.renamed ?? 0 }),
    ...(write.kind === 'open' ? { work: plainWork(write.work) } : {}),
  }
}

/** Work without stand-ins for data that was parsed in another thread. */
function plainWork({ message, recipients }: JobWork): JobWork {
  return {
    message: message.data === undefined ? message : { ...message, data: dataOf(message.data) },
    recipients: recipients.map((each) =>
      each.data === undefined ? each : { ...each, data: dataOf(each.data) },
    ),
  }
}

/** One change of a group: rows for each kind of write, without the place of the change in the group. */
export interface EncodedChange {
  readonly accept: readonly KeptRow[]
  /** The ids of those that it accepts. */
  readonly ids: readonly object[]
  readonly moves: readonly KeptRow[]
  /** The versions that its moves were computed from. */
  readonly versions: readonly object[]
  readonly digests: readonly object[]
  readonly generations: readonly object[]
  /** Its changes of state for the outbox; empty where no delivery log is kept. */
  readonly log: readonly object[]
  /** Deliveries by tenant and category. */
  readonly delivered: readonly object[]
  readonly contents: readonly KeptRow[]
  readonly rest: Readonly<Partial<Record<RestKind, readonly object[]>>>
}

const restKinds = ['recipients', 'decided', 'reported', 'answers', 'jobs', 'accounts', 'holds'] as const
type RestKind = (typeof restKinds)[number]

/**
 * Makes rows of a change. `pseudonymOf` names what an erasure has left of a recipient: a write that has a version is
 * compared with that, too.
 */
export function encodeChange(change: Change, isLogged = false, pseudonymOf?: PseudonymOf): EncodedChange {
  const { decidedFor, reportedOf, generations = [] } = change
  const text = isLogged ? logTextOf(change) : undefined
  const {
    accept = [],
    moves = [],
    digests = [],
    answer,
    accounts,
    jobs,
    recipients,
    holds,
    contents = [],
  } = change
  return {
    accept: accept.map(acceptedRow),
    ids: accept.map(({ id }) => ({ id })),
    moves: moves.map(movedRow),
    versions: moves.map(movedVersion),
    contents: contents.map(({ id, tenant, bytes, content, data }) => ({
      row: { id, tenant, bytes, has_text: content !== undefined },
      texts: [storedJson({ content, ...(data === undefined ? {} : { data: dataOf(data) }) })],
    })),
    generations,
    log: text === undefined ? [] : [{ entries: text.entries, body: text.text }],
    delivered: deliveredRows(moves),
    digests: digests.map((write) => ({
      kind: write.kind,
      left: 'left' in write ? write.left : undefined,
      id: write.digest.id,
      tenant: write.digest.tenant,
      recipient: write.digest.recipient,
      channel: write.digest.channel,
      category: write.digest.category,
      name: write.digest.name,
      opened_at: write.digest.openedAt,
      closes_at: write.digest.closesAt,
      held_as: write.digest.heldAs,
    })),
    rest: {
      ...(recipients && {
        recipients: recipients.map(({ version, ...body }) => ({
          tenant: body.tenant,
          id: body.id,
          version,
          ...(version === undefined ? {} : { pseudonym: pseudonymOf?.(body.tenant, body.id) }),
          body,
        })),
      }),
      ...(decidedFor && { decided: decidedFor }),
      ...(reportedOf && { reported: reportedOf.map(({ notificationId: id, ...of }) => ({ id, ...of })) }),
      ...(answer && {
        answers: [{ ...answer, hash: answer.requestHash, created_at: answer.createdAt }],
      }),
      ...(jobs && { jobs: jobs.map(jobRow) }),
      ...(accounts && {
        accounts: accounts.map(({ channel, provider, account, ...held }) => ({
          channel,
          provider,
          account,
          ...(Object.values(held).some((value) => value !== undefined)
            ? { body: { channel, provider, account, ...held } }
            : {}),
        })),
      }),
      ...(holds && {
        holds: holds.map((write) =>
          write.kind === 'put'
            ? { name: write.hold.name, body: write.hold }
            : { name: write.name, until: write.until },
        ),
      }),
    },
  }
}

export interface EncodedGroup {
  /** Each row bears the place of its change. */
  readonly json: string
  /** The values that are only kept, one a line: JSON has no line breaks. A row names its first line, from 1 on. */
  readonly texts: string
}

export function encodeGroup(changes: readonly EncodedChange[]): EncodedGroup {
  const lines: string[] = []
  const kept = (rowsOf: (change: EncodedChange) => readonly KeptRow[]) =>
    placed((change) =>
      rowsOf(change).map(({ row, texts }) => {
        const t = lines.length + 1
        lines.push(...texts)
        return { ...row, t }
      }),
    )
  const placed = (rowsOf: (change: EncodedChange) => readonly object[]): readonly object[] | undefined => {
    const rows = changes.flatMap((change, c) => rowsOf(change).map((row) => ({ c, ...row })))
    return rows.length === 0 ? undefined : rows
  }
  const rest = {
    ...Object.fromEntries(restKinds.map((kind) => [kind, placed(({ rest }) => rest[kind] ?? [])])),
    contents: kept(({ contents }) => contents),
  }
  const hasRest = Object.values(rest).some((rows) => rows !== undefined)
  const json = storedJson({
    accept: kept(({ accept }) => accept),
    ids: placed(({ ids }) => ids),
    moves: kept(({ moves }) => moves),
    versions: placed(({ versions }) => versions),
    digests: placed(({ digests }) => digests),
    generations: placed(({ generations }) => generations),
    log: placed(({ log }) => log),
    delivered: placed(({ delivered }) => delivered),
    ...(hasRest ? { rest } : {}),
  })
  return { json, texts: lines.join('\n') }
}

/** A notification without the recipient and the content: only what limits select and count by, and the counts. */
export function anonymousOf(row: WholeRow, pseudonym: string) {
  const { content: _content, data: _data, shared: _shared, bytes: _bytes, ...body } = row.body
  const timeline = row.state.timeline.map(({ detail: _, ...event }: TimelineEvent) => event)
  const state: State & { readonly decision: Decision } = { ...row.state, timeline }
  // The fingerprint is emptied, because it would confirm a guessed content.
  return {
    id: row.id,
    recipient: pseudonym,
    body: { ...body, to: { id: pseudonym }, fingerprint: '' },
    state,
  }
}
