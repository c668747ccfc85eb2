/**
 * Delivers alerts to the operator by a signed POST (Standard Webhooks). An alert is tried a few times and then
 * dropped and logged: it describes the present, and `GET /pools` shows the same. When hundreds of accounts break at
 * once, a few calls run at a time and the rest wait in a bounded queue, from which old alerts are dropped.
 */
import type { Alert, Alerts, Clock } from '../ports.ts'
import { parseSecret, sign } from '../providers/webhook/signature.ts'

export interface AlertWebhookOptions {
  /** Address of the operator's receiver; it is trusted. */
  readonly url: string
  /** Signing key: `whsec_` and a key in base64. */
  readonly secret: string | undefined
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

const attemptsMax = 4
const deadlineMs = 5_000
const waitMs = 1_000
/** How long a stop waits for calls under way, ms. */
const graceMs = 500
/** Calls at once. */
const sendersMax = 8
/** Most alerts that wait: above it an alert is dropped, and logged like every other. */
const waitingMax = 1_000
/** Age at which a waiting alert is dropped: delivered later it would mislead the operator. */
const staleMs = 60_000

export function createAlertWebhook({ url, secret, clock, onError }: AlertWebhookOptions): Alerts {
  const key = secret === undefined ? undefined : parseSecret(secret)
  const waiting: { readonly alert: Alert; readonly since: number }[] = []
  const senders = new Set<Promise<void>>()
  const closing = new AbortController()

  async function post(alert: Alert): Promise<void> {
    const aheadMs = clock.aheadMs?.() ?? 0
    const body = JSON.stringify({ ...alert, at: new Date(alert.at + aheadMs), ...untilOf(alert, aheadMs) })
    const timestamp = Math.floor((clock.now() + aheadMs) / 1_000)
    const response = await fetch(url, {
      method: 'POST',
      redirect: 'manual',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'Sluice',
        'webhook-id': alert.id,
        'webhook-timestamp': String(timestamp),
        ...(key === undefined ? {} : { 'webhook-signature': sign(key, alert.id, timestamp, body) }),
      },
      body,
      signal: AbortSignal.any([AbortSignal.timeout(deadlineMs), closing.signal]),
    })
    await response.body?.cancel()
    if (!response.ok) throw new Error(`answered ${response.status}`)
  }

  async function tell(alert: Alert): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await post(alert)
      } catch (error) {
        if (attempt === attemptsMax || closing.signal.aborted) throw error
        await new Promise<void>((resolve) => clock.at(clock.now() + waitMs * 2 ** (attempt - 1), resolve))
      }
    }
  }

  async function work(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const { alert, since } = next
      try {
        if (clock.now() - since > staleMs) throw new Error('those before it were not heard in time')
        await tell(alert)
      } catch (error) {
        drop(alert, error)
      }
    }
  }

  function drop(alert: Alert, error: unknown): void {
    const of = 'account' in alert ? alert.account : `${alert.category} of ${alert.tenant}`
    onError(`alert ${alert.type} of ${of}`, error)
  }

  return {
    send(alert) {
      if (waiting.length >= waitingMax) {
        drop(alert, new Error(`${waitingMax} alerts wait already`))
        return
      }
      waiting.push({ alert, since: clock.now() })
      if (senders.size >= sendersMax) return
      const sender = work().finally(() => senders.delete(sender))
      senders.add(sender)
    },
    async close() {
      // A call under way still gets its answer; an alert that waits for its next attempt is dropped with the process.
      const timer = Promise.withResolvers<void>()
      const grace = setTimeout(timer.resolve, graceMs)
      await Promise.race([Promise.all(senders), timer.promise])
      clearTimeout(grace)
      closing.abort()
    },
  }
}

function untilOf({ until }: Alert, aheadMs: number): { readonly until?: Date } {
  return until === undefined ? {} : { until: new Date(until + aheadMs) }
}
