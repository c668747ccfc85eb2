/**
 * Schedules what a commit has put on record. An error here is reported and changes nothing of the commit: notifications
 * that could not be scheduled are read again from the store.
 */
import type { Notification, SharedContent } from '../model.ts'
import type { Contents, Scheduler } from '../stages.ts'

export interface ScheduleCommittedOptions {
  readonly scheduler: Pick<Scheduler, 'place' | 'recover'>
  readonly contents: Pick<Contents, 'keep'>
  readonly onError: (what: string, error: unknown) => void
}

/** Caches contents that were written, and schedules notifications. Never throws. */
export type ScheduleCommitted = (
  notifications: readonly Notification[],
  contents?: readonly SharedContent[],
) => void

export function createScheduleCommitted(options: ScheduleCommittedOptions): ScheduleCommitted {
  const { scheduler, contents, onError } = options

  return (notifications, written = []) => {
    try {
      for (const content of written) contents.keep(content)
    } catch (error) {
      // It is read again from the store where it is needed.
      onError('keep contents in memory', error)
    }
    try {
      scheduler.place(notifications)
    } catch (error) {
      onError('schedule what was committed', error)
      // Each is scheduled as the record says; one that was scheduled before the error stays so.
      for (const notification of notifications) void scheduler.recover(notification)
    }
  }
}
