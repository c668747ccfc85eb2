/**
 * The limits of a tenant and of its modules. They count acceptances: what they do not admit now is accepted all the
 * same, stands in the line of its module (line.ts), and is decided for its recipient only when its turn comes. This is
 * what the stages see of the lines of all tenants (throttle-queues.ts): verdicts, turns, what is left.
 */

import { delayingLimit, type Notification, type RuleReport } from '../../model.ts'
import type { Caller, ThrottleUsage } from '../../stages.ts'
import { type Candidate, undecidedVerdict } from '../candidate.ts'
import type { Place, ThrottleQueue } from './throttle-queue.ts'
import { createThrottleQueues, type ThrottleQueuesOptions } from './throttle-queues.ts'
import type { WindowUse } from './windows.ts'

export interface TenantThrottleOptions extends ThrottleQueuesOptions {
  readonly policyVersion: string
}

export interface Passed {
  /** Uncounts these of the cases, or all: nothing was accepted. */
  takeBack(of?: readonly Candidate[]): Promise<void>
}

/** Whether it has passed, counted at this instant, or stands in the line until then. */
export interface Turn {
  readonly passed: boolean
  readonly at: number
}

export interface TenantThrottle {
  /** Counts those that may pass now; gives the others the verdict that they wait. All of one tenant. */
  pass(candidates: readonly Candidate[]): Promise<Passed>
  /** For what is due and stood in the line. */
  turn(notification: Notification): Promise<Turn>
  /** Takes those out that end while they still stand in the line; what has passed stays counted. */
  giveBack(notifications: readonly Notification[]): Promise<void>
  preview(each: Candidate): Promise<void>
  /** The verdict on what stands in the line until then. */
  wait(each: Candidate, at: number): void
  /** What the limits leave. Empty where there are none. */
  usage(caller: Caller): readonly ThrottleUsage[] | Promise<readonly ThrottleUsage[]>
  /** Its place now, which may be earlier than the one on record; undefined where it does not stand in a line. */
  placeOf(notification: Notification): Promise<number | undefined>
  /** Which of the two makes it wait. */
  behind(notification: Notification): 'tenant' | 'module' | undefined
  /** Rebuilds the lines in which somebody stands. */
  start(): Promise<void>
  stop(): Promise<void>
}

const uncounted: Passed = { takeBack: async () => {} }

export function createTenantThrottle(options: TenantThrottleOptions): TenantThrottle {
  const { clock, policyVersion } = options
  const queues = createThrottleQueues(options)

  function delay(
    each: Candidate,
    { at, behind }: Pick<Place, 'at' | 'behind'>,
    rules: readonly RuleReport[],
  ): void {
    const { expiresAt = at } = each.notification
    // What is of no use by then waits for its end only.
    each.verdict = undecidedVerdict(policyVersion, Math.min(at, expiresAt), `${behind}_limit`, {
      at,
      limit: behind,
      rules,
    })
  }

  const isCritical = ({ notification }: Candidate): boolean => notification.priority === 'critical'

  function pass(queue: ThrottleQueue, candidates: readonly Candidate[]): ReadonlyMap<Candidate, Place> {
    const now = clock.now()
    const places = new Map<Candidate, Place>()
    let rules: readonly RuleReport[] | undefined
    for (const each of candidates) {
      const { id, module, expiresAt } = each.notification
      // What is critical passes, and counts all the same.
      if (isCritical(each)) {
        queue.count(module, now)
        places.set(each, { at: now, waits: false, behind: 'tenant' })
        continue
      }
      const use = rules === undefined && queue.peek(module, now).waits ? queue.use(module, now) : undefined
      if (use !== undefined) rules = use.map((row) => ruleReport(row, now))
      const place = queue.join(module, id, now, expiresAt)
      places.set(each, place)
      if (place.waits) delay(each, place, rules ?? [])
    }
    return places
  }

  /** The way back for those who have passed or joined the line. */
  function returning(
    queue: ThrottleQueue,
    candidates: readonly Candidate[],
    places: ReadonlyMap<Candidate, Place>,
  ): Passed {
    const left = new Map(places)
    return {
      async takeBack(of = candidates) {
        for (const each of of.toReversed()) {
          const place = left.get(each)
          if (place === undefined || !left.delete(each)) continue
          const { id, module, tenant } = each.notification
          if (place.waits) queue.leave(module, id, clock.now())
          else queue.uncount(module, place.at, clock.now())
          queues.tend(tenant)
        }
      },
    }
  }

  return {
    async pass(candidates) {
      const tenant = candidates[0]?.notification.tenant
      const queue = tenant === undefined ? undefined : await queues.of(tenant)
      return queue === undefined ? uncounted : returning(queue, candidates, pass(queue, candidates))
    },
    async turn({ id, tenant, module }) {
      const now = clock.now()
      const turn = (await queues.of(tenant))?.turn(module, id, clock.now())
      if (turn === undefined) return { passed: true, at: now }
      queues.tend(tenant)
      return turn
    },
    async giveBack(notifications) {
      for (const { id, tenant, module } of notifications.filter(
        (each) => delayingLimit(each) !== undefined,
      )) {
        const queue = await queues.of(tenant)
        if (queue?.leave(module, id, clock.now()) === true) queues.tend(tenant)
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
