/** Plans instants for notifications that hold some already. */
import {
  createLimits,
  type ForbiddenInterval,
  type Limit,
  memoryStore,
  type RestoredEntry,
} from '@sluice/limits'
import type { Recipient } from '../model.ts'
import type { SubjectRules } from '../policy/policy.ts'
import type { Admission } from '../ports.ts'
import type { ForbiddenHours } from './quiet-hours.ts'
import { waitOnly } from './several-subjects.ts'

// ---- the plan
//
// Plans instants for notifications that hold some already, one after the other: each gets the earliest one that its
// limits admit behind those that were planned before it. The plan is made in a limiter of its own; nothing is written.

/** A notification that holds an instant and has not left. */
export interface HeldInstant {
  readonly id: string
  /** The instant that it was promised, epoch ms. */
  readonly at: number
  /** The limits of all subjects that count it. */
  readonly limits: readonly SubjectRules[]
  /** Returns its quiet hours from an instant on; absent where it has none. */
  readonly forbidden?: (from: number) => readonly ForbiddenInterval[] | undefined
}

export interface SlotPlanOptions {
  readonly now: number
  /** Every window is kept so much longer than it is written, ms. */
  readonly marginMs: number
  /** The subjects that are planned, by key, with the instants that count there. Limits of others are left out. */
  readonly subjects: ReadonlyMap<string, readonly RestoredEntry[]>
}

export interface SlotPlan {
  /** Finds the earliest instant from `from` on that all subjects admit, and takes it. */
  place(held: HeldInstant, from: number): number
  /** Takes the instant of an entry that keeps it. */
  hold(key: string, entry: RestoredEntry): void
}

export function createSlotPlan({ now, marginMs, subjects }: SlotPlanOptions): SlotPlan {
  const scratch = createLimits({ store: memoryStore({ now: () => now }), marginMs }).sync
  for (const [key, entries] of subjects) scratch.restore(key, entries)

  return {
    hold: (key, entry) => scratch.restore(key, [entry]),
    place({ id, at: promised, limits, forbidden }, from) {
      const intervals = forbidden?.(from)
      const own = limits.filter(({ subject: { key } }) => subjects.has(key))
      const freeFrom = (notBefore: number): number =>
        Math.max(
          ...own.map(
            ({ subject: { key }, rules }) =>
              scratch.preview(key, waitOnly(rules), {
                notBefore,
                ...(intervals === undefined ? {} : { forbidden: intervals }),
              }).at,
          ),
        )
      let at = from
      for (let next = freeFrom(at); next > at; next = freeFrom(at)) at = next
      // A limit of 0 admits it never: `fire` decides about it.
      if (at === Number.POSITIVE_INFINITY) return promised
      for (const {
        subject: { key },
        rules,
      } of own)
        scratch.restore(key, [{ id, at, fired: false, streams: streamsOf(rules) }])
      return at
    },
  }
}

/** Sorts by the promised instants; of equal ones the first accepted is first. */
export const inOrder = <Held extends Pick<HeldInstant, 'id' | 'at'>>(
  held: readonly Held[],
): readonly Held[] => held.toSorted((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1))

/** Returns the streams of the limits, each once. */
export const streamsOf = (rules: readonly Limit[]): readonly string[] => [
  ...new Set(rules.map(({ stream }) => stream)),
]

// ---- what a plan needs of a notification
//
// Reads from a notification what a plan of instants needs of it, and no more: there may be as many as wait of a tenant.

/** The fields of a notification by which its limits and hours are found. */
type Holder = Pick<
  Admission,
  'id' | 'tenant' | 'module' | 'to' | 'channel' | 'category' | 'priority' | 'dueAt'
>

/** @param all - the limits of all subjects that count it */
export type HeldInstantOf = (
  holder: Holder,
  all: readonly SubjectRules[],
  recipient: Recipient | null,
) => HeldInstant

export function createHeldInstants(
  forbiddenHours: Pick<ForbiddenHours, 'forbidden' | 'hasHours'>,
): HeldInstantOf {
  return (holder, all, recipient) => {
    const { id, dueAt: at } = holder
    const held: HeldInstant = { id, at, limits: all.filter(({ rules }) => rules.length > 0) }
    if (!forbiddenHours.hasHours(holder, recipient)) return held
    const { tenant, module, channel, category, priority, to } = holder
    const { timeZone, phone } = to
    const whose = {
      id: to.id,
      ...(timeZone === undefined ? {} : { timeZone }),
      ...(phone === undefined ? {} : { phone }),
    }
    const countable = { id, tenant, module, channel, category, priority, to: whose }
    return { ...held, forbidden: (from: number) => forbiddenHours.forbidden(countable, recipient, from) }
  }
}
