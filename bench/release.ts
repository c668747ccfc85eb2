/** Accepts notifications for one instant, and measures how fast that is and how fast they are released at the instant. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Admission } from './contestants/gateway.ts'
import type { Cost, Settled } from './host.ts'
import type { Peer } from './process.ts'

export interface Released {
  /** Accepted a second. */
  readonly accepted: number
  /** Released a second, from the instant to the last settlement. */
  readonly released: number
}

/** @throws where accepting takes until the instant, or what is due has not left within five minutes */
export async function release(
  host: Peer,
  { first, rows, recipients }: { readonly first: number; readonly rows: number; readonly recipients: number },
): Promise<Released> {
  const leadMs = 10_000 + rows
  const dueAt = Date.now() + leadMs
  const clock = Number(process.hrtime.bigint()) / 1e6 + leadMs
  const given: Admission = { first, count: rows, batch: 100, recipients, sendAt: dueAt }
  const tookMs = await host.ask<number>('admit', given)
  if (Date.now() > dueAt) throw new Error('accepting took longer than until they were due')
  await sleep(dueAt - Date.now())
  const until = Date.now() + 300_000
  for (let left = 0; left < rows; await sleep(50)) {
    left = (await host.ask<Cost>('cost')).settled
    if (Date.now() > until) throw new Error(`${left} of ${rows} that were due have left within five minutes`)
  }
  const { at } = await host.ask<Settled>('take')
  const last = at.reduce((a, b) => Math.max(a, b))
  return { accepted: (rows / tookMs) * 1_000, released: (rows / (last - clock)) * 1_000 }
}
