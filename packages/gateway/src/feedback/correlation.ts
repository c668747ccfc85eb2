/** Finds the notifications that reports are about, many at once. */
import type { FeedbackRecord, ReportedNotification } from '../ports/feedback.ts'
import type { Clock } from '../ports.ts'
import type { Report, Reporter } from './report.ts'
import { type SentKeys, sentForMs } from './sent-keys.ts'

export interface ReportBy {
  readonly report: Report
  readonly by: Reporter
}

export interface CorrelationOptions {
  readonly record: Pick<FeedbackRecord, 'findSent' | 'reported'>
  readonly keys: SentKeys
  readonly clock: Pick<Clock, 'now'>
}

/** Answers in the order of the reports; undefined where the notification is not known to the reporter (yet). */
export type Correlate = (
  reports: readonly ReportBy[],
) => Promise<readonly (ReportedNotification | undefined)[]>

export function createCorrelation({ record, keys, clock }: CorrelationOptions): Correlate {
  /** The key under which the message of a report was sent; undefined where it names neither id nor address. */
  function sentKeyOf({ report, by }: ReportBy): string | undefined {
    if (report.isStop === true)
      return by.tenant === undefined && report.address !== undefined
        ? keys.ofAddress(by.channel, by.account, report.address)
        : undefined
    return report.providerMessageId === undefined ? undefined : keys.ofMessage(report.providerMessageId)
  }

  /** Finds by the notification ids that reports name. */
  async function foundById(
    ids: readonly (string | undefined)[],
  ): Promise<readonly (ReportedNotification | undefined)[]> {
    const asked = [...new Set(ids.filter((id) => id !== undefined))]
    const found = asked.length === 0 ? [] : await record.reported(asked)
    const byId = new Map(asked.map((id, index) => [id, found[index]]))
    return ids.map((id) => byId.get(id ?? ''))
  }

  /** Finds by the provider's own ids and addresses. */
  async function foundBySent(
    sentKeys: readonly (string | undefined)[],
  ): Promise<readonly (ReportedNotification | undefined)[]> {
    const asked = [...new Set(sentKeys.filter((key) => key !== undefined))]
    if (asked.length === 0) return []
    const sent = await record.findSent(asked, clock.now() - sentForMs)
    const idOf = new Map(asked.map((key, index) => [key, sent[index]?.notificationId]))
    return foundById(sentKeys.map((key) => (key === undefined ? undefined : idOf.get(key))))
  }

  return async (reports) => {
    const byId = await foundById(reports.map(({ report }) => report.notificationId))
    // A caller names either id of its own tenant; a provider may send an id that is not ours.
    const isDecided = ({ report, by }: ReportBy, index: number): boolean =>
      report.notificationId !== undefined && (by.tenant !== undefined || byId[index] !== undefined)
    const bySent = await foundBySent(
      reports.map((each, index) => (isDecided(each, index) ? undefined : sentKeyOf(each))),
    )
    return reports.map(({ by }, index) => {
      const found = byId[index] ?? bySent[index]
      return found !== undefined && isOf(found, by) ? found : undefined
    })
  }
}

/** Tests if the reporter sent the notification: an account says nothing about messages of other accounts. */
function isOf({ tenant, channel, timeline }: ReportedNotification, by: Reporter): boolean {
  if (by.tenant !== undefined) return by.tenant === tenant
  return channel === by.channel && timeline.some(({ account }) => account === by.account)
}
