/**
 * Tells whoever is on call by a signed POST (Standard Webhooks). An alert is tried a few times and then dropped and
 * logged: it says that something is wrong now, and `GET /pools` says so as well. What waits is bounded.
 */
import type { Alert, Alerts, Clock } from '../ports.ts'
import { parseSecret, sign } from './providers/webhook-signature.ts'

export interface AlertWebhookOptions {
  /** Of the operator, and trusted. */
  readonly url: string
  /** `whsec_` and a key in base64. */
  readonly secret: string | undefined
  readonly clock: Clock
  readonly onTrouble: (what: string, error: unknown) => void
}

const attemptsMax = 4
const deadlineMs = 5_000
const waitMs = 1_000
/** How long a stop waits for those that are under way. */
const graceMs = 500
/** Alerts on their way at once: above it one is dropped, and logged as every other. */
const underWayMax = 256

export function createAlertWebhook({ url, secret, clock, onTrouble }: AlertWebhookOptions): Alerts {
  const key = secret === undefined ? undefined : parseSecret(secret)
  const underWay = new Set<Promise<void>>()
  const closing = new AbortController()

  async function post(alert: Alert): Promise<void> {
    const body = JSON.stringify({ ...alert, at: new Date(alert.at), ...untilOf(alert) })
    const timestamp = Math.floor(clock.now() / 1_000)
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

  return {
    send(alert) {
      const what = `alert ${alert.type} of ${alert.account}`
      if (underWay.size >= underWayMax) {
        onTrouble(what, new Error('too many alerts are on their way'))
        return
      }
      const told = tell(alert)
        .catch((error) => onTrouble(what, error))
        .finally(() => underWay.delete(told))
      underWay.add(told)
    },
    async close() {
      // What is on its way gets an answer; what waits for its next attempt is given up with the process.
      const timer = Promise.withResolvers<void>()
      const grace = setTimeout(timer.resolve, graceMs)
      await Promise.race([Promise.all(underWay), timer.promise])
      clearTimeout(grace)
      closing.abort()
    },
  }
}

function untilOf({ until }: Alert): { readonly until?: Date } {
  return until === undefined ? {} : { until: new Date(until) }
}
