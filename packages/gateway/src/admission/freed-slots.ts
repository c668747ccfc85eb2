/** Keeps slots that became free for those who wait, before any newcomer takes them. */
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { LimitState, Subject } from '../ports.ts'
import type { Recipients } from '../stages.ts'
import type { MovingUp } from './moving-up.ts'

// ---- reporting
//
// Reports slots that became free to those who let waiting notifications move up (moving-up.ts). The limiter and its
// state report, and are created before the gate, whose part listens.

export interface FreedSlots {
  /**
   * Reports subjects with a freed slot and a waiting list. The subjects are paused: the listener resumes them. `at` is the
   * instant of the slot, epoch ms, where it is known. Resolves when those who wait have moved up; never rejects.
   */
  report(subjects: readonly Subject[], at?: number): Promise<void>
  /** True if all who were promised an instant before the start have moved up. */
  isThrough(): boolean
  listen(listener: Pick<MovingUp, 'freed' | 'isThrough'>): void
}

export function createFreedSlots(onError: (what: string, error: unknown) => void): FreedSlots {
  let listener: Pick<MovingUp, 'freed' | 'isThrough'> | undefined

  return {
    async report(subjects, at) {
      await listener?.freed(subjects, at).catch((error) => onError('let those who wait move up', error))
    },
    isThrough: () => listener?.isThrough() ?? false,
    listen(movingUp) {
      listener = movingUp
    },
  }
}

// ---- holding up newcomers
//
// Holds up newcomers while the end of a notification is written and its slots are released. A subject that is not in
// memory is read from the record: as soon as the end is there, its slot is free, and a newcomer would take it before
// those who wait move up.

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
