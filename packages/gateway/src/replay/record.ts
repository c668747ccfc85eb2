/**
 * Makes lines of traffic of a record: reads it page by page, so that a period of any length costs the memory of a page.
 * A sample is one of people: their windows are then whole.
 */
import { createHmac } from 'node:crypto'
import { encodeTime } from 'ulid'
import {
  addressField,
  type Channel,
  channels,
  type Notification,
  type Recipient,
  type TimelineEvent,
} from '../model.ts'
import { codeOfPhone } from '../policy/phone-zones.ts'
import type { Policy } from '../policy/policy.ts'
import type { TrafficSource } from '../ports/traffic.ts'
import { spreadOf, type TrafficHeader, type TrafficLine } from './traffic.ts'

export interface RecordOptions {
  readonly source: Pick<TrafficSource, 'tenants' | 'page' | 'recipients'>
  /** Epoch ms: inclusive and exclusive. */
  readonly from: number
  readonly to: number
  readonly now: number
  readonly tenant?: string
  readonly category?: string
  /** The share of people, above 0 to 1. @defaultValue 1 */
  readonly sample?: number
  /** The key of the pseudonyms, made for this file and kept nowhere; absent: names are the true ones. */
  readonly key?: Buffer
  /** The key by which the sample is drawn. */
  readonly sampleKey: Buffer
  readonly policy: Pick<Policy, 'version' | 'document'>
  /** Channels whose accounts hold the destination. */
  readonly selfAddressed: ReadonlySet<Channel>
}

const dayMs = 86_400_000
/** The longest window that a policy can have, ms. */
const warmUpMs = 31 * dayMs
/** A notification leaves at most so much later than it was accepted, by `maxDelay` and retries, ms. */
const leavesWithinMs = 8 * dayMs
/** Bytes of a pseudonym: 72 bits tell billions of names apart. */
const pseudonymBytes = 9

/** Letters of an id that are its time. */
const timeLetters = 10

const iso = (instant: number): string => new Date(instant).toISOString()

/** Yields the header, then the lines of each tenant, in pages. */
export async function* recordTraffic(
  options: RecordOptions,
): AsyncGenerator<readonly (TrafficHeader | TrafficLine)[]> {
  const { source, from, to, now, tenant, category, sample = 1, key, policy } = options
  const oldest = { at: Number.POSITIVE_INFINITY }
  const tenants = (await source.tenants()).filter((each) => tenant === undefined || each === tenant)
  for (const each of tenants) oldest.at = Math.min(oldest.at, await oldestOf(options, each))
  const nameOf = createNames(key)
  const header: TrafficHeader = {
    traffic: 'sluice',
    version: 1,
    from: iso(from),
    to: iso(to),
    recordedAt: iso(now),
    warmUpFrom: iso(from - warmUpMs),
    ...(Number.isFinite(oldest.at) ? { oldestAt: iso(oldest.at) } : {}),
    pseudonyms: key !== undefined,
    ...(tenant === undefined ? {} : { tenant: nameOf('tenant', tenant) }),
    ...(category === undefined ? {} : { category }),
    sample,
    policyVersion: policy.version,
    policy: policy.document,
  }
  yield [header]
  const lineOf = createLines(options, nameOf)
  for (const each of tenants)
    for await (const notifications of notificationsOf(options, each)) {
      const wanted = notifications.filter((one) => isInSample(options, one) && isWanted(options, one))
      if (wanted.length === 0) continue
      const recipients = await source.recipients(
        wanted.map((one) => ({ tenant: one.tenant, recipient: one.to.id })),
      )
      yield wanted.map((one, index) => lineOf(one, recipients[index]))
    }
}

async function* notificationsOf(
  { source, from, to }: RecordOptions,
  tenant: string,
): AsyncGenerator<readonly Notification[]> {
  const query = { tenant, from: from - warmUpMs - leavesWithinMs, to }
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await source.page(cursor === undefined ? query : { ...query, cursor })
    yield page.items
    cursor = page.nextCursor
  }
}

/** The first acceptance that the export can see: a record that begins later has a shorter warm-up. */
async function oldestOf({ source, from, to }: RecordOptions, tenant: string): Promise<number> {
  const { items } = await source.page({ tenant, from: from - warmUpMs - leavesWithinMs, to })
  return Math.min(...items.map(({ createdAt }) => createdAt), Number.POSITIVE_INFINITY)
}

function isInSample({ sample = 1, sampleKey }: RecordOptions, { tenant, to }: Notification): boolean {
  if (sample >= 1) return true
  const drawn = createHmac('sha256', sampleKey).update(`${tenant}\0${to.id}`).digest().readUInt32BE(0)
  return drawn / 2 ** 32 < sample
}

/** Keeps what was accepted before the period only where it counts in it: it left within the longest window, or still waited. */
function isWanted({ from, category }: RecordOptions, notification: Notification): boolean {
  if (category !== undefined && notification.category !== category) return false
  if (notification.createdAt >= from) return true
  const left = leftAtOf(notification)
  if (left !== undefined && left >= from - warmUpMs) return true
  return endOf(notification) >= from && notification.status !== 'suppressed'
}

/** The instant at which it was last handed to a provider, or may have been. */
export const leftAtOf = ({ firedAt, suspects, status }: Notification): number | undefined =>
  status === 'suppressed' ? undefined : (firedAt ?? suspects?.at(-1))

/** The instant at which it stopped waiting; infinite while it waits. */
function endOf({ status, timeline }: Notification): number {
  const waits =
    status === 'scheduled' || status === 'digesting' || status === 'queued' || status === 'sending'
  return waits ? Number.POSITIVE_INFINITY : (timeline.at(-1)?.at ?? 0)
}

type NameOf = (kind: string, name: string) => string

function createNames(key: Buffer | undefined): NameOf {
  if (key === undefined) return (_, name) => name
  return (kind, name) =>
    createHmac('sha256', key)
      .update(`${kind}\0${name}`)
      .digest()
      .subarray(0, pseudonymBytes)
      .toString('base64url')
}

function createLines({ from, key, selfAddressed }: RecordOptions, nameOf: NameOf) {
  let number = 0
  // Ids sort by time, and what waits longest comes first: so does a pseudonym.
  const digestNameOf = (id: string): string =>
    key === undefined ? id : `${id.slice(0, timeLetters)}${nameOf('digest', id)}`
  return (notification: Notification, recipient: Recipient | undefined): TrafficLine => {
    const { id, tenant, module, to, category, priority, template, actor, actors, createdAt } = notification
    const { decision, digestId, status, turnedAt, sendAt, expiresAt } = notification
    number += 1
    const channel = notification.requestedChannel ?? notification.channel
    const timeZone = to.timeZone ?? recipient?.timeZone
    const phone = timeZone === undefined ? (to.phone ?? recipient?.phone) : undefined
    const phoneCode = phone === undefined ? undefined : codeOfPhone(phone)
    const leftAt = leftAtOf(notification)
    const dueAt = dueOf(notification)
    const reason = reasonOf(notification)
    const isDigest = actors !== undefined
    const digest = isDigest ? id : digestId
    const trouble = troubleOf(notification)
    const whose = `${tenant}\0${to.id}`
    return {
      at: iso(createdAt),
      id: key === undefined ? id : `${encodeTime(createdAt)}n${String(number).padStart(9, '0')}`,
      tenant: nameOf('tenant', tenant),
      module,
      recipient: nameOf('recipient', key === undefined ? to.id : whose),
      channel,
      category,
      priority,
      ...(template === undefined ? {} : { template }),
      ...(actor === undefined ? {} : { actor: nameOf('actor', actor) }),
      ...(actors === undefined ? {} : { actors: actors.map((each) => nameOf('actor', each)) }),
      ...(sendAt === undefined ? {} : { sendAt: iso(sendAt) }),
      ...(expiresAt === undefined ? {} : { expiresAt: iso(expiresAt) }),
      fingerprint: nameOf('fingerprint', notification.fingerprint),
      ...(timeZone === undefined ? {} : { timeZone }),
      ...(phoneCode === undefined ? {} : { phoneCode }),
      ...(recipient?.quietHours === undefined ? {} : { quietHours: recipient.quietHours }),
      ...(recipient?.optOuts === undefined ? {} : { optOuts: recipient.optOuts }),
      reachable: channels.filter(
        (each) =>
          selfAddressed.has(each) ||
          to[addressField[each]] !== undefined ||
          recipient?.[addressField[each]] !== undefined,
      ),
      outcome: decision.outcome,
      ...(reason === undefined ? {} : { reason }),
      ...(decision.limit === undefined ? {} : { limit: decision.limit }),
      ...(dueAt === undefined ? {} : { dueAt: iso(dueAt) }),
      ...(leftAt === undefined ? {} : { leftAt: iso(leftAt) }),
      state: status,
      ...(notification.requestedChannel === undefined ? {} : { fallback: notification.channel }),
      policyVersion: decision.policyVersion,
      ...(turnedAt === undefined ? {} : { passedAt: iso(turnedAt) }),
      ...(status === 'cancelled' ? { cancelledAt: iso(notification.timeline.at(-1)!.at) } : {}),
      ...(digest === undefined ? {} : { digest: digestNameOf(digest) }),
      ...(isDigest ? { isDigest } : {}),
      ...(key === undefined ? {} : { spread: spreadOf(id) }),
      ...(createdAt < from ? { warmUp: true } : {}),
      ...(trouble === undefined ? {} : { trouble }),
    }
  }
}

/** The reason of the decision; for a suppressed notification that of its suppression. */
export const reasonOf = ({ status, decision, timeline }: Notification): string | undefined =>
  status === 'suppressed' ? (timeline.at(-1)?.reason ?? decision.reason) : decision.reason

/** The instant that the policy gave it: of an item of a digest, the instant at which that one was made or is to be. */
export function dueOf({ status, decision, dueAt, undecided }: Notification): number | undefined {
  if (status === 'suppressed') return undefined
  if (status === 'merged' || status === 'digesting' || undecided === true) return dueAt
  return decision.at ?? dueAt
}

const ofProvider: ReadonlySet<string> = new Set([
  'retry',
  'provider_capacity',
  'pool_blocked',
  'shed',
  'circuit_open',
  'attempts_exhausted',
  'outcome_unknown',
  'poison',
])

/** Finds what had a part in a notification's way that no policy decides. */
function troubleOf({ timeline, suspects, attempts }: Notification): TrafficLine['trouble'] {
  const has = (test: (event: TimelineEvent) => boolean): boolean => timeline.some(test)
  if (has(({ reason }) => reason === 'held' || reason === 'complaint_guard')) return 'operator'
  if (attempts > 1 || suspects !== undefined) return 'provider'
  return has(({ reason }) => reason !== undefined && ofProvider.has(reason)) ? 'provider' : undefined
}
