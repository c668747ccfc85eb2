/**
 * The record with which a replay begins: what really left in the longest window before the period, and what still waited
 * when it began, with the instants that it held. The gateway fills its limits from this record as after a restart.
 */
import { fingerprint } from '../admission/duplicates.ts'
import {
  addressField,
  advance,
  type Channel,
  type Digest,
  type Draft,
  type Move,
  type Notification,
  type Recipient,
  type RecipientFields,
} from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Change, Store } from '../ports.ts'
import type { TrafficLine } from './traffic.ts'

/** Rows of one change. */
const rowsMax = 1_000
/** A country code that no country has. */
const noCountry = '+999'
const noText = { text: '–' } as const

/** Makes the recipient of a line reachable as the line says, under addresses that are none. */
function recipientOf({ recipient, reachable, timeZone, phoneCode }: TrafficLine): RecipientFields {
  const fields: Record<string, string> = { id: recipient }
  for (const channel of reachable)
    if (channel !== 'websocket') fields[addressField[channel]] = addressOf(channel, recipient, phoneCode)
  if (timeZone !== undefined) fields.timeZone = timeZone
  return fields as unknown as RecipientFields
}

const addressOf = (channel: Channel, recipient: string, phoneCode = noCountry): string =>
  channel === 'sms' ? `${phoneCode} ${recipient}` : `${channel} ${recipient}`

const msOf = (text: string | undefined): number | undefined =>
  text === undefined ? undefined : Date.parse(text)

/** Makes the request of a line. Equal fingerprints give equal data, and so equal fingerprints again. */
export function draftOf(line: TrafficLine): Omit<Draft, 'shared' | 'job'> {
  const { channel, category, priority, template, actor } = line
  const [sendAt, expiresAt] = [msOf(line.sendAt), msOf(line.expiresAt)]
  return {
    to: recipientOf(line),
    channel,
    category,
    priority,
    data: { fingerprint: line.fingerprint },
    ...(template === undefined ? { content: noText } : { template }),
    ...(actor === undefined ? {} : { actor }),
    ...(sendAt === undefined ? {} : { sendAt }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
  }
}

export interface SeedOptions {
  readonly store: Pick<Store, 'commit'>
  readonly policy: Policy
  readonly lines: readonly TrafficLine[]
  /** The beginning of the period, epoch ms. */
  readonly from: number
}

/** Writes the preferences of all recipients, and what was accepted before the period. */
export async function seedRecord(options: SeedOptions): Promise<void> {
  const { lines, from } = options
  await writeRecipients(options)
  const before = lines.filter(({ warmUp }) => warmUp === true)
  const left = before.filter(({ leftAt }) => leftAt !== undefined && Date.parse(leftAt) < from)
  const waiting = before.filter((line) => line.isDigest !== true && isWaiting(line, from))
  for (let first = 0; first < left.length; first += rowsMax) {
    const moves = left.slice(first, first + rowsMax).map((line) => movesOut(options, line))
    await write(options, { accept: moves.map((move) => move.before) })
    await write(options, { moves })
  }
  const inDigest = waiting.filter(({ state, digest }) => isItem(state) && digest !== undefined)
  await openDigests(options, inDigest)
  const others = waiting.filter(({ state }) => !isItem(state))
  for (let first = 0; first < others.length; first += rowsMax)
    await write(options, {
      accept: others.slice(first, first + rowsMax).map((line) => {
        const dueAt = Math.max(from, msOf(line.leftAt) ?? msOf(line.dueAt) ?? from)
        return notificationOf(options, line, { status: 'scheduled', dueAt })
      }),
    })
}

const isItem = (state: TrafficLine['state']): boolean => state === 'merged' || state === 'digesting'

function isWaiting({ leftAt, dueAt, state, cancelledAt }: TrafficLine, from: number): boolean {
  const until = msOf(leftAt) ?? msOf(cancelledAt) ?? msOf(dueAt) ?? 0
  return state !== 'suppressed' && until >= from
}

async function write({ store }: SeedOptions, change: Change): Promise<void> {
  const result = await store.commit(change)
  if (!result.applied) throw new Error(`the record before the period: ${JSON.stringify(result.conflicts[0])}`)
}

async function writeRecipients(options: SeedOptions): Promise<void> {
  const known = new Map<string, Recipient>()
  for (const { tenant, recipient, quietHours, optOuts } of options.lines)
    if (quietHours !== undefined || optOuts !== undefined)
      known.set(`${tenant}\n${recipient}`, {
        tenant,
        id: recipient,
        ...(quietHours === undefined ? {} : { quietHours }),
        ...(optOuts === undefined ? {} : { optOuts }),
      })
  const recipients = [...known.values()]
  for (let first = 0; first < recipients.length; first += rowsMax)
    await write(options, { recipients: recipients.slice(first, first + rowsMax) })
}

function movesOut(options: SeedOptions, line: TrafficLine): Move {
  const leftAt = Date.parse(line.leftAt!)
  const before = notificationOf(options, line, { status: 'queued', dueAt: leftAt })
  const events = [
    { at: leftAt, status: 'sending' },
    { at: leftAt, status: 'delivered' },
  ] as const
  return advance(before, events, { firedAt: leftAt, attempts: 1 })
}

/** Opens the digests that were open when the period began; each closes when it really did. */
async function openDigests(options: SeedOptions, items: readonly TrafficLine[]): Promise<void> {
  const { policy, lines, from } = options
  const closedAt = new Map<string, number>()
  for (const { isDigest, digest, at } of lines)
    if (isDigest === true && digest !== undefined) closedAt.set(digest, Date.parse(at))
  const groups = Map.groupBy(items, ({ digest }) => digest!)
  for (const [id, members] of groups) {
    const [first] = members
    const { tenant, recipient, channel, category } = first!
    const name = (policy.digestFor(first!) ?? policy.digests[0])?.name
    const dueAt = Math.max(from, closedAt.get(id) ?? msOf(first!.dueAt) ?? from)
    const openedAt = Math.min(...members.map(({ at }) => Date.parse(at)))
    const digest: Digest | undefined =
      name === undefined
        ? undefined
        : { id, tenant, recipient, channel, category, name, openedAt, closesAt: dueAt }
    await write(options, {
      accept: members.map((line) =>
        notificationOf(options, line, {
          dueAt,
          status: digest === undefined ? 'scheduled' : 'digesting',
          ...(digest === undefined ? {} : { digestId: id }),
        }),
      ),
      ...(digest === undefined ? {} : { digests: [{ kind: 'open', digest }] }),
    })
  }
}

function notificationOf(
  { policy }: SeedOptions,
  line: TrafficLine,
  patch: Pick<Notification, 'status' | 'dueAt'> & Partial<Pick<Notification, 'digestId'>>,
): Notification {
  const { id, tenant, module, actors, fallback } = line
  const createdAt = Date.parse(line.at)
  const draft = draftOf(line)
  const { status, dueAt } = patch
  return {
    ...draft,
    id: line.isDigest === true ? (line.digest ?? id) : id,
    tenant,
    module,
    ...(actors === undefined ? {} : { actors }),
    ...(fallback === undefined ? {} : { channel: fallback, requestedChannel: line.channel }),
    createdAt,
    fingerprint: fingerprint(tenant, draft),
    attempts: 0,
    decision: { outcome: 'send', at: dueAt, policyVersion: policy.version, rules: [] },
    timeline: [
      { at: createdAt, status: 'accepted' },
      { at: createdAt, status },
    ],
    ...patch,
  }
}
