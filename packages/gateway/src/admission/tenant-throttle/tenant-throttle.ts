/**
 * The rate limits of a tenant and of its modules. They count acceptances: a notification over the limit is accepted all
 * the same, waits in the throttle queue of its module, and is decided for its recipient when its turn comes. This file
 * makes verdicts, turns and reports of the answers of the throttle state (ports/tenants.ts), which holds the queues.
 */

import { delayingLimit, type Notification, type RuleReport } from '../../model.ts'
import type { Policy } from '../../policy/policy.ts'
import type {
  Promote,
  ThrottlePassed,
  ThrottlePlace,
  ThrottleRequest,
  ThrottleState,
  ThrottleTurn,
  WindowUse,
} from '../../ports/tenants.ts'
import type { Clock } from '../../ports.ts'
import type { Caller, ThrottleUsage } from '../../stages.ts'
import type { UndoList } from '../../undo.ts'
import { type Candidate, notePass, undecidedVerdict } from '../candidate.ts'

export interface TenantThrottleOptions {
  readonly state: ThrottleState
  readonly clock: Pick<Clock, 'now'>
  readonly policy: Pick<Policy, 'version'>
}

interface Passed extends Pick<ThrottlePlace, 'generation'> {
  /** Takes candidates out of the throttle queue that were suppressed after they had joined it; passed ones stay counted. */
  releaseSuppressed(): void | Promise<void>
}

export interface TenantThrottle {
  /**
   * Counts the candidates that may pass now and gives the others the verdict of a delay. All are of one tenant. Undefined
   * for a tenant without limits; a promise only where the state has to wait.
   */
  pass(candidates: readonly Candidate[], undo: UndoList): Passed | undefined | Promise<Passed | undefined>
  /** Takes the turn of a due notification in the throttle queue. */
  turn(notification: Notification): Promise<ThrottleTurn>
  /**
   * Puts a notification back whose turn came at that time and could not be written: it counts once, and its next turn is
   * the same one. To be removed by `giveBack`, or by `leaveCounted` if its turn is on record, where it does not wait any more.
   */
  putBack(notification: Notification, turn: Pick<ThrottleTurn, 'at' | 'generation'>): Promise<void>
  /** Removes a notification that was put back although another process has written its turn: it stays counted. */
  leaveCounted(notification: Notification): Promise<void>
  /** Removes notifications that end while they are in the throttle queue; passed ones stay counted. */
  giveBack(notifications: readonly Notification[]): Promise<void>
  preview(candidate: Candidate): Promise<void>
  /** Gives a candidate the verdict that it stays in the throttle queue until then. */
  wait(candidate: Candidate, at: number): void
  /** Reports the usage of the limits; empty where there are none. */
  usage(caller: Caller): readonly ThrottleUsage[] | Promise<readonly ThrottleUsage[]>
  /** Returns the current place, which may be earlier than the stored one; undefined outside the throttle queue. */
  placeOf(notification: Notification): Promise<number | undefined>
  /** Restores the throttle queues that are not empty, and begins to promote. */
  start(promote: Promote): Promise<void>
  stop(): Promise<void>
}

export function createTenantThrottle(options: TenantThrottleOptions): TenantThrottle {
  const { state, clock, policy } = options

  function delay(
    candidate: Candidate,
    { at, behind }: Pick<ThrottlePlace, 'at' | 'behind'>,
    rules: readonly RuleReport[],
  ): void {
    const { expiresAt = at } = candidate.notification
    // If it would expire before its place, it is scheduled for its expiry instead.
    candidate.verdict = undecidedVerdict(policy.version, Math.min(at, expiresAt), `${behind}_limit`, {
      at,
      limit: behind,
      rules,
    })
  }

  const reportsOf = (use: readonly WindowUse[]): readonly RuleReport[] => {
    const now = clock.now()
    return use.map((row) => ruleReport(row, now))
  }

  function passed(
    candidates: readonly Candidate[],
    { places, use = [] }: ThrottlePassed,
    undo: UndoList,
  ): Passed {
    const { tenant } = candidates[0]!.notification
    const released = new Set<number>()

    function release(indexes: readonly number[]): void | Promise<void> {
      const left = indexes.filter((index) => !released.has(index))
      if (left.length === 0) return
      for (const index of left) released.add(index)
      const entries = left.map((index) => ({
        ...keyOf(candidates[index]!.notification),
        place: places[index]!,
      }))
      return state.takeBack(tenant, entries)
    }

    undo.add(() => release([...places.keys()]))
    const isDelayed = places.some(({ waits }) => waits)
    const rules = isDelayed ? reportsOf(use) : []
    for (const [index, place] of places.entries())
      if (place.waits) delay(candidates[index]!, place, rules)
      else notePass(candidates[index]!, place.at)
    const { generation } = places[0]!
    return {
      ...(generation === undefined ? {} : { generation }),
      releaseSuppressed() {
        if (!isDelayed) return
        return release(
          [...places.keys()].filter(
            (index) => places[index]!.waits && candidates[index]!.verdict?.status === 'suppressed',
          ),
        )
      },
    }
  }

  return {
    pass(candidates, undo) {
      const tenant = candidates[0]?.notification.tenant
      if (tenant === undefined) return undefined
      const answer = state.pass(tenant, candidates.map(requestOf))
      if (answer instanceof Promise)
        return answer.then((places) => places && passed(candidates, places, undo))
      return answer && passed(candidates, answer, undo)
    },
    async turn(notification) {
      const [turn] = await state.turn(notification.tenant, [keyOf(notification)])
      return turn!
    },
    async putBack(notification, { at, generation }) {
      const entry = { ...keyOf(notification), at, ...(generation === undefined ? {} : { generation }) }
      await state.putBack(notification.tenant, [entry])
    },
    async leaveCounted(notification) {
      await state.leave(notification.tenant, [{ ...keyOf(notification), isCounted: true }])
    },
    async giveBack(notifications) {
      for (const notification of notifications)
        if (delayingLimit(notification) !== undefined)
          await state.leave(notification.tenant, [keyOf(notification)])
    },
    async preview(candidate) {
      const { tenant, module } = candidate.notification
      const place = isCritical(candidate) ? undefined : await state.preview(tenant, module)
      if (place?.waits === true) delay(candidate, place, reportsOf(place.use))
    },
    wait(candidate, at) {
      const { decision } = candidate.notification
      delay(candidate, { at, behind: delayingLimit(candidate.notification) ?? 'tenant' }, decision.rules)
    },
    usage: ({ tenant, module }) => state.use(tenant, module),
    async placeOf(notification) {
      if (delayingLimit(notification) === undefined) return undefined
      return state.placeOf(notification.tenant, keyOf(notification))
    },
    start: state.start,
    stop: state.stop,
  }
}

const isCritical = ({ notification }: Candidate): boolean => notification.priority === 'critical'
const keyOf = ({ id, module }: Notification): Pick<ThrottleRequest, 'id' | 'module'> => ({ id, module })

function requestOf(candidate: Candidate): ThrottleRequest {
  const { id, module, expiresAt } = candidate.notification
  return { id, module, expiresAt, isCritical: isCritical(candidate) }
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
