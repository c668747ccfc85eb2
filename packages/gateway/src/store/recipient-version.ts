/** Versions of recipients, as the right to send compares them. */
import type { StoredRecipient } from '../ports.ts'

/** Returns the version of what was saved, else of the opt-outs that an erasure has left; 0 where nothing is on record. */
export const versionAsRead = (recipient: StoredRecipient | null | undefined): number =>
  recipient?.version ?? recipient?.left ?? 0
