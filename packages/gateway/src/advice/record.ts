/**
 * Makes observations of a record: each recipient and week is one observation of so many delivered messages, which
 * engaged where one of them was opened or clicked, and churned where one of them brought an unsubscribe or a complaint.
 */
import type { Channel, Notification } from '../model.ts'
import type { FeedbackType } from '../ports/feedback.ts'
import type { TrafficSource } from '../ports/traffic.ts'
import type { Observation } from './observations.ts'

interface RecordedOptions {
  readonly source: TrafficSource
  /** Epoch ms: the weeks are counted back from `to`, and what is left over at `from` is left out. */
  readonly from: number
  readonly to: number
  readonly category: string
  readonly channel?: Channel
  /** Absent: all tenants. */
  readonly tenant?: string
  /** Reports the share of the record that was read, from 0 to 1. */
  readonly onProgress?: (share: number) => void
}

export const weekMs = 7 * 86_400_000
/** A notification leaves at most so much later than it was accepted, by `maxDelay` and retries, ms. */
const leavesWithinMs = 8 * 86_400_000
/** Recipients and weeks in memory at most: some 300 MB. */
const cellsMax = 2_000_000

/** A recipient in one week. */
interface Cell {
  messages: number
  complaints: number
  isEngaged: boolean
  isChurned: boolean
}

const engages: ReadonlySet<FeedbackType> = new Set(['open', 'click'])
const churns: ReadonlySet<FeedbackType> = new Set(['unsubscribe', 'complaint'])

export type Recorded =
  | { readonly observations: readonly Observation[] }
  /** There are more recipients and weeks than fit into memory. */
  | { readonly tooMany: number }

export async function recordedObservations(options: RecordedOptions): Promise<Recorded> {
  const { source, from, to, tenant, onProgress } = options
  const cells = new Map<string, Cell>()
  const tenants = (await source.tenants()).filter((each) => tenant === undefined || each === tenant)
  for (const [index, each] of tenants.entries()) {
    const query = { tenant: each, from: from - leavesWithinMs, to }
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await source.page(cursor === undefined ? query : { ...query, cursor })
      await addPage(options, each, { items: page.items, cells })
      if (cells.size > cellsMax) return { tooMany: cellsMax }
      const at = page.items.at(-1)?.createdAt ?? from
      onProgress?.((index + Math.max(0, (at - from) / (to - from))) / tenants.length)
      cursor = page.nextCursor
    }
  }
  return { observations: byFrequency(cells.values()) }
}

interface PageCells {
  readonly items: readonly Notification[]
  readonly cells: Map<string, Cell>
}

async function addPage(options: RecordedOptions, tenant: string, { items, cells }: PageCells): Promise<void> {
  const { source, from, to, category, channel } = options
  const weeks = Math.floor((to - from) / weekMs)
  const cellOf = new Map<string, Cell>()
  for (const notification of items) {
    if (notification.category !== category) continue
    if (channel !== undefined && notification.channel !== channel) continue
    // Feedback may stand behind it in the timeline, with the same state.
    const deliveredAt = notification.timeline.find(({ status }) => status === 'delivered')?.at
    if (deliveredAt === undefined || deliveredAt >= to) continue
    const week = Math.floor((to - 1 - deliveredAt) / weekMs)
    if (week >= weeks) continue
    const key = JSON.stringify([tenant, notification.to.id, week])
    const cell = cells.get(key) ?? { messages: 0, complaints: 0, isEngaged: false, isChurned: false }
    cell.messages += 1
    cells.set(key, cell)
    cellOf.set(notification.id, cell)
  }
  const complained = new Set<string>()
  for (const { notificationId, type } of await source.feedback(tenant, [...cellOf.keys()])) {
    const cell = cellOf.get(notificationId)!
    if (engages.has(type)) cell.isEngaged = true
    if (churns.has(type)) cell.isChurned = true
    // Providers may report one complaint twice, in events of their own.
    if (type === 'complaint' && !complained.has(notificationId)) cell.complaints += 1
    if (type === 'complaint') complained.add(notificationId)
  }
}

function byFrequency(cells: Iterable<Cell>): Observation[] {
  const lines = new Map<number, Required<Omit<Observation, 'segment'>>>()
  for (const { messages, complaints, isEngaged, isChurned } of cells) {
    const line = lines.get(messages) ?? {
      frequency: messages,
      people: 0,
      engaged: 0,
      churned: 0,
      delivered: 0,
      complaints: 0,
    }
    lines.set(messages, {
      frequency: messages,
      people: line.people + 1,
      engaged: line.engaged + Number(isEngaged),
      churned: line.churned + Number(isChurned),
      delivered: line.delivered + messages,
      complaints: line.complaints + complaints,
    })
  }
  return [...lines.values()].sort((a, b) => a.frequency - b.frequency)
}

/** Writes observations as the file that `sluice advise` reads. */
export function observationsCsv(observations: readonly Observation[]): string {
  const names = ['frequency', 'people', 'engaged', 'churned', 'delivered', 'complaints'] as const
  return `${[names.join(','), ...observations.map((line) => names.map((name) => line[name] ?? 0).join(','))].join('\n')}\n`
}
