/** Tells notifications that were accepted undecided while the server of the limits did not answer. Pure. */
import type { Notification } from './model.ts'

/** True if it is decided when the limits can be asked again. */
export const awaitsLimits = ({ status, undecided }: Pick<Notification, 'status' | 'undecided'>): boolean =>
  status === 'queued' && undecided === true
