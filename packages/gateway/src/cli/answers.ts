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
    readonly accounts: readonly {
      readonly id: string
      readonly rate: string
      readonly used: number
      readonly status: string
      readonly blockedUntil: string | null
      /** The account is out until this instant, for any reason. */
      readonly outUntil: string | null
      readonly outBecause: string | null
      readonly learnedRate: number | null
      readonly concurrency: number
    }[]
  }[]
}
