/** The answers of the HTTP API, as far as the command line reads them (docs/reference/http-api.md). */

export interface RuleAnswer {
  readonly limit: string
  readonly window: string
  readonly used: number
  readonly max: number
  readonly remaining: number
  readonly freesAt: string | null
  readonly admits: boolean
}

export interface DecisionAnswer {
  readonly outcome: string
  readonly reason?: string
  readonly limit?: string
  readonly at?: string
  readonly policyVersion: string
  readonly rules: readonly RuleAnswer[]
}

export interface EventAnswer {
  readonly at: string
  readonly status: string
  readonly reason?: string
  readonly provider?: string
  readonly account?: string
  readonly attempt?: number
  readonly detail?: string
}

export interface NotificationAnswer {
  readonly notificationId: string
  readonly tenant: string
  readonly module: string
  readonly recipient: string
  readonly channel: string
  readonly requestedChannel?: string
  readonly category: string
  readonly template: string | null
  readonly priority: string
  readonly status: string
  readonly sendAt: string | null
  readonly createdAt: string
  readonly expiresAt: string | null
  readonly decision: DecisionAnswer
  readonly digestId?: string
  readonly timeline: readonly EventAnswer[]
}

/** A record of a topic that could not be accepted, among the dead letters. */
export interface RecordAnswer {
  readonly tenant: string | null
  readonly record: { readonly topic: string; readonly partition: number; readonly offset: number }
  readonly timeline: readonly EventAnswer[]
}

export interface ExplainedAnswer extends NotificationAnswer {
  readonly explanation: { readonly verdict: string; readonly text: string }
}

export interface ListAnswer<Item> {
  readonly items: readonly Item[]
  readonly nextCursor: string | null
}

export interface LimitUseAnswer {
  readonly limit: string
  readonly window: string
  readonly used: number
  readonly max: number
  readonly remaining: number
  readonly reserved: number
  readonly freesAt: string | null
}

export interface PoolsAnswer {
  readonly pools: readonly {
    readonly channel: string
    readonly provider: string
    readonly rate: string
    /** Calls a second that the accounts which are not out carry; null where one of them has no rate. */
    readonly carries: number | null
    readonly accounts: readonly {
      readonly id: string
      readonly rate: string
      readonly used: number
      readonly status: string
      readonly blockedUntil: string | null
      /** The account is out until this instant, for any reason. */
      readonly outUntil: string | null
      readonly outBecause: 'rate_limited' | 'breaker' | 'hold' | null
      readonly learnedRate: number | null
      readonly concurrency: number
      readonly outSince: string | null
      readonly inFlight: number
      readonly windows: readonly { readonly window: string; readonly used: number; readonly max: number }[]
      readonly p99Ms: number | null
      readonly perMinute: Readonly<Record<'delivered' | 'failed' | 'rateLimited', number>>
    }[]
  }[]
}

export interface HoldsAnswer {
  readonly items: readonly {
    readonly name: string
    readonly account?: string
    readonly tenant?: string
    readonly channel?: string
    readonly category?: string
    readonly since: string
    readonly until: string
    readonly reason: string
  }[]
}

export interface BacklogAnswer {
  readonly groups: readonly {
    readonly key: string
    readonly count: number
    readonly oldestDueAt: string | null
    readonly nextAt: string | null
    readonly emptyAt: string | null
    readonly emptyIs: string
    readonly leaving: Readonly<Record<'1m' | '10m' | '1h' | '1d' | 'later', number>>
  }[]
  readonly departures?: unknown
}

/** The figures of all tenants are absent for a tenant's own view. */
export interface OverviewAnswer {
  readonly at: string
  readonly dueNow: number
  readonly oldestDueMs: number
  readonly deadLetters: { readonly byCause: Readonly<Record<string, number>> }
  readonly rates?: Readonly<
    Record<'accepted' | 'delivered' | 'suppressed' | 'rateLimited' | 'requests4xx' | 'requests5xx', number>
  >
  readonly latency?: Readonly<
    Record<'acceptP50Ms' | 'acceptP99Ms' | 'latenessP50Ms' | 'latenessP99Ms', number | null>
  >
  readonly accounts?: Readonly<Record<string, number>>
  readonly unaccounted?: number
  /** The side to which a trouble belongs, the gateway's own or a provider's. */
  readonly cause?: { readonly side: string; readonly text: string }
  readonly problems?: readonly {
    readonly severity: string
    readonly text: string
    readonly until?: string
  }[]
  readonly series?: unknown
}
