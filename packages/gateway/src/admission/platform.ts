/**
 * The limits of a tenant and of its modules. They count acceptances: what they do not admit now is accepted all the
 * same, waits for the instant that they promise, and is decided for its recipient only then.
 */
import { type Limit, limit, type Window } from '@sluice/limits'
import type { Caller, PlatformUsage } from '../doors.ts'
import type { Notification } from '../model.ts'
import type { Booking, Clock, LimitRequest, LimitState, Subject } from '../ports.ts'
import { type Case, ruleReports, undecidedVerdict } from './case.ts'

export interface PlatformRates {
  /** All modules of a tenant together; none: unlimited. */
  readonly tenant: readonly Window[]
  /** Each module of it. */
  readonly module: readonly Window[]
}

export interface PlatformOptions {
  readonly state: LimitState
  readonly clock: Clock
  readonly ratesOf: (tenant: string) => PlatformRates
  readonly policyVersion: string
}

export interface Passed {
  /** Uncounts these of the cases, or all: nothing was accepted. */
  takeBack(of?: readonly Case[]): Promise<void>
}

export interface PlatformLine {
  /** Counts those that may pass now; gives the others the verdict that they wait. */
  pass(cases: readonly Case[]): Promise<Passed>
  /** Frees the places of those that end while they still wait for theirs; what has passed stays counted. */
  giveBack(notifications: readonly Notification[]): Promise<void>
  preview(each: Case): Promise<void>
  /** What the limits leave. Empty where there are none. */
  usage(caller: Caller): Promise<readonly PlatformUsage[]>
  /** Which of the two makes it wait. */
  behind(notification: Notification): 'tenant' | 'module' | undefined
}

export const tenantSubject = (tenant: string): Subject => ({
  key: `platform:${encodeURIComponent(tenant)}`,
  tenant,
})
export const moduleStream = (module: string): string => `module=${module}`
export const tenantStream = 'tenant'
const textOf = (window: Window): string => window.text

export function createPlatformLine(options: PlatformOptions): PlatformLine {
  const { state, clock, ratesOf, policyVersion } = options
  const rules = new Map<string, readonly Limit[]>()

  function rulesOf(tenant: string, module: string): readonly Limit[] {
    const key = `${tenant}\n${module}`
    let known = rules.get(key)
    if (known === undefined) {
      const rates = ratesOf(tenant)
      known = [
        ...(rates.tenant.length === 0
          ? []
          : [limit('tenant', rates.tenant.map(textOf), { stream: tenantStream })]),
        ...(rates.module.length === 0
          ? []
          : [limit('module', rates.module.map(textOf), { stream: moduleStream(module) })]),
      ]
      if (rules.size > 10_000) rules.clear()
      rules.set(key, known)
    }
    return known
  }

  function requestOf({ notification: { id, tenant, module } }: Case): LimitRequest | undefined {
    const of = rulesOf(tenant, module)
    return of.length === 0 ? undefined : { subject: tenantSubject(tenant), id, rules: of, firm: true }
  }

  function conclude(each: Case, booking: Booking, now: number): void {
    if (booking.at <= now) return
    const by = booking.limit === 'tenant' ? 'tenant' : 'module'
    // What is of no use by then waits for its end only.
    const dueAt = Math.min(booking.at, each.notification.expiresAt ?? booking.at)
    each.verdict = undecidedVerdict(policyVersion, dueAt, `${by}_limit`, {
      at: booking.at,
      limit: by,
      rules: ruleReports(booking),
    })
  }

  function behind({ status, decision }: Notification): 'tenant' | 'module' | undefined {
    if (status !== 'scheduled') return undefined
    if (decision.reason === 'tenant_limit') return 'tenant'
    return decision.reason === 'module_limit' ? 'module' : undefined
  }

  return {
    async pass(cases) {
      const counted: { readonly each: Case; readonly request: LimitRequest }[] = []
      for (const each of cases) {
        const request = requestOf(each)
        if (request !== undefined) counted.push({ each, request })
      }
      // What is critical passes, and counts all the same.
      const [urgent, asking] = [counted.filter(isCritical), counted.filter((one) => !isCritical(one))]
      if (urgent.length > 0) await state.force(urgent.map(({ request }) => request))
      if (asking.length > 0) {
        const bookings = await state.reserve(asking.map(({ request }) => request))
        const now = clock.now()
        for (const [index, { each }] of asking.entries()) conclude(each, bookings[index]!, now)
      }
      return {
        async takeBack(of) {
          const back = of === undefined ? counted : counted.filter(({ each }) => of.includes(each))
          if (back.length > 0) await state.cancel(back.map(({ request }) => request))
        },
      }
    },
    async preview(each) {
      const request = requestOf(each)
      if (request === undefined || isCritical({ each })) return
      const [booking] = await state.preview([request])
      conclude(each, booking!, clock.now())
    },
    async giveBack(notifications) {
      const now = clock.now()
      const waiting = notifications.filter(
        (each) => behind(each) !== undefined && (each.decision.at ?? each.dueAt) > now,
      )
      if (waiting.length === 0) return
      await state.cancel(waiting.map(({ id, tenant }) => ({ subject: tenantSubject(tenant), id })))
    },
    async usage({ tenant, module }) {
      const of = rulesOf(tenant, module)
      if (of.length === 0) return []
      const [booking] = await state.preview([{ subject: tenantSubject(tenant), id: 'usage', rules: of }])
      const windows = of.flatMap((rule) => rule.windows)
      return booking!.rules.map(({ limit: name, window, max, remaining, resetAt }, index) => ({
        of: name === 'tenant' ? 'tenant' : 'module',
        window,
        windowMs: windows[index]!.windowMs,
        max,
        remaining,
        resetAt,
      }))
    },
    behind,
  }
}

const isCritical = ({ each }: { readonly each: Case }): boolean => each.notification.priority === 'critical'
