/**
 * Holds up newcomers while the end of a notification is written and its slots are released. A subject that is not in
 * memory is read from the record: as soon as the end is there, its slot is free, and a newcomer would take it before
 * those who wait move up.
 */
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { LimitState } from '../ports.ts'
import type { Recipients } from '../stages.ts'

export interface NewcomerPauseOptions {
  readonly policy: Policy
  readonly recipients: Recipients
  readonly state: Pick<LimitState, 'pause' | 'resume'>
}

/**
 * Pauses the subjects of a notification; to be called before the commit. The returned function resumes them; to be
 * called when the slots are released, or the commit was refused.
 */
export type PauseNewcomers = (held: Notification) => Promise<() => Promise<void>>

export function createNewcomerPause({ policy, recipients, state }: NewcomerPauseOptions): PauseNewcomers {
  return async (held) => {
    const recipient = await recipients.find(held.tenant, held.to.id)
    const subjects = policy.rulesFor(held, recipient).map(({ subject }) => subject)
    await state.pause(subjects)
    return () => state.resume(subjects)
  }
}
