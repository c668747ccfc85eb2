/**
 * How many notifications a person gets, per channel and category: the numbers of the gateway's default policy as
 * data, without its limit on a person's whole day. A test holds the two against each other.
 */

/** One row: which notifications it is for, and how many of them one user gets. */
export interface NotificationRule {
  /** Its name in results; unique within a table. */
  readonly name: string
  /** `'10/h, 50/day'`, or a list. */
  readonly windows: string | readonly string[]
  /** The only category it is for. @defaultValue all */
  readonly category?: string
  /** The only channel it is for. @defaultValue all */
  readonly channel?: string
  /** Counts apart within one user: each author, each category, each channel. @defaultValue nothing */
  readonly per?: readonly ('actor' | 'category' | 'channel')[]
  /** True for a row that applies where no row with a category or a channel matches. @defaultValue false */
  readonly otherwise?: boolean
}

export const defaultNotificationTable: readonly NotificationRule[] = [
  { name: 'security-email', category: 'security', channel: 'email', windows: '10/h, 50/day' },
  { name: 'security-sms', category: 'security', channel: 'sms', windows: '5/h, 20/day' },
  { name: 'security-push', category: 'security', channel: 'push', windows: '20/h, 100/day' },
  { name: 'billing-email', category: 'billing', channel: 'email', windows: '3/day, 10/week' },
  { name: 'billing-sms', category: 'billing', channel: 'sms', windows: '2/day, 5/week' },
  { name: 'marketing-email', category: 'marketing', channel: 'email', windows: '2/day, 5/week, 10/month' },
  { name: 'marketing-sms', category: 'marketing', channel: 'sms', windows: '1/day, 3/week, 8/month' },
  { name: 'marketing-push', category: 'marketing', channel: 'push', windows: '3/day, 10/week' },
  { name: 'product-email', category: 'product', channel: 'email', windows: '5/day, 15/week' },
  { name: 'product-push', category: 'product', channel: 'push', windows: '5/h, 20/day' },
  { name: 'activity-per-author', category: 'activity', per: ['actor'], windows: '3/day' },
  { name: 'activity', category: 'activity', per: ['channel'], windows: '5/day' },
  { name: 'other', otherwise: true, per: ['category', 'channel'], windows: '5/day' },
]
