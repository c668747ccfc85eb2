/** Decides what an event changes at its recipient: an opt-out, or an address that is invalid from now on. Pure. */
import { addressField, type Recipient } from '../model.ts'
import { address, isSameAddress, withInvalid, withOptOut } from '../policy/preferences.ts'
import type { ReportedNotification } from '../ports/feedback.ts'
import { pseudonymPrefix } from '../ports.ts'
import { cleanDetail, type Report } from './report.ts'

/** Changes a stored recipient; `undefined` where nothing is stored yet. */
export type RecipientChange = (before: Recipient | undefined) => Recipient

/** Finds the change that an event makes at the recipient of its notification; undefined where it makes none. */
export function changeOf(report: Report, notification: ReportedNotification): RecipientChange | undefined {
  const { tenant, to, channel, category } = notification
  const known = (before: Recipient | undefined): Recipient => before ?? { tenant, id: to.id }
  switch (report.type) {
    case 'complaint':
    case 'unsubscribe': {
      const optOut = report.isStop === true ? { channel } : { category, channel }
      return (before) => withOptOut(known(before), optOut)
    }
    case 'bounce': {
      // An erased recipient has no address, and one of WebSocket is the id itself.
      const hasAddress = addressField[channel] !== 'id' && !to.id.startsWith(pseudonymPrefix)
      return report.permanent === true && hasAddress ? invalidation(report, notification) : undefined
    }
    default:
      return undefined
  }
}

function invalidation(report: Report, { tenant, to, channel }: ReportedNotification): RecipientChange {
  return (before) => {
    const recipient = before ?? { tenant, id: to.id }
    const sentTo = address(to, before, channel)
    // The stored address may have changed since: the provider names the one that bounced.
    const isAbout =
      sentTo !== undefined && (report.address === undefined || isSameAddress(channel, report.address, sentTo))
    if (!isAbout) return recipient
    const detail = cleanDetail(report.detail)
    return withInvalid(recipient, {
      channel,
      address: sentTo,
      at: report.at,
      ...(detail === undefined ? {} : { detail }),
    })
  }
}
