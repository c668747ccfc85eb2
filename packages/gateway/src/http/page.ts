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
import { aheadOf, inWallTime } from './wall-time.ts'

/** Notifications written in one turn: some 0.5 ms. */
const sliceItems = 20

export interface Viewer {
  readonly ledger: Pick<Ledger, 'live'>
  readonly clock: Pick<Clock, 'aheadMs' | 'soon'>
  readonly caller: Identity
}

/** Returns the body, for the handler to return. */
export async function pageAnswer(
  reply: FastifyReply,
  { items, nextCursor }: Page<Notification>,
  { ledger, clock, caller }: Viewer,
  asked?: ReadonlySet<Status>,
): Promise<Buffer> {
  const pieces: Buffer[] = []
  let begin = '{"items":['
  for (let from = 0; from < items.length; from += sliceItems) {
    if (from > 0) await new Promise<void>((resolve) => clock.soon(resolve))
    const aheadMs = aheadOf(clock)
    for (const item of items.slice(from, from + sliceItems)) {
      const seen = inWallTime(shown(item, ledger), aheadMs)
      if (asked !== undefined && !asked.has(seen.status)) continue
      pieces.push(Buffer.from(begin + JSON.stringify(notificationAnswer(seen, caller))))
      begin = ','
    }
  }
  const end = `],"nextCursor":${JSON.stringify(nextCursor)}}`
  pieces.push(Buffer.from(pieces.length === 0 ? begin + end : end))
  reply.header('content-type', jsonType)
  return Buffer.concat(pieces)
}

/** Removes undefined filters: to a store an absent filter and an undefined one differ. */
export const definedOf = <T extends object>(query: T): { [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined)) as never
