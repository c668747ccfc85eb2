/**
 * Formats what clients read: instants as ISO 8601 in UTC with milliseconds. Absent fields are left out, but for
 * those of every notification: `template`, `sendAt` and `expiresAt` are null where they have no value.
 */

import type { Decision, Job, Notification, Recipient, RuleReport, Status, TimelineEvent } from '../model.ts'
import { isFinal, statuses } from '../model.ts'
import type { Ledger, LimitUsage } from '../stages.ts'
import { type Identity, mayRead } from './identity.ts'

let last = { instant: 0, text: new Date(0).toISOString() }
let lastButOne = last

/** Caches the last instants: one answer names the same two again and again, and formatting one takes 0.5 µs. */
export function iso(instant: number): string {
  if (instant === last.instant) return last.text
  const known = lastButOne
  lastButOne = last
  last = instant === known.instant ? known : { instant, text: new Date(instant).toISOString() }
  return last.text
}

/**
 * Formats an instant; `null` stays, and instants beyond what a Date can hold become `null` too: both mean
 * never.
 */
export const isoOrNull = (instant: number | null): string | null =>
  instant === null || !(Math.abs(instant) <= 8.64e15) ? null : iso(instant)
const isoOrAbsent = (instant: number | undefined): string | undefined =>
  instant === undefined ? undefined : (isoOrNull(instant) ?? undefined)

const ruleAnswer = (rule: RuleReport) => ({ ...rule, freesAt: isoOrNull(rule.freesAt) })

export function decisionAnswer({ outcome, reason, limit, at, policyVersion, rules }: Decision) {
  return { outcome, reason, limit, at: isoOrAbsent(at), policyVersion, rules: rules.map(ruleAnswer) }
}

/** The answer to the request that brought a notification. `sendAt` is the instant until which it waits. */
export function acceptedAnswer(notification: Notification) {
  const { id, status, decision, dueAt } = notification
  const waits = status === 'scheduled' || status === 'digesting'
  return {
    notificationId: id,
    status,
    sendAt: waits ? isoOrAbsent(decision.at ?? dueAt) : undefined,
    decision: decisionAnswer(decision),
  }
}

/** The result of one recipient of a batch: results have one form, whether they wait or not. */
export function acceptedResult(recipient: string, notification: Notification) {
  const { sendAt = null, ...accepted } = acceptedAnswer(notification)
  return { recipient, ...accepted, sendAt }
}

/**
 * Adds the state in memory to the recorded one: queued, or with a provider, at this process or at another one. The last
 * event of the timeline has the state that is shown. A notification whose right to send is given, and whose limits are
 * being asked, is still queued.
 */
export function shown(recorded: Notification, ledger: Pick<Ledger, 'live'>): Notification {
  const { status, timeline, begunAt } = recorded
  if (isFinal(status)) return recorded
  const live = ledger.live(recorded.id)
  if (live !== undefined && live.status !== status) {
    const events = [...timeline, ...live.events]
    const isAsked = live.status === 'sending' && events.at(-1)?.status === 'queued'
    return { ...recorded, status: isAsked ? 'queued' : live.status, timeline: events }
  }
  if (status !== 'sending' || begunAt === undefined) return recorded
  return { ...recorded, timeline: [...timeline, { at: begunAt, status }] }
}

/** True where a caller may see a job: one of its own module, or any for operators. */
export const knowsJobOf = (caller: Identity, of: Pick<Job, 'module'>): boolean =>
  caller.module === of.module || mayRead(caller)

/** The notification as the caller may see it; a job of another module is left out. */
export function notificationAnswer(notification: Notification, caller: Identity) {
  const { id, to, decision, sendAt: _asked, dueAt, createdAt, expiresAt, timeline, status } = notification
  const { tenant, module, job, channel, requestedChannel, category, template, priority, actor, digestId } =
    notification
  return {
    notificationId: id,
    tenant,
    module,
    jobId: knowsJobOf(caller, notification) ? job : undefined,
    recipient: to.id,
    channel,
    requestedChannel,
    category,
    template: template ?? null,
    priority,
    actor,
    status,
    sendAt: isoOrNull(leavesAt(status, dueAt, decision) ?? null),
    createdAt: iso(createdAt),
    expiresAt: isoOrNull(expiresAt ?? null),
    decision: decisionAnswer(decision),
    digestId,
    timeline: timeline.map(eventAnswer),
  }
}

/**
 * The instant of the next send: a waiting notification (a retry too) leaves when it is due; for the others the
 * decision gives it.
 */
function leavesAt(status: Status, dueAt: number, decision: Decision): number | undefined {
  return status === 'scheduled' || status === 'digesting' ? dueAt : decision.at
}

export function eventAnswer({ at, status, reason, provider, account, attempt, detail }: TimelineEvent) {
  return { at: iso(at), status, reason, provider, account, attempt, detail }
}

/** @param aheadMs how far the wall clock is ahead of the process's own time, ms */
export function recipientAnswer(recipient: Recipient, aheadMs: number) {
  const { tenant: _, version: _version, invalid, ...fields } = recipient
  if (invalid === undefined) return fields
  const shown = invalid.map(({ channel, at, detail }) => ({ channel, at: iso(at + aheadMs), detail }))
  return { ...fields, invalid: shown }
}

/**
 * The answer for a job. States without any of its notifications are left out, and so are recipients that it has
 * not come to yet.
 */
export function jobAnswer({ id, status, total, refused }: Job, members: readonly Status[]) {
  const counts = statuses.map((each) => [each, members.filter((member) => member === each).length] as const)
  return {
    jobId: id,
    status,
    total,
    counts: Object.fromEntries(counts.filter(([, count]) => count > 0)),
    refused: refused.length === 0 ? undefined : refused,
  }
}

export function limitsAnswer(usage: readonly LimitUsage[]) {
  const limits = usage.map(({ limit, window, used, max, remaining, reserved, freesAt }) => ({
    limit,
    window,
    used,
    max,
    remaining,
    reserved,
    freesAt: isoOrNull(freesAt),
  }))
  return { limits }
}
