/**
 * A report of a known notification: the event to record, and the change that it makes at the recipient. The recipient may be
 * erased before that is written, so a change names the notifications of which it was reported. Pure.
 */
import type { FeedbackEvent, ReportedNotification } from '../ports/feedback.ts'
import type { ReportedOf } from '../ports/recipients.ts'
import { pseudonymPrefix } from '../ports.ts'
import type { ReportBy } from './correlation.ts'
import { changeOf, type RecipientChange } from './effects.ts'
import { cleanDetail, keyOf, type Report, type Reporter } from './report.ts'

export interface ReportedEvent {
  readonly reported: ReportBy
  readonly recipient: string
  /** The event's change of the recipient; absent where it changes nothing. */
  readonly change: RecipientChange | undefined
  readonly event: FeedbackEvent
}

export function reportedEvent(
  { report, by }: ReportBy,
  notification: ReportedNotification,
  now: number,
): ReportedEvent {
  return {
    reported: { report, by },
    recipient: notification.to.id,
    change: changeOf(report, notification),
    event: eventOf(report, notification, by, now),
  }
}

interface RecipientEdit {
  readonly tenant: string
  readonly recipient: string
  readonly change: RecipientChange
  readonly reportedOf: readonly ReportedOf[]
}

/** Finds what events change: all changes of a recipient, in their order, are one write. */
export function editsOf(events: readonly ReportedEvent[]): readonly RecipientEdit[] {
  const edits = events.flatMap(({ event, recipient, change }): readonly RecipientEdit[] => {
    if (change === undefined) return []
    const { tenant, notificationId } = event
    // Under a pseudonym an erasure changes nothing.
    const isErased = recipient.startsWith(pseudonymPrefix)
    return [
      { tenant, recipient, change, reportedOf: isErased ? [] : [{ tenant, recipient, notificationId }] },
    ]
  })
  const byRecipient = Map.groupBy(edits, ({ tenant, recipient }) => nameOfRecipient(tenant, recipient))
  return [...byRecipient.values()].map(([first, ...others]) => ({
    ...first!,
    reportedOf: [first!, ...others].flatMap(({ reportedOf }) => reportedOf),
    change: (before) => others.reduce((recipient, { change }) => change(recipient), first!.change(before)),
  }))
}

export const nameOfRecipient = (tenant: string, recipient: string): string =>
  JSON.stringify([tenant, recipient])

/** A reporter's clock may be ahead; an event does not count later than now. */
const notLater = (at: number, now: number): number => Math.min(at, now)

function eventOf(
  report: Report,
  notification: ReportedNotification,
  by: Reporter,
  now: number,
): FeedbackEvent {
  const { tenant, id, to, channel, category } = notification
  // The provider's words may repeat the address of a recipient who was erased meanwhile.
  const detail = to.id.startsWith(pseudonymPrefix) ? undefined : cleanDetail(report.detail)
  return {
    tenant,
    notificationId: id,
    key: keyOf(report),
    type: report.type,
    channel,
    category,
    at: notLater(report.at, now),
    keptAt: now,
    ...(report.permanent === true ? { permanent: true } : {}),
    ...(detail === undefined ? {} : { detail }),
    ...(by.tenant === undefined ? { account: by.account } : {}),
  }
}
