/**
 * Holds what clients were told against what came of it: an opt-out that was answered holds for every later call, a
 * cancelled notification is not sent, and one key has one answer.
 */
import type { OptOut } from '../../src/model.ts'
import type { Message } from '../../src/ports.ts'
import type { Exchange } from './client.ts'
import { decidedAt, type Watched } from './oracle.ts'
import type { WatchedRecord } from './oracle-record.ts'

export interface WatchedClient {
  /** Ids that a client was told, with the exchange that told it. */
  readonly told: ReadonlyMap<string, Exchange>
  /** Ids whose cancellation was answered, with the instant of the answer. */
  readonly cancelled: ReadonlyMap<string, number>
  died(process: number): void
}

function matches(
  { category, channel }: OptOut,
  message: Pick<Message, 'priority' | 'category' | 'channel'>,
): boolean {
  if (message.priority === 'critical') return category === message.category && channel === message.channel
  return (
    (category === undefined || category === message.category) &&
    (channel === undefined || channel === message.channel)
  )
}

export function watchClient(watched: Watched, { rows }: WatchedRecord): WatchedClient {
  const { world, client, service } = watched
  const told = new Map<string, Exchange>()
  const cancelled = new Map<string, number>()
  const idsOf = new Map<string, string>()
  const deaths = new Map<number, number>()

  /** The instant by which a request has had its effect, if it ever has one. */
  const overAt = ({ answeredAt, process }: Exchange): number =>
    answeredAt ?? deaths.get(process) ?? Number.POSITIVE_INFINITY

  /**
   * The opt-outs that are known for sure: the last change was answered, and no other one may have come after it. Undefined
   * where they are not.
   */
  function optOutsOf(tenant: string, recipient: string, at: number): readonly OptOut[] | undefined {
    const changes = client.exchanges.filter(
      ({ kind, caller, of, change, sentAt }) =>
        kind === 'preferences' &&
        caller.tenant === tenant &&
        of === recipient &&
        change?.optOuts !== undefined &&
        sentAt <= at,
    )
    const last = changes.findLast(({ response, answeredAt }) => response?.status === 200 && answeredAt! < at)
    if (last === undefined) return undefined
    const isAlone = changes.every((each) => each === last || overAt(each) < last.sentAt)
    return isAlone ? (last.change?.optOuts ?? []) : undefined
  }

  service.observers.add((call, what) => {
    if (what !== 'written') return
    const { id, tenant, to } = call.message
    const at = decidedAt(watched, call)
    const optOut = optOutsOf(tenant, to.id, at)?.find((each) => matches(each, call.message))
    if (optOut !== undefined)
      world.violate('5 opt-out', `${id} was sent to ${to.id}, who opted out of ${JSON.stringify(optOut)}`)
    const cancelledAt = cancelled.get(id)
    if (cancelledAt !== undefined && at >= cancelledAt)
      world.violate('5 cancelled', `${id} was sent after its cancellation was answered`)
  })

  /** No opt-out that was lifted before the request keeps a notification from its recipient. */
  function checkSuppressed({ sentAt, response }: Exchange, id: string): void {
    const row = rows.get(id)
    const status = response?.accepted?.find((each) => each.id === id)?.status
    if (row === undefined || status !== 'suppressed' || row.decision.reason !== 'opted_out') return
    // The answer of an earlier request with this key: it was decided by the opt-outs of then.
    if (response?.replayed === true) return
    const { tenant, to } = row
    const isErased = client.exchanges.some(
      ({ kind, caller, of }) => kind === 'erase' && caller.tenant === tenant && of === to.id,
    )
    const optOuts = optOutsOf(tenant, to.id, sentAt)
    if (optOuts === undefined || isErased || optOutsOf(tenant, to.id, world.now()) !== optOuts) return
    if (optOuts.every((each) => !matches(each, row)))
      world.violate('5 opt-out', `${id} was suppressed, and ${to.id} had no opt-out of it any more`)
  }

  client.observers.add((exchange) => {
    const { kind, key, caller, response, of = '' } = exchange
    if (response === undefined) return
    for (const { id } of response.accepted ?? []) {
      told.set(id, exchange)
      checkSuppressed(exchange, id)
      if (!rows.has(id)) world.violate('3 lost', `${id} was answered ${response.status} and is not on record`)
    }
    if (kind === 'cancel' && response.status === 204) {
      cancelled.set(of, world.now())
      const { status } = rows.get(of) ?? {}
      if (status !== 'cancelled') world.violate('5 cancelled', `${of} was answered 204 and is ${status}`)
    }
    const ids = (response.accepted ?? []).map(({ id }) => id).join() || response.job
    if (key === undefined || ids === undefined) return
    const name = `${caller.tenant} ${caller.module} ${key}`
    const before = idsOf.get(name)
    if (before !== undefined && before !== ids)
      world.violate('10 key', `${name} led to ${before} and to ${ids}`)
    idsOf.set(name, ids)
  })

  return { told, cancelled, died: (process) => void deaths.set(process, world.now()) }
}
