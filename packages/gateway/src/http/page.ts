/**
 * Writes a page of notifications as JSON, some of them in one turn of the event loop: a full page takes some 10 ms, in
 * which nobody else would be served.
 */
import type { FastifyReply } from 'fastify'
import type { Notification, Status } from '../model.ts'
import type { Clock, Page } from '../ports.ts'
import type { Ledger } from '../stages.ts'
import { notificationAnswer, shown } from './answer.ts'
import type { Identity } from './identity.ts'
import { jsonType } from './problem.ts'
import { type FeedbackReads, withFeedback } from './timeline-feedback.ts'
import { aheadOf, inWallTime } from './wall-time.ts'

/** Notifications written in one turn at most: some 0.3 ms. */
const sliceItems = 10
/** Bytes written in one turn: a notification with a long timeline has as many alone. */
const sliceBytes = 2 ** 13

export interface Viewer {
  readonly ledger: Pick<Ledger, 'live'>
  readonly clock: Pick<Clock, 'aheadMs' | 'soon'>
  readonly caller: Identity
  /** Reads the feedback that timelines show. */
  readonly feedback: FeedbackReads
}

/** Returns the body, for the handler to return. */
export async function pageAnswer(
  reply: FastifyReply,
  { items, nextCursor }: Page<Notification>,
  { ledger, clock, caller, feedback }: Viewer,
  asked?: ReadonlySet<Status>,
  /** Items behind them that are no notifications. */
  others: readonly object[] = [],
): Promise<Buffer> {
  const pieces: Buffer[] = []
  let begin = '{"items":['
  let [inSlice, written] = [0, 0]
  let aheadMs = aheadOf(clock)
  for (const item of await withFeedback(feedback, items)) {
    if (inSlice === sliceItems || written >= sliceBytes) {
      await new Promise<void>((resolve) => clock.soon(resolve))
      aheadMs = aheadOf(clock)
      inSlice = 0
      written = 0
    }
    inSlice += 1
    const seen = inWallTime(shown(item, ledger), aheadMs)
    if (asked !== undefined && !asked.has(seen.status)) continue
    const piece = Buffer.from(begin + JSON.stringify(notificationAnswer(seen, caller)))
    pieces.push(piece)
    written += piece.length
    begin = ','
  }
  for (const other of others) {
    pieces.push(Buffer.from(begin + JSON.stringify(other)))
    begin = ','
  }
  const end = `],"nextCursor":${JSON.stringify(nextCursor)}}`
  pieces.push(Buffer.from(pieces.length === 0 ? begin + end : end))
  reply.header('content-type', jsonType)
  return Buffer.concat(pieces)
}

/** Removes undefined filters: to a store an absent filter and an undefined one differ. */
export const definedOf = <T extends object>(query: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as never
