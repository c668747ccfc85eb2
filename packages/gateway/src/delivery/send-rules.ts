/** The rules that hold at the moment of sending, as the composition joins them: preferences, forbidden hours, presence. */
import type { Channel, Move, Notification, Recipient, TimelineEvent } from '../model.ts'
import type { Presence } from '../ports.ts'

/** The rules of policy and presence that hold at the moment of sending. */
export interface SendRules {
  /** Gives the reason to suppress it now: an opt-out or a bounce applies at once, also to waiting notifications. */
  readonly suppression: (
    notification: Notification,
    recipient: Recipient | null,
  ) => 'opted_out' | 'invalid_address' | undefined
  /** Gives the reason for which the recipient may not be disturbed at an instant. */
  readonly quietAt: (
    notification: Notification,
    recipient: Recipient | null,
    instant: number,
  ) => 'quiet_hours' | 'legal_hours' | 'held' | 'complaint_guard' | undefined
  /** Tests if a hold of an operator or the complaint guard stops it now. */
  readonly isHeld: (notification: Notification) => boolean
  /** Gives the version of the policy in force: after another one the next batch asks its limits. */
  readonly policyVersion: () => string
  /** Applies to the one channel that reaches connected recipients alone. */
  readonly away?: AwayRule | undefined
}

interface AwayRule {
  readonly channel: Channel
  readonly presence: Pick<Presence, 'areConnected'>
  /** Decides a notification whose recipient is offline. */
  readonly moveOf: (notification: Notification, events: readonly TimelineEvent[], now: number) => Move
}
