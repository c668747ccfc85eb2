/** A notification that was accepted and queued at one instant, for tests that look at what follows. */
import type { Notification } from '../src/model.ts'

/** @param at epoch ms of the acceptance, and of the instant at which it is due */
export const queuedAt = (at: number, id: string, more: Partial<Notification> = {}): Notification => ({
  id,
  tenant: 'acme',
  module: 'shop',
  to: { id: 'ada' },
  channel: 'email',
  category: 'product',
  priority: 'normal',
  createdAt: at,
  fingerprint: `fingerprint of ${id}`,
  status: 'queued',
  dueAt: at,
  decision: { outcome: 'send', policyVersion: 'p', rules: [] },
  attempts: 0,
  timeline: [
    { at, status: 'accepted' },
    { at, status: 'queued' },
  ],
  ...more,
})
