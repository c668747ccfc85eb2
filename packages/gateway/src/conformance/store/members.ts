/** The processes of a fleet over one record, as the conformance suite opens them. */
import type { Notification } from '../../model.ts'
import type { Store } from '../../ports.ts'
import { epoch, someNotification } from './sample.ts'
import { must } from './suite.ts'

/** One process of a fleet. */
export interface StoreMember {
  readonly store: Store
  /** Its name, as a conflict of the kind `member` names it. */
  readonly id: string
  /** Kills the process; resolves when the others have declared it dead. The store of the process stays usable. */
  kill(): Promise<void>
}

/** A new record, on which processes open their stores. */
export interface StoreFleet {
  join(): Promise<StoreMember>
  close(): Promise<void>
}

export type MembersTest = (
  title: string,
  body: (a: StoreMember, b: StoreMember, fleet: StoreFleet) => Promise<void>,
) => void

export const due = (at: number): Notification => someNotification({ dueAt: epoch + at })

/** Stores notifications that no process holds. */
export async function stored(
  store: Store,
  ...list: readonly Notification[]
): Promise<readonly Notification[]> {
  await must(store, { accept: list })
  return list
}
