/**
 * Hands over what a commit has put on record: digests to their timer, notifications to the scheduler, those that hold no
 * reservation to the waiting lists. An error here is reported and changes nothing of what was committed: the client is
 * answered, and what the notifications hold in the limits stays held.
 */
import type { Notification, SharedContent } from '../model.ts'
import { recipientSubject } from '../policy/subject.ts'
import type { LimitState } from '../ports.ts'
import type { Recipients, Scheduler } from '../stages.ts'
import type { Candidate, JoinedDigest } from './candidate.ts'
import type { OpenDigests } from './digests/open-digests.ts'
import type { MovingUp } from './moving-up.ts'
import type { ScheduleCommitted } from './schedule-committed.ts'

export interface HandoverOptions {
  readonly schedule: ScheduleCommitted
  readonly scheduler: Pick<Scheduler, 'noteDigest'>
  readonly digests: Pick<OpenDigests, 'opened'>
  readonly recipients: Pick<Recipients, 'cached'>
  readonly state: Pick<LimitState, 'pause'>
  readonly movingUp: Pick<MovingUp, 'freed' | 'enlist' | 'recorded'>
  readonly onError: (what: string, error: unknown) => void
}

/** Hands over candidates and the notifications that were written for them, in the same order. Never throws. */
export type Handover = (
  candidates: readonly Candidate[],
  notifications: readonly Notification[],
  contents?: readonly SharedContent[],
) => void

export function createHandover(options: HandoverOptions): Handover {
  const { schedule, scheduler, digests, recipients, state, movingUp, onError } = options

  function noteDigest({ digest, opens }: JoinedDigest): void {
    try {
      if (opens) digests.opened(digest)
      scheduler.noteDigest(digest.closesAt)
    } catch (error) {
      onError(`note when digest ${digest.id} closes`, error)
    }
  }

  /** The recipient's preferences changed during the evaluation: the notification may be admitted earlier. */
  async function hurry(tenant: string, recipient: string): Promise<void> {
    const subject = recipientSubject(tenant, recipient)
    await state.pause([subject])
    await movingUp.freed([subject])
  }

  return (candidates, notifications, contents) => {
    schedule(notifications, contents)
    for (const [index, { notification, recipient, verdict }] of candidates.entries()) {
      const { digest, waitlisted, reserved, status } = verdict!
      if (digest !== undefined) noteDigest(digest)
      if (waitlisted === true)
        movingUp
          .enlist(notifications[index]!, recipient)
          .catch((error) => onError('put one on the waiting list', error))
      if (!reserved || status !== 'scheduled') continue
      const { id, tenant, to } = notification
      movingUp.recorded(id)
      if (recipients.cached(tenant, to.id) === recipient) continue
      hurry(tenant, to.id).catch((error) => onError('let those who wait move up', error))
    }
  }
}
