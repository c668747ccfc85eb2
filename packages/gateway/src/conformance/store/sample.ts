/**
 * Sample notifications for the suite of every store, and for tests and benchmarks of stores: small, complete, and
 * distinguished by their ids.
 */
import type { Digest, Job, Notification, TimelineEvent } from '../../model.ts'
import { advance } from '../../model.ts'
import type { Clock } from '../../ports.ts'

/** A clock that a test sets, and that calls `soon` at the end of the present turn. */
export function stillClock(start: number): Clock & { set(now: number): void } {
  let now = start
  return {
    now: () => now,
    monotonic: () => now,
    set: (next) => {
      now = next
    },
    at: () => () => {},
    soon: (callback) => {
      setImmediate(callback)
    },
  }
}

export const epoch = Date.UTC(2026, 10, 21, 12)

let made = 0
/** A notification as admission makes it: accepted and waiting in `status`. Ids sort by creation. */
export function someNotification(patch: Partial<Notification> = {}): Notification {
  made += 1
  const id = patch.id ?? `01TEST${String(made).padStart(20, '0')}`
  const status = patch.status ?? 'queued'
  const createdAt = patch.createdAt ?? epoch
  return {
    id,
    tenant: 'acme',
    module: 'shop',
    to: { id: 'user-1', email: 'ada@example.com', timeZone: 'Europe/Rome' },
    channel: 'email',
    category: 'product',
    priority: 'normal',
    content: {
      subject: 'Hello “Ada” – 你好 👋',
      text: 'A line\nand another with \\ and "quotes"',
    },
    fingerprint: `print-${id}`,
    createdAt,
    status,
    dueAt: createdAt,
    decision: {
      outcome: 'send',
      at: createdAt,
      policyVersion: 'p1',
      rules: [],
    },
    attempts: 0,
    timeline: [
      { at: createdAt, status: 'accepted' },
      ...(status === 'accepted' ? [] : [{ at: createdAt, status } satisfies TimelineEvent]),
    ],
    ...patch,
  }
}

/** A notification that a module's limit delays. */
export function inThrottleQueue(patch: Partial<Notification> = {}): Notification {
  const { createdAt = epoch } = patch
  const at = epoch + 5
  return someNotification({
    status: 'scheduled',
    dueAt: at,
    undecided: true,
    decision: { outcome: 'delay', reason: 'module_limit', at, policyVersion: 'p1', rules: [] },
    timeline: [
      { at: createdAt, status: 'accepted' },
      { at: createdAt, status: 'scheduled', reason: 'module_limit' },
    ],
    ...patch,
  })
}

export function someDigest(patch: Partial<Digest> = {}): Digest {
  made += 1
  return {
    id: `01DIGEST${String(made).padStart(18, '0')}`,
    tenant: 'acme',
    recipient: 'user-1',
    channel: 'email',
    category: 'activity',
    name: 'activity',
    openedAt: epoch,
    closesAt: epoch + 3_600_000,
    ...patch,
  }
}

export function someJob(patch: Partial<Job> = {}): Job {
  made += 1
  return {
    id: `01JOB${String(made).padStart(21, '0')}`,
    tenant: 'acme',
    module: 'shop',
    createdAt: epoch,
    status: 'running',
    total: 4,
    taken: 0,
    refused: [],
    ...patch,
  }
}

/** The move of a notification that a provider took. */
export function settled(before: Notification, at: number): ReturnType<typeof advance> {
  return advance(
    before,
    [
      { at, status: 'sending', provider: 'sandbox', account: 'a1', attempt: 1 },
      {
        at: at + 5,
        status: 'delivered',
        provider: 'sandbox',
        account: 'a1',
        attempt: 1,
      },
    ],
    { attempts: before.attempts + 1, firedAt: at, dueAt: at + 5 },
  )
}

/** mulberry32: small, seeded, good enough to choose by. */
export function seeded(seed: number): () => number {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}
