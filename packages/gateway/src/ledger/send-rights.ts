/**
 * The rights to send. This process refuses versions that it has replaced itself or replaces now; the store refuses those
 * that another process has taken or changed. While the store is asked, a notification counts as `sending` already, so
 * that this process neither cancels nor expires it.
 */
import type { Notification, Status } from '../model.ts'
import type { Clock, GivenRights, Store } from '../ports.ts'
import type { Begun, Ledger } from '../stages.ts'

export interface SendRightsOptions {
  readonly store: Pick<Store, 'begin'>
  readonly clock: Pick<Clock, 'monotonic'>
  /** Notifications that this process holds. */
  readonly held: ReadonlyMap<string, { readonly notification: Notification; status: Status }>
  /** Tests if a change under way replaces this version. */
  readonly isReplaced: (notification: Notification) => boolean
  /** Drops a notification that this process holds no longer. */
  readonly drop: (notification: Notification) => void
}

type Requests = Parameters<Ledger['begin']>[0]

/** All rights are given, and none of them ends. */
const noIds: ReadonlySet<string> = new Set()
const allBegun: Begun = { refused: noIds, until: Number.POSITIVE_INFINITY }

export function createSendRights({
  store,
  clock,
  held,
  isReplaced,
  drop,
}: SendRightsOptions): Ledger['begin'] {
  /** Ends the rights of notifications for which the store has none: they have gone another way, or it did not answer. */
  function end(requests: Requests, isOver: (id: string) => boolean, goesOn: boolean): void {
    for (const { notification } of requests) {
      const entry = held.get(notification.id)
      if (entry?.notification !== notification || !isOver(notification.id)) continue
      if (goesOn) entry.status = notification.status
      else drop(notification)
    }
  }

  function begun(requests: Requests, stale: Set<string> | undefined, given: GivenRights, at: number): Begun {
    const { refused, outdated, forMs, askedAt = at } = given
    if (refused.size > 0) end(requests, (id) => refused.has(id), false)
    if (stale === undefined && refused.size === 0 && forMs === Number.POSITIVE_INFINITY) return allBegun
    return {
      refused: stale === undefined ? refused : new Set([...stale, ...refused]),
      ...(outdated === undefined ? {} : { outdated }),
      until: askedAt + forMs,
    }
  }

  return (requests) => {
    let stale: Set<string> | undefined
    for (const { notification } of requests) {
      const entry = held.get(notification.id)
      if (entry?.notification === notification && !isReplaced(notification)) entry.status = 'sending'
      else {
        stale ??= new Set()
        stale.add(notification.id)
      }
    }
    const current =
      stale === undefined ? requests : requests.filter(({ notification }) => !stale.has(notification.id))
    if (current.length === 0) return { refused: stale ?? noIds, until: Number.POSITIVE_INFINITY }
    // From the asking, not from the answer: a process that was stopped in between must not believe in an old right.
    const at = clock.monotonic()
    const giving = store.begin(current)
    if (!(giving instanceof Promise)) return begun(current, stale, giving, at)
    return giving.then(
      (given) => begun(current, stale, given, at),
      (error) => {
        end(current, () => true, true)
        throw error
      },
    )
  }
}
