/**
 * Reports slots that became free to those who let waiting notifications move up (moving-up.ts). The limiter and its
 * state report, and are created before the gate, whose part listens.
 */
import type { Subject } from '../ports.ts'
import type { MovingUp } from './moving-up.ts'

export interface FreedSlots {
  /**
   * Reports subjects with a freed slot and a waiting list. The subjects are paused: the listener resumes them. `at` is the
   * instant of the slot, epoch ms, where it is known.
   */
  report(subjects: readonly Subject[], at?: number): void
  /** True if all who were promised an instant before the start have moved up. */
  isThrough(): boolean
  listen(listener: Pick<MovingUp, 'freed' | 'isThrough'>): void
}

export function createFreedSlots(onError: (what: string, error: unknown) => void): FreedSlots {
  let listener: Pick<MovingUp, 'freed' | 'isThrough'> | undefined

  return {
    report(subjects, at) {
      listener?.freed(subjects, at).catch((error) => onError('let those who wait move up', error))
    },
    isThrough: () => listener?.isThrough() ?? false,
    listen(movingUp) {
      listener = movingUp
    },
  }
}
