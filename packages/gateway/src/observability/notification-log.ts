/**
 * Lines for the ends of notifications: a dead letter and a rejection are warnings, at a bounded rate; what is
 * suppressed, delayed or delivered is written at the level debug. No line has content, data or an address.
 */
import type { Notification, TimelineEvent } from '../model.ts'
import type { Happening } from '../stages.ts'
import { createLineLimit } from './line-limit.ts'
import type { Log, LogEvent } from './log-events.ts'
import { maskAnswer, type NameRecipient } from './masking.ts'

export interface NotificationLogOptions {
  readonly log: Log
  readonly nameRecipient: NameRecipient
}

/** Lines of one kind, channel and cause per second at most. */
const perSecond = 10

export interface NotificationLog {
  note(happening: Happening): void
  close(): void
}

export function createNotificationLog({ log, nameRecipient }: NotificationLogOptions): NotificationLog {
  const limit = createLineLimit(perSecond)

  function fieldsOf(
    notification: Notification,
    event: LogEvent,
    { provider, account, attempt }: Partial<TimelineEvent>,
  ) {
    const { id, tenant, module, to, job, channel, category } = notification
    return {
      event,
      notificationId: id,
      tenant,
      module,
      recipient: nameRecipient(tenant, to.id),
      jobId: job,
      channel,
      category,
      provider,
      account,
      attempt,
    }
  }

  function warn(
    notification: Notification,
    before: Notification | undefined,
    event: LogEvent,
    entry: TimelineEvent,
  ): void {
    const { channel, tenant } = notification
    const { reason, detail } = entry
    limit.take(`${event} ${channel} ${tenant} ${reason ?? ''}`, (suppressedLines) =>
      log.warn({
        ...fieldsOf(notification, event, entry),
        cause: reason,
        answer: detail === undefined ? undefined : maskAnswer(detail, before ?? notification),
        ...(suppressedLines === 0 ? {} : { suppressedLines }),
      }),
    )
  }

  function debug(notification: Notification, before: Notification | undefined, entry: TimelineEvent): void {
    const { decision, dueAt, firedAt } = notification
    switch (entry.status) {
      case 'suppressed':
        log.debug({
          ...fieldsOf(notification, 'notification.suppressed', entry),
          reason: entry.reason,
          limit: decision.limit,
        })
        break
      case 'scheduled':
      case 'digesting':
        log.debug({
          ...fieldsOf(notification, 'notification.delayed', entry),
          reason: entry.reason,
          limit: decision.limit,
          until: new Date(Math.min(dueAt, lastInstantMs)),
        })
        break
      case 'delivered':
        log.debug({
          ...fieldsOf(notification, 'notification.delivered', entry),
          ...(before === undefined || firedAt === undefined || before.firedAt !== undefined
            ? {}
            : { latenessMs: Math.max(0, firedAt - before.dueAt) }),
        })
    }
  }

  return {
    note({ notification, before, events }) {
      const isDebug = log.isLevelEnabled('debug')
      for (const entry of events) {
        if (entry.status === 'dead') warn(notification, before, 'notification.dead', entry)
        else if (entry.status === 'failed') warn(notification, before, 'notification.failed', entry)
        else if (isDebug) debug(notification, before, entry)
      }
    },
    close: () => limit.close(),
  }
}

/** The last instant that a Date can have. */
const lastInstantMs = 8.64e15
