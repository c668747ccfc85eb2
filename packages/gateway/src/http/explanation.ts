/**
 * Explains the present state of one notification: a verdict, the limit or account that holds it, the instant until
 * which it waits, and one sentence that says all of it. The HTTP API, the command line and the console show the same
 * sentence, which is made here alone. Pure: the caller passes the facts and the time, in wall time.
 */

import { awaitsLimits } from '../awaits-limits.ts'
import { waitingReason } from '../backlog-cell.ts'
import { isUnserved } from '../bounds.ts'
import type { Notification, Reason, RuleReport, TimelineEvent } from '../model.ts'
import { awaitsConnection } from '../model.ts'
import type { AccountReport } from '../stages.ts'

export const verdicts = [
  'waits',
  'due',
  'sending',
  'delivered',
  'suppressed',
  'merged',
  'dead',
  'failed',
  'cancelled',
  'expired',
] as const
type Verdict = (typeof verdicts)[number]

/** A notification of the same recipient that uses or has booked a place of the limit. */
export interface Holder {
  readonly notificationId: string
  readonly at: number
}

/** The accounts of the notification's channel. */
interface AccountsOut {
  readonly out: number
  readonly of: number
  /** The earliest instant at which one of them is back; null where none is out. */
  readonly firstBackAt: number | null
  /** Accounts that are out, the first to be back first; absent for callers that may not see accounts. */
  readonly named?: readonly Pick<AccountReport, 'id' | 'status' | 'outUntil' | 'outBecause'>[]
}

export interface Explanation {
  readonly verdict: Verdict
  readonly reason?: Reason
  readonly limit?: string
  readonly window?: string
  readonly until?: number
  /** `booked`: the instant is held by a reservation. `estimate`: it depends on others. */
  readonly untilIs?: 'booked' | 'estimate'
  readonly heldBy?: readonly Holder[]
  readonly accounts?: AccountsOut
  /** True for a dead letter that the gateway redrives by itself. */
  readonly returnsByItself?: boolean
  /** The departure, or now, minus the promised instant, ms. */
  readonly latenessMs?: number
  /** Actions that this state admits. */
  readonly next: readonly ('cancel' | 'redrive')[]
  readonly text: string
}

export interface ExplainedFacts {
  /** The notification with its state in memory. */
  readonly notification: Notification
  /** The accounts of its channel, of all pools. */
  readonly accounts: readonly AccountReport[]
  /** Notifications of its recipient that hold places of the deciding limit. @defaultValue none */
  readonly heldBy?: readonly Holder[]
  /** The hold of an operator that stops it longest. @defaultValue none */
  readonly hold?: { readonly name: string; readonly reason: string }
  readonly now: number
  /** True where the caller may see accounts by name: an operator. */
  readonly namesAccounts: boolean
}

/** Names the reason for which an account is out. */
const keptOutBy = { rate_limited: 'a 429', breaker: 'its breaker', hold: 'an operator' } as const

/** Accounts that one sentence names at most; the others are counted. */
const namedMax = 5

/** Causes of dead letters that the gateway redrives when there is room. */
const returning: ReadonlySet<string> = new Set(['pool_blocked', 'shed', 'circuit_open'])

export const returnsByItself = (cause: string | undefined): boolean => returning.has(cause ?? '')

export function explain(facts: ExplainedFacts): Explanation {
  const { notification, now } = facts
  switch (notification.status) {
    case 'accepted':
    case 'scheduled':
    case 'digesting':
      return notification.dueAt > now ? explainWaiting(facts) : explainDue(facts)
    case 'queued':
      return awaitsLimits(notification) ? explainUndecided(facts) : explainDue(facts)
    case 'sending':
      return {
        verdict: 'sending',
        next: [],
        text: `Is with the provider since ${at(notification.timeline.at(-1)?.at ?? now)}; its answer is not here yet.`,
      }
    case 'dead':
      return explainDead(facts)
    default:
      return explainEnded(notification)
  }
}

function explainWaiting({
  notification,
  accounts,
  heldBy = [],
  hold,
  namesAccounts,
}: ExplainedFacts): Explanation {
  const { decision, dueAt } = notification
  const reason = waitingReason(notification)
  const rule = reason === decision.reason ? decidingRule(notification) : undefined
  const isEstimate = reason !== undefined && estimated.includes(reason)
  const about = {
    verdict: 'waits' as const,
    ...(reason === undefined ? {} : { reason }),
    ...(reason !== decision.reason || decision.limit === undefined ? {} : { limit: decision.limit }),
    ...(rule === undefined ? {} : { window: rule.window }),
    until: dueAt,
    untilIs: isEstimate ? ('estimate' as const) : ('booked' as const),
    next: ['cancel'] as const,
  }
  if (awaitsConnection(notification)) {
    return {
      ...about,
      untilIs: 'estimate',
      text: `Waits for its recipient to connect, at the latest until ${at(dueAt)}.`,
    }
  }
  if (reason === 'provider_capacity' || reason === 'retry') {
    const out = accountsOut(accounts, namesAccounts)
    return {
      ...about,
      accounts: out,
      text: `Waits until ${at(dueAt)}: ${retryText(notification, reason)}; ${accountsText(notification, out)}.`,
    }
  }
  const holders = reason === 'recipient_limit' ? heldBy : []
  return {
    ...about,
    ...(holders.length === 0 ? {} : { heldBy: holders }),
    text: `Waits until ${at(dueAt)}${isEstimate ? ' by estimate' : ''}: ${reason === 'held' && hold !== undefined ? holdText(hold) : waitingText(notification, reason, rule)}.`,
  }
}

/** Reasons whose end depends on others: on those before it in a queue, on a provider, on further complaints. */
const estimated: readonly Reason[] = ['tenant_limit', 'module_limit', 'provider_capacity', 'complaint_guard']

const holdText = ({ name, reason }: NonNullable<ExplainedFacts['hold']>): string =>
  `the hold ${name} of an operator stops it until then (${reason})`

function waitingText(
  { tenant, module, digestId, category, timeline }: Notification,
  reason: Reason | undefined,
  rule: RuleReport | undefined,
): string {
  switch (reason) {
    case 'recipient_limit':
      return rule === undefined
        ? 'a limit of the recipient has no place before'
        : `the limit ${rule.limit} admits ${rule.window}, and its places are used or booked until then`
    case 'quiet_hours':
      return 'the quiet hours of the recipient last until then'
    case 'legal_hours':
      return `the law allows no ${category} message at the hours before`
    case 'held':
      return 'an operator has stopped it until then'
    case 'send_at':
      return 'the request asked for this instant'
    case 'tenant_limit':
      return `the tenant ${tenant} is above its rate, and its notifications leave first in, first out`
    case 'module_limit':
      return `the module ${module} is above its rate, and its notifications leave first in, first out`
    case 'digest':
      return `it is collected in a digest${digestId === undefined ? '' : ` (${digestId})`} that is sent then`
    case 'complaint_guard':
      return `too many recipients complain about ${category}, so that category is slowed down`
    default:
      return timeline.at(-1)?.detail ?? 'this instant is booked for it'
  }
}

/** Explains a notification that was accepted while the limits could not be asked. */
function explainUndecided({ notification: { createdAt } }: ExplainedFacts): Explanation {
  return {
    verdict: 'waits',
    reason: 'state_unavailable',
    next: ['cancel'],
    text: `Waits since ${at(createdAt)} for the server of the limits, which did not answer; it is decided when that answers again.`,
  }
}

/** Explains a notification whose instant has come: only its turn and the accounts are in its way. */
function explainDue({ notification, accounts, now, namesAccounts }: ExplainedFacts): Explanation {
  const { dueAt } = notification
  const out = accountsOut(accounts, namesAccounts)
  const allOut = out.of > 0 && out.out === out.of
  const last = notification.timeline.findLast((event) => event.attempt !== undefined)
  const before = last === undefined ? '' : `; ${attemptText(last)} before`
  return {
    verdict: 'due',
    ...(allOut || out.of === 0 ? { reason: 'provider_capacity' as const } : {}),
    ...(allOut && out.firstBackAt !== null ? { until: out.firstBackAt, untilIs: 'estimate' as const } : {}),
    accounts: out,
    latenessMs: Math.max(0, now - dueAt),
    next: ['cancel'],
    text: `Is due since ${at(Math.min(dueAt, now))} and waits for an account: ${accountsText(notification, out)}${before}.`,
  }
}

function retryText({ timeline }: Notification, reason: 'provider_capacity' | 'retry'): string {
  const last = timeline.findLast((event) => event.attempt !== undefined)
  if (last !== undefined) return `${attemptText(last)} and it is tried again then`
  return reason === 'retry' ? 'it is tried again then' : 'it returned from the dead letters and is sent then'
}

function attemptText({ attempt, provider, account, detail }: TimelineEvent): string {
  const through = provider === undefined ? '' : ` through ${provider}/${account}`
  return `attempt ${attempt}${through} did not succeed${detail === undefined ? '' : ` (${detail})`}`
}

function explainDead({ notification, accounts, namesAccounts, now }: ExplainedFacts): Explanation {
  const { channel, timeline, expiresAt } = notification
  const death = timeline.findLast((event) => event.status === 'dead')
  const cause = death?.reason
  const returns = returnsByItself(cause)
  const out = returns ? accountsOut(accounts, namesAccounts) : undefined
  const ends = expiresAt === undefined || expiresAt <= now ? '' : `, or expires at ${at(expiresAt)}`
  const stays = returns ? 'returns by itself when there is room' : 'stays until an operator redrives it'
  const where = out === undefined ? '' : `; ${accountsText(notification, out)}`
  return {
    verdict: 'dead',
    ...(cause === undefined ? {} : { reason: cause }),
    ...(out === undefined ? {} : { accounts: out }),
    ...(out === undefined || out.firstBackAt === null
      ? {}
      : { until: out.firstBackAt, untilIs: 'estimate' as const }),
    returnsByItself: returns,
    next: ['redrive', 'cancel'],
    text: `Is a dead letter since ${at(death?.at ?? now)} (${cause ?? 'unknown cause'}): ${causeText(cause, channel, death)}${where}. It ${stays}${ends}.`,
  }
}

function causeText(cause: Reason | undefined, channel: string, death: TimelineEvent | undefined): string {
  const last = death?.detail === undefined ? '' : ` (${death.detail})`
  const attempt = death?.attempt === undefined ? 'the last attempt' : `attempt ${death.attempt}`
  const through = death?.provider === undefined ? '' : ` through ${death.provider}/${death.account}`
  switch (cause) {
    case 'pool_blocked':
      return `no account for ${channel} could carry it${last}`
    case 'circuit_open':
      return `every account for ${channel} had failed too often${last}`
    case 'shed':
      return `the pool for ${channel} had too little room while accounts were out${last}`
    case 'attempts_exhausted':
      return `${attempt}${through} failed and was the last${last}`
    case 'outcome_unknown':
      return `the provider never said if it took ${attempt}${through}, so a retry may be a second message${last}`
    default:
      return `it could not be read${last}`
  }
}

function explainEnded(notification: Notification): Explanation {
  const { status, timeline, decision, digestId, expiresAt } = notification
  const end = timeline.at(-1)
  const when = at(end?.at ?? notification.createdAt)
  const reason = end?.reason ?? (status === 'suppressed' ? decision.reason : undefined)
  const about = { verdict: status as Verdict, ...(reason === undefined ? {} : { reason }), next: [] }
  const through = end?.provider === undefined ? '' : ` through ${end.provider}/${end.account}`
  const detail = end?.detail === undefined ? '' : ` (${end.detail})`
  switch (status) {
    case 'delivered': {
      const latenessMs = latenessOf(notification)
      const late = latenessMs === undefined ? '' : `, ${latenessMs} ms after the promised instant`
      return {
        ...about,
        ...(latenessMs === undefined ? {} : { latenessMs }),
        text: `Was delivered at ${when}${through}${late}.`,
      }
    }
    case 'suppressed': {
      const rule = decidingRule(notification)
      return {
        ...about,
        ...(decision.limit === undefined ? {} : { limit: decision.limit }),
        ...(rule === undefined ? {} : { window: rule.window }),
        text: `Was not sent: ${suppressedText(notification, reason, rule)}.`,
      }
    }
    case 'merged':
      return { ...about, text: `Left as part of the digest ${digestId ?? '–'} at ${when}.` }
    case 'failed':
      return { ...about, text: `Failed for good at ${when}${through}: the provider refused it${detail}.` }
    case 'cancelled':
      return { ...about, text: `Was cancelled at ${when} and is not sent${detail}.` }
    default:
      return {
        ...about,
        text: `Expired at ${when} unsent: ${expiresAt === undefined ? 'it waited longer than the policy allows' : `it was of no use after ${at(expiresAt)}`}.`,
      }
  }
}

function suppressedText(
  { channel, category, to }: Notification,
  reason: Reason | undefined,
  rule: RuleReport | undefined,
): string {
  switch (reason) {
    case 'duplicate':
      return 'the same message for this recipient was accepted shortly before'
    case 'opted_out':
      return `the recipient ${to.id} has opted out of ${category} by ${channel}`
    case 'over_limit': {
      if (rule === undefined) return 'a limit refuses it'
      const frees = rule.freesAt === null ? '' : `, the next of which is free at ${at(rule.freesAt)}`
      return `the limit ${rule.limit} admits ${rule.window}, and all of its places are taken${frees}`
    }
    case 'complaint_guard':
      return `too many recipients complain about ${category}`
    case 'invalid_address':
      return `there is no address by which ${channel} reaches the recipient ${to.id}`
    default:
      return 'it was refused'
  }
}

/** The window of the deciding limit that frees last: the one for which it waits. */
function decidingRule({ decision }: Notification): RuleReport | undefined {
  const { rules, limit } = decision
  const refusing = rules.filter((rule) => rule.limit === limit && !rule.admits)
  const [first, ...others] = refusing.length > 0 ? refusing : rules.filter((rule) => rule.limit === limit)
  if (first === undefined) return undefined
  const freesAt = (rule: RuleReport): number => rule.freesAt ?? Number.POSITIVE_INFINITY
  return others.reduce((last, rule) => (freesAt(rule) > freesAt(last) ? rule : last), first)
}

/** The first departure minus the promised instant, ms; retries are not measured by it. */
function latenessOf({ timeline, decision }: Notification): number | undefined {
  const sent = timeline.find((event) => event.status === 'sending')
  if (sent === undefined || decision.at === undefined) return undefined
  return Math.max(0, sent.at - decision.at)
}

function accountsOut(accounts: readonly AccountReport[], namesAccounts: boolean): AccountsOut {
  const out = accounts
    .filter(({ status }) => status !== 'healthy')
    .sort((a, b) => (a.outUntil ?? 0) - (b.outUntil ?? 0))
  return {
    out: out.length,
    of: accounts.length,
    firstBackAt: out[0]?.outUntil ?? null,
    ...(namesAccounts
      ? {
          named: out
            .slice(0, namedMax)
            .map(({ id, status, outUntil, outBecause }) => ({ id, status, outUntil, outBecause })),
        }
      : {}),
  }
}

function accountsText(
  notification: Pick<Notification, 'channel' | 'status' | 'timeline'>,
  { out, of, firstBackAt, named }: AccountsOut,
): string {
  const { channel } = notification
  if (of === 0 || isUnserved(notification)) return `no pool serves ${channel} in this configuration`
  if (out === 0)
    return of === 1 ? `the account for ${channel} is in` : `all ${of} accounts for ${channel} are in`
  const back = firstBackAt === null ? '' : `, the first is back at ${at(firstBackAt)}`
  const count =
    out === of ? (of === 1 ? `the only account` : `all ${of} accounts`) : `${out} of ${of} accounts`
  const verb = out === 1 ? 'is' : 'are'
  if (named === undefined || named.length === 0) return `${count} for ${channel} ${verb} out${back}`
  const names = named.map(
    ({ id, outUntil, outBecause, status }) =>
      `${id}${outUntil === null ? '' : ` until ${at(outUntil)}`} by ${outBecause === null ? status : keptOutBy[outBecause]}`,
  )
  const more = out > named.length ? [`${out - named.length} more`] : []
  return `${count} for ${channel} ${verb} out: ${[...names, ...more].join(', ')}`
}

/** Formats an instant for a sentence: `2026-11-22 07:00:00Z`, with milliseconds where there are any. */
function at(instant: number): string {
  if (!(Math.abs(instant) <= 8.64e15)) return 'an unknown instant'
  return new Date(instant).toISOString().replace('T', ' ').replace('.000Z', 'Z')
}
