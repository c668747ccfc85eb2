/** Questions to the limiter's state about a subject. */
import type { Subject } from '../../ports.ts'

export interface StateQuestion {
  readonly subject: Subject
  /** Absent in a question about all who wait. */
  readonly id?: string
  readonly waited?: boolean
}

/** How much of its subjects a question wants. */
export interface Wanted {
  /** True for newcomers: they wait while a subject is paused. */
  readonly areNew?: boolean
  /** True where the first of those who wait will do, if the id is one of them. */
  readonly isSoonEnough?: boolean
}
