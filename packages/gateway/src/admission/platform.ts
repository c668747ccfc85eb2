/**
 * The limits of a tenant and of its modules. They count acceptances: what they do not admit now is accepted all the
 * same, stands in the line of its module (line.ts), and is decided for its recipient only when its turn comes. This is
 * what the stages see of the lines of all tenants (lines.ts): verdicts, turns, what is left.
 */
import type { Caller, PlatformUsage } from '../doors.ts'
import { delayingLimit, type Notification, type RuleReport } from '../model.ts'
import { type Case, undecidedVerdict } from './case.ts'
import type { Line, Place } from './line.ts'
import { createLines, type LinesOptions } from './lines.ts'
import type { WindowUse } from './windows.ts'

export interface PlatformOptions extends LinesOptions {
  readonly policyVersion: string
}

export interface Passed {
  /** Uncounts these of the cases, or all: nothing was accepted. */
  takeBack(of?: readonly Case[]): Promise<void>
}

/** Whether it has passed, counted at this instant, or stands in the line until then. */
export interface Turn {
  readonly passed: boolean
  readonly at: number
}

export interface PlatformLine {
  /** Counts those that may pass now; gives the others the verdict that they wait. All of one tenant. */
  pass(cases: readonly Case[]): Promise<Passed>
  /** For what is due and stood in the line. */
  turn(notification: Notification): Promise<Turn>
  /** Takes those out that end while they still stand in the line; what has passed stays counted. */
  giveBack(notifications: readonly Notification[]): Promise<void>
  preview(each: Case): Promise<void>
  /** The verdict on what stands in the line until then. */
  wait(each: Case, at: number): void
  /** What the limits leave. Empty where there are none. */
  usage(caller: Caller): readonly PlatformUsage[] | Promise<readonly PlatformUsage[]>
  /** Its place now, which may be earlier than the one on record; undefined where it does not stand in a line. */
  placeOf(notification: Notification): Promise<number | undefined>
  /** Which of the two makes it wait. */
  behind(notification: Notification): 'tenant' | 'module' | undefined
  /** Rebuilds the lines in which somebody stands. */
  start(): Promise<void>
  stop(): Promise<void>
}

const uncounted: Passed = { takeBack: async () => {} }

export function createPlatformLine(options: PlatformOptions): PlatformLine {
  const { clock, policyVersion } = options
  const lines = createLines(options)

  function delay(
    each: Case,
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

  const isCritical = ({ notification }: Case): boolean => notification.priority === 'critical'

  function pass(line: Line, cases: readonly Case[]): ReadonlyMap<Case, Place> {
    const now = clock.now()
    const places = new Map<Case, Place>()
    let rules: readonly RuleReport[] | undefined
    for (const each of cases) {
      const { id, module, expiresAt } = each.notification
      // What is critical passes, and counts all the same.
      if (isCritical(each)) {
        line.count(module, now)
        places.set(each, { at: now, waits: false, behind: 'tenant' })
        continue
      }
      const use = rules === undefined && line.peek(module, now).waits ? line.use(module, now) : undefined
      if (use !== undefined) rules = use.map((row) => ruleReport(row, now))
      const place = line.join(module, id, now, expiresAt)
      places.set(each, place)
      if (place.waits) delay(each, place, rules ?? [])
    }
    return places
  }

  /** The way back for those who have passed or joined the line. */
  function returning(line: Line, cases: readonly Case[], places: ReadonlyMap<Case, Place>): Passed {
    const left = new Map(places)
    return {
      async takeBack(of = cases) {
        for (const each of of.toReversed()) {
          const place = left.get(each)
          if (place === undefined || !left.delete(each)) continue
          const { id, module, tenant } = each.notification
          if (place.waits) line.leave(module, id, clock.now())
          else line.uncount(module, place.at, clock.now())
          lines.tend(tenant)
        }
      },
    }
  }

  return {
    async pass(cases) {
      const tenant = cases[0]?.notification.tenant
      const line = tenant === undefined ? undefined : await lines.of(tenant)
      return line === undefined ? uncounted : returning(line, cases, pass(line, cases))
    },
    async turn({ id, tenant, module }) {
      const now = clock.now()
      const turn = (await lines.of(tenant))?.turn(module, id, clock.now())
      if (turn === undefined) return { passed: true, at: now }
      lines.tend(tenant)
      return turn
    },
    async giveBack(notifications) {
      for (const { id, tenant, module } of notifications.filter(
        (each) => delayingLimit(each) !== undefined,
      )) {
        const line = await lines.of(tenant)
        if (line?.leave(module, id, clock.now()) === true) lines.tend(tenant)
      }
    },
    async preview(each) {
      const { tenant, module } = each.notification
      const line = isCritical(each) ? undefined : await lines.of(tenant)
      const now = clock.now()
      const place = line?.peek(module, now)
      if (line === undefined || place?.waits !== true) return
      delay(
        each,
        place,
        line.use(module, now).map((row) => ruleReport(row, now)),
      )
    },
    wait(each, at) {
      const { decision } = each.notification
      delay(each, { at, behind: delayingLimit(each.notification) ?? 'tenant' }, decision.rules)
    },
    usage({ tenant, module }) {
      if (!lines.isLimited(tenant)) return []
      const use = (line: Line | undefined) => line?.use(module, clock.now()) ?? []
      const line = lines.of(tenant)
      return line instanceof Promise ? line.then(use) : use(line)
    },
    async placeOf(notification) {
      const { id, tenant, module } = notification
      if (delayingLimit(notification) === undefined) return undefined
      return (await lines.of(tenant))?.placeOf(module, id)
    },
    behind: delayingLimit,
    start: lines.start,
    stop: lines.stop,
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
