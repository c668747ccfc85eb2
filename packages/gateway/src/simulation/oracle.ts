/**
 * The provider of a simulation: it delivers everything at once and records each arrival with its time and recipient.
 * All figures are counted from these arrivals, never from the limiter's state.
 */

import type { Notification } from '../model.ts'
import { channels } from '../model.ts'
import type { Clock, Message, Provider, SendResult } from '../ports.ts'
import type { Happening } from '../stages.ts'

export interface Figures {
  readonly delivered: number
  readonly digests: number
  readonly merged: number
  readonly suppressed: Readonly<Record<string, number>>
  /** The most messages of one recipient in any rolling day. */
  readonly perRecipientPerDayMax: number
  /** The most messages of one author to one recipient in any rolling day, digests with their items counted once. */
  readonly perAuthorPerDayMax: number
  /** Delay from acceptance to arrival, alone or in a digest, ms. */
  readonly delayMs: { readonly p50: number; readonly p90: number; readonly p99: number }
  /** Messages that arrived in each hour since the start; in a shorter scenario, in each minute or second. */
  readonly perSlice: readonly number[]
  readonly slice: 'hour' | 'minute' | 'second'
  /** Number of recipients by the number of messages that they got in all. */
  readonly people: readonly { readonly messages: number; readonly people: number }[]
}

export interface Oracle {
  readonly provider: Provider
  /**
   * Notes a call of the provider that takes this one's place: the last call before the delivery is the one that
   * arrived.
   */
  hear(message: Pick<Message, 'id'>): undefined
  /** A listener for the ledger: it reports the author of each arrival, and the merged items. */
  observe(happening: Happening): void
  figures(): Figures
  /** The instants at which messages arrived, a list for each recipient that got any. */
  arrivals(): Iterable<readonly number[]>
}

const dayMs = 86_400_000
const sliceMs = { hour: 3_600_000, minute: 60_000, second: 1_000 } as const
const deliveredAtOnce: Promise<SendResult> = Promise.resolve({ outcome: 'delivered' })

export interface OracleOptions {
  readonly clock: Clock
  readonly start: number
  readonly durationMs: number
}

export function createOracle({ clock, start, durationMs }: OracleOptions): Oracle {
  const slice =
    durationMs >= 12 * sliceMs.hour ? 'hour' : durationMs >= 12 * sliceMs.minute ? 'minute' : 'second'
  const arrivedAt = new Map<string, number>()
  const perRecipient = new Map<string, number[]>()
  const perAuthor = new Map<string, number[]>()
  const suppressed: Record<string, number> = {}
  /** Acceptances of the items of a digest that has not arrived yet. */
  const itemsOf = new Map<string, number[]>()
  const delays: number[] = []
  const perSlice: number[] = []
  let delivered = 0
  let digests = 0
  let merged = 0

  function arrive(notification: Notification, at: number): void {
    delivered += 1
    note(perRecipient, notification.to.id, at)
    const authors = notification.actors ?? (notification.actor === undefined ? [] : [notification.actor])
    for (const author of authors) note(perAuthor, `${author}\n${notification.to.id}`, at)
    const index = Math.floor((at - start) / sliceMs[slice])
    while (perSlice.length <= index) perSlice.push(0)
    perSlice[index]! += 1
    if (notification.actors === undefined)
      delays.push(at - Math.max(notification.createdAt, notification.sendAt ?? 0))
    else digests += 1
    for (const acceptedAt of itemsOf.get(notification.id) ?? []) delays.push(at - acceptedAt)
    itemsOf.delete(notification.id)
  }

  function hear({ id }: Pick<Message, 'id'>): undefined {
    arrivedAt.set(id, clock.now())
  }

  return {
    hear,
    provider: {
      name: 'sandbox',
      idempotent: true,
      channels,
      send(message) {
        hear(message)
        return deliveredAtOnce
      },
      close: () => Promise.resolve(),
    },
    observe({ notification }) {
      switch (notification.status) {
        case 'delivered':
          arrive(notification, arrivedAt.get(notification.id)!)
          arrivedAt.delete(notification.id)
          break
        case 'merged':
          merged += 1
          note(itemsOf, notification.digestId!, notification.createdAt)
          break
        case 'suppressed': {
          const reason = notification.timeline.at(-1)?.reason ?? 'unknown'
          suppressed[reason] = (suppressed[reason] ?? 0) + 1
          break
        }
        default:
      }
    },
    arrivals: () => perRecipient.values(),
    figures() {
      const sorted = Float64Array.from(delays).sort()
      const quantile = (share: number): number =>
        sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
      return {
        delivered,
        digests,
        merged,
        suppressed,
        perRecipientPerDayMax: mostInADay(perRecipient),
        perAuthorPerDayMax: mostInADay(perAuthor),
        delayMs: { p50: quantile(0.5), p90: quantile(0.9), p99: quantile(0.99) },
        perSlice,
        slice,
        people: histogram(perRecipient),
      }
    },
  }
}

function note(lists: Map<string, number[]>, key: string, value: number): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}

/** Finds the most arrivals in any literal half-open rolling day, over all lists. */
function mostInADay(lists: ReadonlyMap<string, readonly number[]>): number {
  let most = 0
  for (const unsorted of lists.values()) {
    const instants = unsorted.toSorted((a, b) => a - b)
    let from = 0
    for (let to = 0; to < instants.length; to += 1) {
      while (instants[to]! - instants[from]! >= dayMs) from += 1
      most = Math.max(most, to - from + 1)
    }
  }
  return most
}

function histogram(perRecipient: ReadonlyMap<string, readonly number[]>): Figures['people'] {
  const people = new Map<number, number>()
  for (const { length } of perRecipient.values()) people.set(length, (people.get(length) ?? 0) + 1)
  return [...people].sort(([a], [b]) => a - b).map(([messages, count]) => ({ messages, people: count }))
}
