/**
 * Looks at the throttle queues: within a module notifications take their turns in the order in which they came, and where
 * nothing disturbs them no turn is later than its client was told.
 */
import type { Notification } from '../../src/model.ts'
import type { Exchange } from './client.ts'
import type { Watched } from './oracle.ts'
import type { Calm } from './oracle-calm.ts'
import type { WatchedRecord } from './oracle-record.ts'
import { isRefusing } from './settings.ts'

interface Turn {
  readonly row: Notification
  readonly sentAt: number
  readonly answeredAt: number
  readonly turnedAt: number
  /** The instant that the client was told. */
  readonly promisedAt: number | undefined
}

/** A restart may move the time line by this, and a turn is taken by a timer, ms. */
const aloneSlackMs = 25
/** A turn of a queue that several processes share is asked for and written over wires, ms. */
const fleetSlackMs = 60

export interface WatchedOrder {
  /** Compares all turns, when the record is complete. */
  check(told: ReadonlyMap<string, Exchange>): void
}

export function watchOrder(
  { world, settings, client }: Watched,
  { rows }: WatchedRecord,
  calm: Calm,
  isFleet = false,
): WatchedOrder {
  const slackMs = isFleet ? fleetSlackMs : aloneSlackMs
  // A turn that a kill cut off is taken again by the next process. A queue that was lost is filled again from the record.
  const isKept = isFleet ? calm.isCalm : calm.isWithoutDeath
  // A turn that was refused is taken again, behind those that came after it.
  const isExact = !isRefusing(settings) && settings.faults.lostShare === 0

  function turnOf(row: Notification, told: ReadonlyMap<string, Exchange>): Turn | undefined {
    const { id, turnedAt, actors } = row
    const exchange = told.get(id)
    const reason = row.timeline[1]?.reason
    const hasWaited = reason === 'tenant_limit' || reason === 'module_limit'
    if (!hasWaited || turnedAt === undefined || actors !== undefined) return undefined
    if (exchange?.answeredAt === undefined || exchange.response?.replayed === true) return undefined
    const first = client.exchanges.find(({ operation }) => operation === exchange.operation)!
    const promisedAt = exchange.response?.accepted?.find((each) => each.id === id)?.at
    return { row, sentAt: first.sentAt, answeredAt: exchange.answeredAt, turnedAt, promisedAt }
  }

  function checkOrder(turns: readonly Turn[]): void {
    for (const one of turns) {
      const overtaken = turns.find(
        (other) =>
          one.answeredAt < other.sentAt &&
          one.turnedAt > other.turnedAt + slackMs &&
          isKept(other.answeredAt, one.turnedAt),
      )
      if (overtaken === undefined) continue
      world.violate(
        '8 order',
        `${overtaken.row.id} had its turn ${one.turnedAt - overtaken.turnedAt} ms before ${one.row.id}, which came first`,
      )
      return
    }
  }

  return {
    check(told) {
      if (!isExact) return
      const turns = [...rows.values()].map((row) => turnOf(row, told)).filter((turn) => turn !== undefined)
      for (const group of Map.groupBy(turns, ({ row }) => `${row.tenant} ${row.module}`).values())
        checkOrder(group)
      for (const { row, answeredAt, turnedAt, promisedAt } of turns)
        if (promisedAt !== undefined && turnedAt > promisedAt + slackMs && calm.isCalm(answeredAt, turnedAt))
          world.violate(
            '8 promise',
            `${row.id} had its turn ${turnedAt - promisedAt} ms after the promised instant`,
          )
    },
  }
}
