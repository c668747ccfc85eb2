/** Finds the notifications that reports are about, many at once. */
import type { FeedbackRecord } from '../feedback-port.ts'
import type { Notification } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import type { Report, Reporter } from './report.ts'
import { type SentKeys, sentForMs } from './sent-keys.ts'

export interface ReportBy {
  readonly report: Report
  readonly by: Reporter
}

export interface CorrelationOptions {
  readonly store: Pick<Store, 'notification'>
  readonly record: Pick<FeedbackRecord, 'findSent' | 'tenantsOf'>
  readonly keys: SentKeys
  readonly clock: Pick<Clock, 'now'>
}

interface Name {
  readonly tenant: string
  readonly id: string
}

/** Answers in the order of the reports; undefined where the notification is not known to the reporter (yet). */
export type Correlate = (reports: readonly ReportBy[]) => Promise<readonly (Notification | undefined)[]>

export function createCorrelation({ store, record, keys, clock }: CorrelationOptions): Correlate {
  /** The key under which the message of a report was sent; undefined where it names neither id nor address. */
  function sentKeyOf({ report, by }: ReportBy): string | undefined {
    if (report.isStop === true)
      return by.tenant === undefined && report.address !== undefined
        ? keys.ofAddress(by.channel, by.account, report.address)
        : undefined
    return report.providerMessageId === undefined ? undefined : keys.ofMessage(report.providerMessageId)
  }

  /** Finds by the notification id that a report names. */
  async function namesById(reports: readonly ReportBy[]): Promise<readonly (Name | undefined)[]> {
    const foreign = reports.flatMap(({ report, by }) =>
      by.tenant === undefined && report.notificationId !== undefined ? [report.notificationId] : [],
    )
    const ids = [...new Set(foreign)]
    const tenants = new Map<string, string | undefined>()
    const found = ids.length === 0 ? [] : await record.tenantsOf(ids)
    for (const [index, id] of ids.entries()) tenants.set(id, found[index])
    return reports.map(({ report: { notificationId: id }, by }) => {
      if (id === undefined) return undefined
      const tenant = by.tenant ?? tenants.get(id)
      return tenant === undefined ? undefined : { tenant, id }
    })
  }

  return async (reports) => {
    const byId = await namesById(reports)
    const sentKeys = reports.map((each, index) => (byId[index] === undefined ? sentKeyOf(each) : undefined))
    const asked = [...new Set(sentKeys.filter((key) => key !== undefined))]
    const sent = asked.length === 0 ? [] : await record.findSent(asked, clock.now() - sentForMs)
    const bySent = new Map(asked.map((key, index) => [key, sent[index]]))
    const names = reports.map((_, index): Name | undefined => {
      const record = bySent.get(sentKeys[index] ?? '')
      return byId[index] ?? (record && { tenant: record.tenant, id: record.notificationId })
    })
    const notifications = new Map<string, Promise<Notification | undefined>>()
    return Promise.all(
      names.map(async (name, index) => {
        const { by } = reports[index]!
        if (name === undefined || (by.tenant !== undefined && by.tenant !== name.tenant)) return undefined
        const key = JSON.stringify([name.tenant, name.id])
        const reading = notifications.get(key) ?? store.notification(name.tenant, name.id)
        notifications.set(key, reading)
        const found = await reading
        return found !== undefined && isOf(found, by) ? found : undefined
      }),
    )
  }
}

/** Tests if the reporter sent the notification: an account says nothing about messages of other accounts. */
function isOf({ channel, timeline }: Notification, by: Reporter): boolean {
  if (by.tenant !== undefined) return true
  return channel === by.channel && timeline.some(({ account }) => account === by.account)
}
