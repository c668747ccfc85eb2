/**
 * The rate limits of a tenant and of its modules. They count acceptances: a notification over the limit is accepted all
 * the same, waits in the throttle queue of its module (throttle-queue.ts), and is decided for its recipient when its turn
 * comes. This file is the interface to the queues of all tenants (throttle-queues.ts): verdicts, turns, usage.
 */

import { delayingLimit, type Notification, type RuleReport } from '../../model.ts'
import type { Policy } from '../../policy/policy.ts'
import type { Caller, ThrottleUsage } from '../../stages.ts'
import type { UndoList } from '../../undo.ts'
import { type Candidate, undecidedVerdict } from '../candidate.ts'
import type { Place, ThrottleQueue } from './throttle-queue.ts'
import { createThrottleQueues, type Promote, type ThrottleQueuesOptions } from './throttle-queues.ts'
import type { WindowUse } from './windows.ts'

export interface TenantThrottleOptions extends ThrottleQueuesOptions {
  readonly policy: Pick<Policy, 'version'>
}

interface Passed {
  /** Takes candidates out of the throttle queue that were suppressed after they had joined it; passed ones stay counted. */
  releaseSuppressed(): void
}

/** The turn of a notification: passed and counted at this time, or still in the throttle queue until then. */
interface Turn {
  readonly passed: boolean
  readonly at: number
}

export interface TenantThrottle {
  /**
   * Counts the candidates that may pass now and gives the others the verdict of a delay. All are of one tenant. Undefined
   * for a tenant without limits; a promise only where the throttle queue is restored from the store.
   */
  pass(candidates: readonly Candidate[], undo: UndoList): Passed | undefined | Promise<Passed | undefined>
  /** Takes the turn of a due notification in the throttle queue. */
  turn(notification: Notification): Promise<Turn>
  /** Removes notifications that end while they are in the throttle queue; passed ones stay counted. */
  giveBack(notifications: readonly Notification[]): Promise<void>
  preview(each: Candidate): Promise<void>
  /** Gives a candidate the verdict that it stays in the throttle queue until then. */
  wait(each: Candidate, at: number): void
  /** Reports the usage of the limits; empty where there are none. */
  usage(caller: Caller): readonly ThrottleUsage[] | Promise<readonly ThrottleUsage[]>
  /** Returns the current place, which may be earlier than the stored one; undefined outside the throttle queue. */
  placeOf(notification: Notification): Promise<number | undefined>
  /** Returns the limit that delays it. */
  behind(notification: Notification): 'tenant' | 'module' | undefined
  /** Restores the throttle queues that are not empty, and begins to promote. */
  start(promote: Promote): Promise<void>
  stop(): Promise<void>
}

export function createTenantThrottle(options: TenantThrottleOptions): TenantThrottle {
  const { store, clock, ratesOf, marginMs, policy, onError } = options
  const queues = createThrottleQueues({ store, clock, ratesOf, marginMs, onError })

  function delay(
    each: Candidate,
    { at, behind }: Pick<Place, 'at' | 'behind'>,
    rules: readonly RuleReport[],
  ): void {
    const { expiresAt = at } = each.notification
    // If it would expire before its place, it is scheduled for its expiry instead.
    each.verdict = undecidedVerdict(policy.version, Math.min(at, expiresAt), `${behind}_limit`, {
      at,
      limit: behind,
      rules,
    })
  }

  const isCritical = ({ notification }: Candidate): boolean => notification.priority === 'critical'

  function pass(queue: ThrottleQueue, candidates: readonly Candidate[], undo: UndoList): Passed {
    const now = clock.now()
    /** By candidate; undefined after its release. */
    const places: (Place | undefined)[] = []
    let rules: readonly RuleReport[] | undefined
    let waiting = 0

    function release(index: number): void {
      const place = places[index]
      if (place === undefined) return
      places[index] = undefined
      const { id, module, tenant } = candidates[index]!.notification
      if (place.waits) queue.leave(module, id, clock.now())
      else queue.uncount(module, place.at, clock.now())
      queues.rearm(tenant)
    }

    undo.add(() => {
      for (let index = places.length - 1; index >= 0; index -= 1) release(index)
    })
    for (const each of candidates) {
      const { id, module, expiresAt } = each.notification
      // A critical notification passes and counts all the same.
      if (isCritical(each)) {
        queue.count(module, now)
        places.push({ at: now, waits: false, behind: 'tenant' })
        continue
      }
      const use = rules === undefined && queue.peek(module, now).waits ? queue.use(module, now) : undefined
      if (use !== undefined) rules = use.map((row) => ruleReport(row, now))
      const place = queue.join(module, id, now, expiresAt)
      places.push(place)
      if (!place.waits) continue
      waiting += 1
      delay(each, place, rules ?? [])
    }
    return {
      releaseSuppressed() {
        for (let index = candidates.length - 1; waiting > 0 && index >= 0; index -= 1)
          if (places[index]?.waits === true && candidates[index]!.verdict?.status === 'suppressed')
            release(index)
      },
    }
  }

  return {
    pass(candidates, undo) {
      const tenant = candidates[0]?.notification.tenant
      const queue = tenant === undefined ? undefined : queues.of(tenant)
      if (queue instanceof Promise)
        return queue.then((restored) => restored && pass(restored, candidates, undo))
      return queue && pass(queue, candidates, undo)
    },
    async turn({ id, tenant, module }) {
      const now = clock.now()
      const turn = (await queues.of(tenant))?.turn(module, id, clock.now())
      if (turn === undefined) return { passed: true, at: now }
      queues.rearm(tenant)
      return turn
    },
    async giveBack(notifications) {
      for (const { id, tenant, module } of notifications.filter(
        (each) => delayingLimit(each) !== undefined,
      )) {
        const queue = await queues.of(tenant)
        if (queue?.leave(module, id, clock.now()) === true) queues.rearm(tenant)
      }
    },
    async preview(each) {
      const { tenant, module } = each.notification
      const queue = isCritical(each) ? undefined : await queues.of(tenant)
      const now = clock.now()
      const place = queue?.peek(module, now)
      if (queue === undefined || place?.waits !== true) return
      delay(
        each,
        place,
        queue.use(module, now).map((row) => ruleReport(row, now)),
      )
    },
    wait(each, at) {
      const { decision } = each.notification
      delay(each, { at, behind: delayingLimit(each.notification) ?? 'tenant' }, decision.rules)
    },
    usage({ tenant, module }) {
      if (!queues.isLimited(tenant)) return []
      const use = (queue: ThrottleQueue | undefined) => queue?.use(module, clock.now()) ?? []
      const queue = queues.of(tenant)
      return queue instanceof Promise ? queue.then(use) : use(queue)
    },
    async placeOf(notification) {
      const { id, tenant, module } = notification
      if (delayingLimit(notification) === undefined) return undefined
      return (await queues.of(tenant))?.placeOf(module, id)
    },
    behind: delayingLimit,
    start: queues.start,
    stop: queues.stop,
  }
}

function ruleReport({ of, window, used, max, remaining, freesAt }: WindowUse, now: number): RuleReport {
  return {
    limit: of,
    window,
    used,
    max,
    remaining,
    freesAt: Number.isFinite(freesAt) ? freesAt : null,
    admits: freesAt <= now,
  }
}
